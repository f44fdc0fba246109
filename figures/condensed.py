"""What scripts share that condense results into the numbers kept in ``data/``."""

import json
from typing import Any

import numpy as np
import xarray as xr


def provenance(dataset: xr.Dataset) -> dict[str, Any]:
    """The attributes of a result, its configuration and versions as data."""
    return {
        name: json.loads(value) if value.startswith("{") else value for name, value in sorted(dataset.attrs.items())
    }


def rounded(values: np.ndarray, digits: int = 6) -> Any:
    """Nested lists with so many significant digits; null where there is no number."""
    if values.ndim:
        return [rounded(row, digits) for row in values]
    return float(f"{values:.{digits}g}") if np.isfinite(values) else None
