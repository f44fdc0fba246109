"""Compare training runs: read their folders, make a table and a figure of their arms (``simlab compare RUN...``)."""

from simlab.llm.compare.figure import draw_comparison
from simlab.llm.compare.histograms import draw_histograms
from simlab.llm.compare.runs import Evaluation, Run, Training, of_set, read_run, set_names
from simlab.llm.compare.scaling import fit_tables
from simlab.llm.compare.table import comparison_table

__all__ = [
    "Evaluation",
    "Run",
    "Training",
    "comparison_table",
    "draw_comparison",
    "draw_histograms",
    "fit_tables",
    "of_set",
    "read_run",
    "set_names",
]
