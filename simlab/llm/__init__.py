"""Language models trained with the estimators of the simulator: model, checkpoints, sampling.

Checkpoints need the extra ``llm`` (``pip install 'simlab[llm]'``). ``import simlab`` does not import this package.
"""
