"""Measurements of the papers while a language model trains: functions of one batch of rollouts, or of two models.

For the metrics of a step they return floats, and lists of floats, by name. An undefined value, such as the mean of
nothing, is NaN; a candidate of probability 0 has a log-probability of minus infinity. Axes: P prompts or problems, G
rollouts, T tokens, N candidates.
"""
