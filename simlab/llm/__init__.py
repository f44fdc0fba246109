"""Language models trained with the estimators of the simulator: model, checkpoints, sampling.

Needs the extra ``llm`` for checkpoints (``pip install 'simlab[llm]'``). ``import simlab`` does not import it.
"""
