"""Readers of training logs: TRL's completions, verl's rollout dumps, and plain tables."""

from simlab.diagnose.reading.read import Reading, read_log

__all__ = ["Reading", "read_log"]
