"""Compare training runs: read their folders, make a table and figures of their arms (``simlab compare RUN...``)."""

from simlab.llm.compare.figure import comparison_figure, histogram_figure
from simlab.llm.compare.runs import EvaluationResult, Run, Training, read_run, select_set, set_names
from simlab.llm.compare.tables import comparison_table, fit_tables

__all__ = [
    "EvaluationResult", "Run", "Training", "comparison_figure", "comparison_table", "fit_tables", "histogram_figure",
    "read_run", "select_set", "set_names",
]  # fmt: skip
