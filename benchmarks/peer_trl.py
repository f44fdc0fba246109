"""TRL's GRPOTrainer on the CPU: its own generation and its own update, on the weights and prompts that simlab has."""

import tempfile

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from benchmarks.language_cases import CLIP, LEARNING_RATE, MAX_GRAD_NORM, Case


class Program:
    """One case in TRL: the work of its trainer on a batch of prompts, piece by piece.

    The faster choice replaces defaults of TRL that cost time and change no number: no gradient checkpointing, and
    attention by torch's own kernels.
    """

    def __init__(self, case: Case):
        self.case = case
        model = AutoModelForCausalLM.from_pretrained(case.folder, dtype=torch.float32, attn_implementation="sdpa")
        for weights in model.parameters():  # into memory of their own: from the file they may be read again and again
            weights.data = weights.data.clone()
        self.scratch = tempfile.TemporaryDirectory()
        self.trainer = GRPOTrainer(
            model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=_settings(case, self.scratch.name),
            train_dataset=Dataset.from_dict({"prompt": ["none"]}),
            processing_class=_tokenizer(model.config.vocab_size),
        )
        self.trainer.current_gradient_accumulation_steps = 1
        self.trainer.create_optimizer()
        accelerator = self.trainer.accelerator
        self.model, self.optimizer = accelerator.prepare(self.trainer.model, self.trainer.optimizer)
        self.trainer.model_wrapped = self.model
        self.rows = [list(prompt) for prompt in case.prompts for _ in range(case.group_size)]

    def rollouts(self, seed: int, stops: tuple[int, ...]) -> int:
        """Generate as the trainer does; the number of tokens.

        Without stops the sequences end at a token that no model has.
        """
        torch.manual_seed(seed)
        ends = list(stops) or [self.model.config.vocab_size]
        self.trainer.eos_token_ids = self.trainer.generation_config.eos_token_id = ends
        self.trainer.generation_kwargs["eos_token_id"] = ends
        completions, _ = self.trainer._generate_single_turn(self.rows, None, {}, self.case.group_size)
        return sum(map(len, completions))

    def logp(self) -> np.ndarray:
        """(P, G, T) log-probabilities of the fixed completions."""
        batch = self._batch()
        tokens = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        seen = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        with torch.no_grad():
            values, *_ = self.trainer._get_per_token_logps_and_entropies(
                self.model, tokens, seen, self.case.completions.shape[2]
            )
        return values.numpy().reshape(self.case.completions.shape)

    def step(self) -> float:
        """One update on the fixed completions; the norm of the gradient."""
        self.model.train()
        loss = self.trainer.compute_loss(self.model, self._batch())
        self.trainer.accelerator.backward(loss)
        norm = self.trainer.accelerator.clip_grad_norm_(self.model.parameters(), MAX_GRAD_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norm)

    def _batch(self) -> dict[str, torch.Tensor]:
        case = self.case
        longest = max(map(len, case.prompts))
        left = [[0] * (longest - len(row)) for row in self.rows]
        completions = torch.tensor(case.completions.reshape(len(self.rows), -1), dtype=torch.long)
        return {
            "prompt_ids": torch.tensor([fill + row for fill, row in zip(left, self.rows, strict=True)]),
            "prompt_mask": torch.tensor([fill + [1] * len(row) for fill, row in zip(left, self.rows, strict=True)]),
            "completion_ids": completions,
            "completion_mask": torch.ones_like(completions),
            "advantages": torch.tensor(case.advantages.reshape(-1), dtype=torch.float32),
            "num_items_in_batch": torch.tensor(float(completions.numel())),
        }


def _settings(case: Case, folder: str) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=len(case.prompts) * case.group_size,
        num_generations=case.group_size,
        max_completion_length=case.new_tokens,
        temperature=1.0,
        loss_type="grpo",
        beta=0.0,
        epsilon=CLIP,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=MAX_GRAD_NORM,
        report_to="none",
        disable_tqdm=True,
    )


def _tokenizer(size: int) -> PreTrainedTokenizerFast:
    """One word a token, and one more that ends: the trainer wants one, though prompts come as tokens."""
    words = {f"t{index}": index for index in range(size)} | {"never": size}
    rules = Tokenizer(models.WordLevel(words, unk_token="t0"))
    return PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="t0", eos_token="never", unk_token="t0")
