"""Every registered estimator gives its reference's numbers on torch tensors; run with ``-m torch``."""

from typing import Any

import pytest
from reference_cases import CASES, SHAPES, TOLERANCE, check_against_reference

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("name", "parameters"), CASES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_tensors(name: str, parameters: dict[str, Any], shape: str, dtype: str) -> None:
    check_against_reference(name, parameters, shape, torch, dtype)
