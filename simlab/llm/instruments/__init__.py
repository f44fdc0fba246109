"""Measurements of the papers while a language model trains: functions of one batch of rollouts, or of two models.

An undefined value is NaN. Axes: P prompts or problems, G rollouts, T tokens, N candidates.
"""
