"""What a preset is made of."""

from typing import Any

Settings = dict[str, Any]  # of ``Sweep``, those that differ from its defaults
