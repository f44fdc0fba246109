"""Claims of the A-GRAE paper."""
