"""Claims of the CW-GRPO paper."""
