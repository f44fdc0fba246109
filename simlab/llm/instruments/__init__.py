"""Measurements of the papers while a language model trains: functions of one batch of rollouts, or of two models.

One subject a file: ``pass_at_k``, ``significance``, ``batch_metrics``, ``rare_solutions`` and ``model_changes``. They
work on NumPy arrays on the host, except where a model has to be evaluated. For the metrics of a step they return a dict
of floats, and of lists of floats, by name. An undefined value, such as the mean of nothing, is NaN; a candidate of
probability 0 has a log-probability of minus infinity.

Axes: P prompts or problems, G rollouts, T tokens, N candidates.
"""
