"""What the papers measure while a language model trains: functions of one batch of rollouts, or of two models.

One subject a file: ``pass_at_k``, ``significance``, ``groups``, ``tokens``, ``entropy_change``, ``rare``, ``tracked``
and ``weight_change``. They run on the host, on NumPy arrays, but for what a model has to be evaluated for. What they
return for the metrics of a step is a dict of floats and of lists of floats by name; what is undefined, such as the mean
of nothing, is NaN there, and a candidate of probability 0 has a log-probability of minus infinity.

Axes: P prompts or problems, G rollouts, T tokens, N candidates.
"""
