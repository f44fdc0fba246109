"""Plain tables, CSV, JSONL or parquet: a rollout a row, in columns that the user may name (``--columns``)."""

from simlab.diagnose.reading.layouts import ROLES, Format

TABLE = Format("table", {role: role for role in ROLES}, frozenset())
