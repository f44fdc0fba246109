"""Diagnose the logs of a training run: estimates of its prompts, groups and solutions, and advice."""
