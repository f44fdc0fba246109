"""Measurements of interference with a planted truth: nets with errors of a known size, all else by loops."""

import numpy as np

from simlab.interference import Interference, Push, Record, write_record

FACTS = {
    "step": 1, "estimator": "full", "preconditioner": "none", "optimizer": "sgd", "method": "grpo", "clip": 0.5,
    "learning_rate": 1e-2, "updates": 1, "sketch": 0, "group_size": 8, "temperature": 1.0,
}  # fmt: skip
PACE = 0.005


def measurement(step, sources, targets, kernel, error, *, rates=None, rollouts=33, estimator="full"):
    """A record of a batch of ``sources``, and of ``targets`` that are only watched, with each source's push on each."""
    many, all_texts = len(sources), [*sources, *targets]
    whole, errors = np.zeros((2, len(all_texts), len(all_texts)))
    whole[:many, many:], errors[:many, many:] = kernel, error
    net, net_error = whole.sum(axis=0), np.sqrt((errors**2).sum(axis=0))
    push = Push(np.zeros(len(net)), net, net)
    interference = Interference(
        whole, errors, push, Push(net_error, net_error, net_error), np.stack([net, net]),
        np.zeros((1, len(net))), net[None],
    )  # fmt: skip
    solved = np.full(len(all_texts), 8 / 33) if rates is None else np.concatenate([np.full(many, 0.5), rates])
    facts = FACTS | {"step": step, "estimator": estimator}
    batch = np.arange(len(all_texts)) < many
    return Record(facts, all_texts, batch, np.full(len(all_texts), rollouts), solved, interference)


def planted(steps=4, *, harmful=2, lost=3, harm=-0.6, help_=1.0, error=0.05, seed=0, prompts=12, sources=6):
    """The last ``lost`` of the watched prompts are pushed down by the first ``harmful`` sources, and up by no one."""
    random = np.random.default_rng(seed)
    kernel = np.full((sources, prompts), help_ / sources)
    kernel[:, prompts - lost :] = 0
    kernel[:harmful, prompts - lost :] = harm
    texts = [f"s{number}" for number in range(sources)], [f"p{number}" for number in range(prompts)]
    rates = np.where(np.arange(prompts) >= prompts - lost, 2 / 33, 16 / 33)
    return [
        measurement(step, *texts, kernel + error * random.normal(size=kernel.shape), error, rates=rates)
        for step in range(10, 10 * steps + 1, 10)
    ]


def written(folder, records):
    for record in records:
        write_record(folder, record)
    return folder
