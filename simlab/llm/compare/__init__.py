"""Training runs side by side: their folders read, a table of their arms, a figure (``simlab compare RUN...``)."""

from simlab.llm.compare.figure import draw_comparison
from simlab.llm.compare.runs import Evaluation, Run, Training, read_run
from simlab.llm.compare.table import comparison_table

__all__ = ["Evaluation", "Run", "Training", "comparison_table", "draw_comparison", "read_run"]
