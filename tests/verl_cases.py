"""Batches as verl's trainer has them: for the tests of the verl adapter."""

import numpy as np
import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.ray_trainer import compute_advantage

from simlab.adapters.verl import SimlabPPOTrainerSync

# Rollouts of four prompts, scattered and unequal in number; one prompt is solved always and one never.
PROMPTS = list("abacbacbdacbd")
REWARDS = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
LENGTHS = [3, 1, 5, 2, 4, 1, 3, 5, 2, 2, 4, 1, 3]
LONGEST = 6


def response_mask(lengths=None):
    """(rows, T) in verl's dtype."""
    return (torch.arange(LONGEST) < torch.tensor(lengths or LENGTHS)[:, None]).long()


def token_level_rewards(rewards=None, lengths=None):
    """(rows, T): the reward of a response stands at its last token."""
    rewards, lengths = rewards or REWARDS, lengths or LENGTHS
    scores = torch.zeros(len(rewards), LONGEST)
    scores[torch.arange(len(rewards)), (torch.tensor(lengths) - 1).clamp(min=0)] = torch.tensor(rewards)
    return scores


def dispatched(name, settings=None, *, rewards=None, prompts=None, lengths=None, **others):
    """(rows, T) advantages as verl's dispatcher gives them; ``others`` are verl's own settings of the algorithm."""
    batch = {"token_level_rewards": token_level_rewards(rewards, lengths), "response_mask": response_mask(lengths)}
    uid = np.array(prompts or PROMPTS, dtype=object)
    config = OmegaConf.create({"gamma": 1.0, **others, **({"simlab": settings} if settings is not None else {})})
    built_in = name in {entry.value for entry in AdvantageEstimator}
    result = compute_advantage(
        DataProto.from_dict(tensors=batch, non_tensors={"uid": uid}),
        adv_estimator=AdvantageEstimator(name) if built_in else name,
        norm_adv_by_std_in_grpo=others.get("norm_adv_by_std_in_grpo", True),
        config=config,
    )
    torch.testing.assert_close(result.batch["returns"], result.batch["advantages"])
    return result.batch["advantages"]


def by_prompt(prompts=None):
    prompts = prompts or PROMPTS
    return [[row for row, other in enumerate(prompts) if other == prompt] for prompt in dict.fromkeys(prompts)]


def trainer(*overrides):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return SimlabPPOTrainerSync(compose("ppo_trainer", ["trainer.v1.trainer_mode=simlab_sync", *overrides]))


def nested(rows):
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)
