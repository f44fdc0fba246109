"""Claims of the FADE paper."""
