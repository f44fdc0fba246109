"""Training: supervised warm start, group-sampled policy gradients, evaluation, and the folder that a run fills."""
