"""Tunix on the CPU: its own sampler and the update of its trainer, on the weights and prompts that simlab has."""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tunix.generate.sampler import CacheConfig, Sampler
from tunix.models.llama3 import model as llama3
from tunix.models.llama3 import params as llama3_params
from tunix.models.qwen2 import model as qwen2
from tunix.models.qwen2 import params as qwen2_params
from tunix.rl.algo_core import grpo_loss_fn
from tunix.rl.common import TrainExample, compute_per_token_logps
from tunix.rl.grpo.grpo_learner import GRPOConfig
from tunix.rl.trainer import Trainer
from tunix.sft.peft_trainer import TrainingConfig

from benchmarks.language_cases import CLIP, LEARNING_RATE, MAX_GRAD_NORM, Case

PAD = 0
NEVER = -1  # an end token that no model has


class Program:
    """One case in Tunix: the vanilla sampler and the trainer that its GRPOLearner uses."""

    def __init__(self, case: Case):
        self.case = case
        self.model = _model(Path(case.folder))
        config = self.model.config
        self.longest = max(map(len, case.prompts))
        room = self.longest + case.new_tokens
        self.sampler = Sampler(
            self.model, Tokens(), CacheConfig(room, config.num_layers, config.num_kv_heads, config.head_dim)
        )
        self.rows = [list(prompt) for prompt in case.prompts for _ in range(case.group_size)]
        settings = GRPOConfig(num_generations=case.group_size, beta=0.0, epsilon=CLIP)
        settings.temperature = 1.0
        optimizer = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.adamw(LEARNING_RATE, weight_decay=0.0))
        trainer = Trainer(self.model, optimizer, TrainingConfig(eval_every_n_steps=10**9), dict)
        trainer.with_loss_fn(
            lambda model, train_example, algo_config: grpo_loss_fn(model, train_example, settings, PAD, NEVER),
            has_aux=True,
        )
        trainer.with_gen_model_input_fn(lambda batch: {"train_example": batch, "algo_config": settings})
        self.update, _ = trainer.jit_train_and_eval_step()

    def rollouts(self, seed: int, stops: tuple[int, ...]) -> int:
        """Sample; the number of tokens. Without stops the sequences end at a token that no model has."""
        output = self.sampler(
            [" ".join(map(str, row)) for row in self.rows],
            max_generation_steps=self.case.new_tokens,
            max_prompt_length=self.longest,
            eos_tokens=list(stops) or [NEVER],
            temperature=1.0,
            top_p=1.0,
            seed=seed,
        )
        return sum(min(len(tokens) + 1, self.case.new_tokens) for tokens in output.tokens)  # with the end token

    def logp(self) -> np.ndarray:
        """(P, G, T) log-probabilities of the fixed completions."""
        batch, (graph, _) = self._batch(), self.sampler.model_def_and_state()
        state = self.sampler.transformer_state
        values = compute_per_token_logps(graph, state, batch.prompt_ids, batch.completion_ids, PAD, NEVER)
        return np.asarray(values).reshape(self.case.completions.shape)

    def step(self) -> float:
        """One update on the fixed completions; the norm of the gradient."""
        _, _, norm = self.update(self._batch())
        jax.block_until_ready(jax.tree.leaves(self.sampler.transformer_state))
        return float(norm)

    def _batch(self) -> TrainExample:
        prompts = np.array([[PAD] * (self.longest - len(row)) + row for row in self.rows])
        completions = self.case.completions.reshape(len(self.rows), -1)
        return TrainExample(
            prompt_ids=jnp.asarray(prompts),
            prompt_mask=jnp.asarray(prompts != PAD),
            completion_ids=jnp.asarray(completions),
            completion_mask=jnp.ones(completions.shape, jnp.int32),
            advantages=jnp.asarray(self.case.advantages.reshape(-1)),
            ref_per_token_logps=None,
            old_per_token_logps=None,
        )


class Tokens:
    """The tokenizer that Tunix asks for, for texts that are the tokens' numbers."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(map(int, text.split()))

    def decode(self, ids: list[int]) -> str:
        """The text of some tokens."""
        return " ".join(map(str, ids))

    def bos_id(self) -> int:
        """None: the prompts have theirs."""
        return 0

    def eos_id(self) -> int:
        """None."""
        return NEVER

    def pad_id(self) -> int:
        """Fills up prompts."""
        return PAD


def _model(folder: Path) -> llama3.Llama3 | qwen2.Qwen2:
    """The model of a folder, in float32."""
    entries = json.loads((folder / "config.json").read_text())
    sizes = {
        "num_layers": entries["num_hidden_layers"],
        "vocab_size": entries["vocab_size"],
        "embed_dim": entries["hidden_size"],
        "hidden_dim": entries["intermediate_size"],
        "num_heads": entries["num_attention_heads"],
        "head_dim": entries["hidden_size"] // entries["num_attention_heads"],
        "num_kv_heads": entries["num_key_value_heads"],
        "rope_theta": entries.get("rope_theta") or entries["rope_parameters"]["rope_theta"],
        "norm_eps": entries["rms_norm_eps"],
    }
    if entries["model_type"] == "qwen2":
        config = qwen2.ModelConfig(**sizes, use_tied_embedding=entries["tie_word_embeddings"])
        return qwen2_params.create_model_from_safe_tensors(str(folder), config, dtype=jnp.float32)
    # Tunix 0.1.7 rotates Llama's heads with theta = 1e6, whatever its config says.
    llama3.apply_rope = functools.partial(llama3.apply_rope, rope_theta=sizes["rope_theta"])
    config = llama3.ModelConfig(**sizes, weight_tying=entries["tie_word_embeddings"])
    return llama3_params.create_model_from_safe_tensors(str(folder), config, dtype=jnp.float32)
