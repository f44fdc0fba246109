"""Training language models with the estimators and surrogates of the simulator; ``import simlab`` does not load it."""
