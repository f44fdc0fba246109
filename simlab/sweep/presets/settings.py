"""What a preset is made of."""

from typing import Any

Settings = dict[str, Any]  # the settings of ``Sweep`` that differ from its defaults
