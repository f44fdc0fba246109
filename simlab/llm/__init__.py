"""Language models trained with the simulator's estimators; checkpoints need the extra ``llm``."""
