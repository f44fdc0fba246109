"""Settings of the naive simulator that several tests learn with."""

ADAM = {"learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-5}
CANDIDATES = {
    "estimator": "dr_grpo",
    "surrogate": "casp",
    "surrogate_parameters": {"alpha": 0.3, "candidates": 4, "quantile": 0.0, "top_penalty": 1.15},
    "optimizer_parameters": {"learning_rate": 2.0},
    "epochs": 3,
}
