"""Answers about the logs of a training run: what they tell of its prompts, groups and solutions, and what to try."""
