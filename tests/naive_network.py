"""A network once more, prompt by prompt in float64 NumPy: its outputs, and their derivatives layer by layer.

It shares nothing with the library. Parameters are one vector: the arrays by name in the order of the alphabet.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import naive_bank
import naive_interference
import numpy as np
from naive_steps import Naive, Taken

Shapes = dict[str, tuple[int, ...]]


def vector(parameters: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(parameters[name]) for name in sorted(parameters)])


def arrays(flat: np.ndarray, shapes: Shapes) -> dict[str, np.ndarray]:
    parameters, first = {}, 0
    for name in sorted(shapes):
        size = math.prod(shapes[name])
        parameters[name] = flat[first : first + size].reshape(shapes[name])
        first += size
    return parameters


def activated(name: str, x: float) -> tuple[float, float]:
    """The activation, and its derivative."""
    if name == "tanh":
        return math.tanh(x), 1 / math.cosh(x) ** 2
    if name == "relu":
        return max(x, 0.0), float(x > 0)
    scale = math.sqrt(2 / math.pi)
    inner = math.tanh(scale * (x + 0.044715 * x**3))
    steep = scale * (1 + 3 * 0.044715 * x**2) * (1 - inner**2)
    return x * (1 + inner) / 2, (1 + inner) / 2 + x * steep / 2


def forward(parameters: dict[str, np.ndarray], x: np.ndarray, activation: str) -> tuple[np.ndarray, list[Any]]:
    """The outputs for one input; and each hidden layer's inputs, normed values, slopes and spread."""
    tape, layer = [], 1
    while f"weights_{layer}" in parameters:
        z = np.array([row @ x for row in parameters[f"weights_{layer}"]]) + parameters[f"biases_{layer}"]
        normed, spread = z, 0.0
        if f"gains_{layer}" in parameters:
            mean = sum(z) / len(z)
            spread = math.sqrt(sum((each - mean) ** 2 for each in z) / len(z) + 1e-5)
            normed = (z - mean) / spread
            z = parameters[f"gains_{layer}"] * normed + parameters[f"shifts_{layer}"]
        pairs = [activated(activation, each) for each in z]
        tape.append((x, normed, np.array([slope for _, slope in pairs]), spread))
        x, layer = np.array([value for value, _ in pairs]), layer + 1
    tape.append(x)
    return parameters["head"] @ x + parameters["head_biases"], tape


def backward(parameters: dict[str, np.ndarray], tape: list[Any], action: int) -> dict[str, np.ndarray]:
    """The derivatives of the logit of one action by all parameters."""
    gradient = {name: np.zeros_like(values) for name, values in parameters.items()}
    gradient["head"][action], gradient["head_biases"][action] = tape[-1], 1.0
    onto = parameters["head"][action]
    for layer in range(len(tape) - 1, 0, -1):
        x, normed, slopes, spread = tape[layer - 1]
        onto = onto * slopes
        if spread:
            gradient[f"gains_{layer}"], gradient[f"shifts_{layer}"] = onto * normed, onto
            onto = onto * parameters[f"gains_{layer}"]
            onto = (onto - np.mean(onto) - normed * np.mean(onto * normed)) / spread
        gradient[f"weights_{layer}"], gradient[f"biases_{layer}"] = np.outer(onto, x), onto
        onto = parameters[f"weights_{layer}"].T @ onto
    return gradient


def logits_of(problem: Any) -> Callable[[np.ndarray], np.ndarray]:
    """(M, 1, A)."""
    shapes = {name: np.shape(values) for name, values in problem.parameters.items()}

    def logits(flat: np.ndarray) -> np.ndarray:
        parameters = arrays(flat, shapes)
        return np.array([[forward(parameters, x, problem.activation)[0]] for x in problem.inputs])

    return logits


def derivatives_of(problem: Any) -> Callable[[np.ndarray], np.ndarray]:
    """(entries, M, 1, A)."""
    shapes = {name: np.shape(values) for name, values in problem.parameters.items()}

    @functools.lru_cache(maxsize=1)
    def at(content: bytes) -> np.ndarray:
        parameters, rows = arrays(np.frombuffer(content), shapes), []
        for x in problem.inputs:
            logits, tape = forward(parameters, x, problem.activation)
            rows.append([[vector(backward(parameters, tape, action)) for action in range(len(logits))]])
        return np.moveaxis(np.array(rows), 3, 0)

    return lambda flat: at(flat.tobytes())


def records(naive: Naive, steps: list[Taken], hard: np.ndarray) -> list[dict[str, Any]]:
    """The record of each step."""
    rows = naive_bank.records(naive, steps)
    return [row | naive_interference.kind_record(naive, taken, hard) for row, taken in zip(rows, steps, strict=True)]
