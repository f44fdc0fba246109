"""Use any estimator and surrogate of simlab in TRL's ``GRPOTrainer``.

    from simlab.adapters.trl import SimlabGRPOTrainer

    SimlabGRPOTrainer(model, reward_funcs=..., args=..., train_dataset=..., method="f_grpo(gamma=0.5)+clip_higher")

With ``method`` the loss is simlab's: its surrogate and aggregation are used too. With ``estimator`` only the
advantages are simlab's, and TRL's loss and settings stay. Your own subclass of ``GRPOTrainer`` takes
``SimlabGRPOMixin`` before it. ``DiagnoseCallback`` reports estimates of ``simlab diagnose`` while a trainer trains.

TRL 1.16 has no hooks for this, so methods are overridden. ``_generate_and_score_completions`` computes advantages; they
are replaced after it, from the rewards that ``_calculate_rewards`` has gathered from all processes. Candidates need
logits, which ``_compute_loss`` does not see.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig, GRPOTrainer

from simlab.adapters.grouping import MEMORY, Grouping, read_state, state_numbers
from simlab.arms import parse
from simlab.diagnose.live import Live
from simlab.diagnose.reading.cells import message_text
from simlab.errors import InputError
from simlab.estimators import Estimator
from simlab.files import write_whole
from simlab.methods import Method
from simlab.rollouts import Rollouts, check_finite
from simlab.surrogates import add, kl_penalty

__all__ = ["DiagnoseCallback", "SimlabGRPOMixin", "SimlabGRPOTrainer"]

# Settings that TRL's loss reads and simlab's does not; and settings of TRL's own advantages, which both replace.
LOSS = (
    "loss_type", "importance_sampling_level", "epsilon", "epsilon_high", "delta", "top_entropy_quantile",
    "off_policy_mask_threshold", "entropy_coef", "use_adaptive_entropy", "use_bias_correction_kl", "use_liger_kernel",
)  # fmt: skip
ADVANTAGES = ("scale_rewards", "multi_objective_aggregation")
SEQUENCES = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
IMAGES = (
    "pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles",
    "image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids",
)  # fmt: skip


Trainer: Any = object  # at run time a mixin; all other attributes are the trainer's


class SimlabGRPOMixin(Trainer):
    """Estimators and surrogates of the laboratory, for a subclass of ``GRPOTrainer``.

    Args:
        method: a ``Method``, or its text as ``simlab train --arms`` takes it. KL to a reference is ``GRPOConfig.beta``.
        estimator: an ``Estimator``, or its text, under TRL's loss.
        teacher: a model of the same tokens, for methods that follow one, such as ``opd``.

    Raises: InputError: unless there is exactly one of the two; for settings of TRL that would have no effect; for a
    method that needs fields which TRL does not have.
    """

    def __init__(
        self,
        *arguments: Any,
        method: Method | str | None = None,
        estimator: Estimator | str | None = None,
        teacher: Any = None,
        **options: Any,
    ):
        if (method is None) == (estimator is None):
            raise InputError("SimlabGRPOTrainer takes method or estimator; allowed: one of them")
        self._method = parse(method).build() if isinstance(method, str) else method
        weights: Any = parse(estimator).build().estimator if isinstance(estimator, str) else estimator
        self._estimator: Estimator = weights if self._method is None else self._method.estimator
        super().__init__(*arguments, **options)
        replaced = ADVANTAGES if self._method is None else ADVANTAGES + LOSS
        for field in dataclasses.fields(GRPOConfig):
            value = getattr(self.args, field.name)
            if field.name in replaced and value != field.default:
                reason = f"would have no effect; allowed: {field.default!r}, and method= for it"
                raise InputError(f"GRPOConfig.{field.name} = {value!r} {reason}")
        if self._method is not None:
            self._method = self._checked_method(self._method)
        self._needs = self._estimator.needs if self._method is None else self._method.needs
        if "greedy_reward" in self._needs:
            raise InputError("the method needs a greedy answer's reward, which TRL does not sample; allowed: others")
        if ("teacher_logp" in self._needs) != (teacher is not None):
            said = "is missing, which the method follows" if teacher is None else "has no effect on this method"
            raise InputError(f"teacher {said}; allowed: teacher= a model, for a method such as opd")
        self._teacher = None if teacher is None else teacher.to(self.accelerator.device).eval()
        self._memory = self._estimator.init()
        self._schedule = () if self._method is None else self._method.surrogate.init()

    def _checked_method(self, method: Method) -> Method:
        steps, accumulated = self.args.steps_per_generation, self.args.gradient_accumulation_steps
        if steps != accumulated:  # TRL makes parts of a batch of rollouts, and not of prompts
            raise InputError(
                f"GRPOConfig.steps_per_generation = {steps}; allowed: gradient_accumulation_steps = {accumulated}, "
                "since coefficients are those of a whole batch"
            )
        if "ref_logp" in method.needs:
            raise InputError("the method has a kl_penalty of its own; allowed: GRPOConfig.beta in its place")
        if self.args.beta == 0.0:
            return method
        return dataclasses.replace(method, surrogate=add(method.surrogate, kl_penalty(self.args.beta, "k3")))

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        self._rewards: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return self._rewards  # of all processes, (rows, reward functions)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Replace the trainer's advantages, and add the coefficients of log pi in simlab's loss."""
        output = super()._generate_and_score_completions(inputs)
        rollouts, candidates = self._rollouts(output)
        training = self.model.training
        advantages, memory = self._estimator.update(rollouts, self._memory if training else self._estimator.init())
        check_finite(self._estimator.name, f"step {self.state.global_step + 1}, advantages", advantages, rollouts)
        if training:
            self._memory = read_state(memory, state_numbers(memory))
        rows = self._grouping.rows(advantages)
        output["advantages"] = self._local_rows(rows)
        self._replace_logged_advantages(rows, rollouts)
        if self._method is not None:
            self._batch = rollouts, advantages
            if training:
                schedule = self._method.surrogate.follow(rollouts, self._schedule)
                self._schedule = read_state(schedule, state_numbers(schedule))
            output["simlab_row"] = torch.arange(len(output["completion_ids"]), device=rows.device)
            output["simlab_coefficients"] = self._coefficients(torch.ones_like(learned_tokens(output)))
            if candidates is not None:
                output["simlab_candidates"] = candidates
        return output

    def _rollouts(self, output: dict[str, Any]) -> tuple[Rollouts, torch.Tensor | None]:
        """Return the groups of all processes, and the ids of the likeliest candidates of this process's rows."""
        missing, weights = self._rewards.isnan(), self.reward_weights.to(self._rewards.device)
        size = self.num_generations if self.model.training else self.num_generations_eval
        self._local_shape = output["completion_ids"].shape
        self._grouping = Grouping([row // size for row in range(len(missing))])
        local = self._token_fields(output)
        candidates = local.pop("candidates", None)
        rows = {name: self._gather_rows(values) for name, values in local.items()}
        rows["token_mask"] = self._gather_rows(learned_tokens(output)) > 0
        rows["mask"] = ~missing.all(dim=1)  # a row that no reward function judged is no rollout
        if "parts" in self._needs:
            rows |= {"parts": self._rewards.nan_to_num(), "part_weights": torch.where(missing, 0, weights)}
        fields = {name: self._grouping.groups(values) for name, values in rows.items()}
        if "noise" in self._needs:
            source = torch.Generator().manual_seed(self.args.seed * 2**32 + self._step)  # the same on all processes
            fields["noise"] = torch.rand(fields["token_mask"].shape, generator=source).to(weights.device)
        return Rollouts(self._grouping.groups((self._rewards * weights).nansum(dim=1)), **fields), candidates

    @torch.no_grad()
    def _token_fields(self, output: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Return what the method reads of the tokens of this process's rows, (B, T) and (B, T, C), and candidates."""
        fields, needs = dict[str, torch.Tensor](), self._needs
        if "ref_logp" in needs:
            fields["ref_logp"] = output["ref_per_token_logps"]
        if "collision" in needs:
            (fields["collision"],) = self._read(self.model, output, lambda every, _: [(2 * every).exp().sum(dim=-1)])
        if "teacher_logp" in needs:
            (fields["teacher_logp"],) = self._read(self._teacher, output, lambda *read: [_sampled(*read)])
        if needs & {"old_logp", "entropy", "topn_logp"}:
            count = 0 if self._method is None else self._method.surrogate.candidates
            names = ("old_logp", "entropy", "topn_logp", "candidates")
            fields |= zip(names, self._evaluate_policy(self.model, output, count), strict=False)
        return fields

    def _evaluate_policy(self, model: Any, inputs: dict[str, Any], top_n: int = 0) -> list[torch.Tensor]:
        """Return (B, T) log pi and entropy at the completions' tokens; and of C likeliest (B, T, C) log pi and ids."""
        if top_n:
            return self._read(
                model, inputs, lambda every, ids: [_sampled(every, ids), _entropy(every), *every.topk(top_n, dim=-1)]
            )
        ids, attention, length = join_sequences(inputs)
        images = {name: inputs[name] for name in IMAGES if inputs.get(name) is not None}
        size = self.args.per_device_train_batch_size
        logp, entropy, _ = self._get_per_token_logps_and_entropies(
            model, ids, attention, length, batch_size=size, compute_entropy=True, **images
        )
        return [logp, entropy]

    def _read(self, model: Any, inputs: dict[str, Any], read: Callable[..., list[torch.Tensor]]) -> list[torch.Tensor]:
        """Return what is read of ``_distribution`` and the completions' tokens, some rows at a time."""
        pieces = torch.arange(len(inputs["completion_ids"])).split(self.args.per_device_train_batch_size)
        each = ({name: inputs[name][rows] for name in SEQUENCES} for rows in pieces)
        chunks = [read(self._distribution(model, piece), piece["completion_ids"]) for piece in each]
        return [torch.cat(column) for column in zip(*chunks, strict=True)]

    def _distribution(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return (B, T, vocabulary) log pi at the positions of the completions, at the temperature of sampling."""
        ids, attention, length = join_sequences(inputs)
        with self.accelerator.autocast():
            logits = model(input_ids=ids, attention_mask=attention, use_cache=False).logits
        return (logits[:, -length - 1 : -1].float() / self.temperature).log_softmax(dim=-1)

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Update the coefficients where the trainer goes through a batch again: the policy has moved."""
        inputs = super()._prepare_inputs(generation_batch)
        turn, number = divmod(self._step, self.args.steps_per_generation)
        if self._method is not None and self.model.training and number == 0 and turn % self.num_iterations:
            batches = self._buffered_inputs
            rows = torch.cat([batch["simlab_row"] for batch in batches])
            coefficients = self._coefficients(self._ratios(batches)[rows.argsort()])
            for batch in batches:
                batch["simlab_coefficients"] = coefficients[batch["simlab_row"]]
        return inputs

    def _ratios(self, batches: list[dict[str, Any]]) -> torch.Tensor:
        """Return (rows, T), the policy now over the one that sampled."""
        with torch.no_grad():
            logp = [self._evaluate_policy(self.model, batch)[0] for batch in batches]
        return (torch.cat(logp) - torch.cat([batch["old_per_token_logps"] for batch in batches])).exp()

    def _coefficients(self, ratio: torch.Tensor) -> torch.Tensor:
        """Return the coefficients of log pi of this process's rows, (B, T) or (B, T, 1 + C), from the groups of all."""
        rollouts, advantages = self._batch
        assert self._method is not None
        ratio = self._grouping.groups(self._gather_rows(ratio))
        values = self._method.at(self._schedule).from_advantages(ratio, advantages, rollouts)
        return self._local_rows(self._grouping.rows(values))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return minus the sum of coefficient log pi: its gradient is that of the method's objective, negated."""
        if self._method is None:
            return super()._compute_loss(model, inputs)
        coefficients = inputs["simlab_coefficients"]
        if "simlab_candidates" in inputs:
            every = self._distribution(model, inputs)
            moved = torch.cat([inputs["completion_ids"].unsqueeze(-1), inputs["simlab_candidates"]], dim=-1)
            logp, entropy = every.gather(-1, moved), _entropy(every)
        else:
            logp, entropy = self._evaluate_policy(model, inputs)
        self._log_entropy(entropy.detach(), learned_tokens(inputs))
        if "importance_sampling_ratio" in inputs:  # to the policy as vLLM computed it
            correction = inputs["importance_sampling_ratio"]
            coefficients = coefficients * (correction if coefficients.ndim == 2 else correction[..., None])
        terms = torch.where(coefficients == 0, 0, coefficients * logp)
        # The engine averages over processes and adds up micro-batches; the weights are those of the whole batch.
        return -terms.sum() * self.accelerator.num_processes

    def _log_entropy(self, entropy: torch.Tensor, mask: torch.Tensor) -> None:
        """Log a value whose mean over micro-batches, as TRL logs it, is the mean over all tokens of the batch."""
        totals = torch.stack([(entropy * mask).sum(), mask.sum()])
        total, count = self.accelerator.reduce(totals, reduction="sum")
        if self.model.training:
            count = self._tokens_of_update() / self.args.gradient_accumulation_steps
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["entropy"].append((total / count.clamp(min=1)).item())

    def _tokens_of_update(self) -> torch.Tensor:
        rollouts, _ = self._batch
        assert rollouts.token_mask is not None
        return rollouts.token_mask.sum()

    def _gather_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Gather the rows of all processes, filled up with 0 to one number of tokens."""
        return self.accelerator.gather(self.accelerator.pad_across_processes(rows.float(), dim=1))

    def _local_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Return this process's rows of the batch that was generated, without the filling."""
        count, length = self._local_shape
        local = rows[self.accelerator.process_index * count :][:count]
        return local if local.ndim == 1 else local[:, :length]

    def _replace_logged_advantages(self, rows: torch.Tensor, rollouts: Rollouts) -> None:
        """Replace the trainer's advantages in the log; the advantage of a rollout is the mean over its tokens."""
        if rows.ndim == 2:
            mask = self._grouping.rows(rollouts.token_mask)
            rows = (rows * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        logged = self._logs["advantages"]
        for _ in range(min(len(rows), len(logged))):
            logged.pop()
        logged.extend(rows.tolist())

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            write_whole(folder / MEMORY, json.dumps(state_numbers((self._memory, self._schedule))).encode())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and (path := Path(checkpoint) / MEMORY).exists():
            self._memory, self._schedule = read_state((self._memory, self._schedule), json.loads(path.read_text()))


class SimlabGRPOTrainer(SimlabGRPOMixin, GRPOTrainer):
    """``GRPOTrainer`` with ``method=`` or ``estimator=``, see ``SimlabGRPOMixin``."""


class DiagnoseCallback(TrainerCallback):  # type: ignore[misc]  # of an untyped package
    """Add the metrics of ``simlab.diagnose.live`` of every batch, under ``diagnose/``, to those that a trainer logs.

        trainer = GRPOTrainer(...)
        trainer.add_callback(DiagnoseCallback(trainer))

    TRL 1.16 hands callbacks no rollouts; they are read where ``log_completions`` finds them, whether or not it is set.

    Args:
        trainer: TRL's ``GRPOTrainer``, or a subclass.
        live: how often and over how many batches to fit, the threshold of graded rewards, and the canonical form of an
            answer; by default those of ``Live()``.

    Raises: InputError: in training, for rewards other than 0 and 1 where ``live`` has no threshold.
    """

    def __init__(self, trainer: Any, live: Live | None = None):
        self._trainer, self._live = trainer, live or Live()

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Observe the rollouts that were generated in this step, if any were: the main process does."""
        last, every = self._trainer._step - 1, args.steps_per_generation * self._trainer.num_iterations
        is_generated = last // every > (last - args.gradient_accumulation_steps) // every
        if not state.is_world_process_zero or not is_generated:
            return
        logs, weighted = self._trainer._logs, logged_rewards(self._trainer)
        completions = [message_text(value, "completion") or "" for value in logs["completion"]]
        for name, value in self._live.observe(list(map(repr, logs["prompt"])), weighted.tolist(), completions).items():
            self._trainer._metrics["train"][name].append(value)


def logged_rewards(trainer: Any) -> Float[np.ndarray, " rows"]:
    """Return the weighted sums of the last batch's rewards, of all processes; NaN where no function judged a row."""
    columns = [trainer._logs["rewards"][name] for name in trainer.reward_func_names]
    rewards = np.array([list(column) for column in columns], dtype=float)  # None becomes NaN
    weighted = np.nansum(rewards * trainer.reward_weights.numpy(force=True)[:, None], axis=0)
    weighted[np.isnan(rewards).all(axis=0)] = np.nan
    return np.asarray(weighted)


def join_sequences(inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return tokens and mask of prompts and completions, (B, prompt + T), and T."""
    ids, mask = (
        torch.cat([inputs[f"{part}_{kind}"] for part in ("prompt", "completion")], 1) for kind in ("ids", "mask")
    )
    return ids, mask, inputs["completion_ids"].shape[1]


def learned_tokens(inputs: dict[str, Any]) -> torch.Tensor:
    """Return (B, T), true for tokens that the policy wrote: it learns from these."""
    return inputs["completion_mask"] * inputs.get("tool_mask", 1)


def _sampled(distribution: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each token, (B, T)."""
    return distribution.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def _entropy(distribution: torch.Tensor) -> torch.Tensor:
    """Return the entropy, (B, T) in nats, of log-probabilities (B, T, vocabulary)."""
    return -(distribution.exp() * distribution).sum(dim=-1)
