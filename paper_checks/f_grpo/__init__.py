"""Claims of the F-GRPO paper."""
