"""``simlab train --engine trl``: TRL samples, in one process; start, rewards, weights and rates are simlab's."""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig
from trl.trainer.utils import split_tensor_dict

from simlab.adapters.trl import SimlabGRPOTrainer
from simlab.errors import Diverged, InputError
from simlab.files import write_whole
from simlab.llm.checkpoint import from_tensors, read_checkpoint
from simlab.llm.instruments.batch_metrics import group_metrics, part_metrics
from simlab.llm.model import Parameters
from simlab.llm.tokenizer import read_tokenizer
from simlab.llm.training.folder import TRL_CHECKPOINTS, ArmFolder
from simlab.llm.training.groups import Reader, absent_rollouts, weighted_parts
from simlab.llm.training.settings import PolicyGradientSettings, TrainingSettings
from simlab.llm.training.setup import check_teacher
from simlab.methods import Method
from simlab.rollouts import Rollouts
from simlab.simulator.settings import TRUE_REWARD

ORIGIN = "simlab_origin.json"  # of a checkpoint: the arm and the code that made it
EARLIER = "delete it to resume from an earlier one"
AfterStep = Callable[[int, Mapping[str, Any], Callable[[], Parameters]], Any]


def train_arm(
    method: Method,
    settings: TrainingSettings,
    reader: Reader,
    start: Path,
    folder: ArmFolder,
    *,
    seed: int,
    first: int,
    after_step: AfterStep,
) -> Parameters:
    """Train an arm from ``start`` and problem ``first``, or resume it from TRL's last complete checkpoint."""
    rl = settings.rl
    _check_settings(rl)
    last = _last_checkpoint(folder.path)
    _cut_lines(folder, last)
    if last and _updates(last) == rl.steps * rl.updates:
        return read_checkpoint(last).parameters
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    model.generation_config.eos_token_id = sorted(reader.stop_ids)
    model.get_input_embeddings().padding_idx = None  # a policy may sample the padding token, and learns from that too
    tokenizer, problem = AutoTokenizer.from_pretrained(start), reader.task.training(first)
    ids, expected = tokenizer(problem.prompt)["input_ids"], reader.prompt(problem)
    if ids != expected:
        raise InputError(f"the tokenizer in {start} reads {problem.prompt!r} as {ids}; allowed: {expected}")
    numbers = [*range(first, first + rl.steps * rl.prompts)]
    prompts = [reader.task.training(index).prompt for index in numbers]
    trainer = ArmTrainer(
        reader,
        model,
        folder,
        args=_config(method, settings, reader, folder.path / TRL_CHECKPOINTS, seed),
        train_dataset=Dataset.from_dict({"prompt": prompts, "problem": numbers}),
        processing_class=tokenizer,
        optimizers=_optimizer(model, rl),
        method=method,
        teacher=_teacher(rl.teacher, reader.vocabulary.size) if "teacher_logp" in method.needs else None,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_AfterStep(trainer, rl, after_step))
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    return trainer.parameters()


def _check_settings(rl: PolicyGradientSettings) -> None:
    """Raise ``InputError`` for settings that TRL's trainer does not have."""
    refused = {
        f"rl.rounds = {rl.rounds}; allowed: 0, as TRL drops no groups": rl.rounds,
        f"rl.remedy = {rl.remedy!r}; allowed: none, as TRL's own step takes one gradient": rl.remedy != "none",
        f"rl.isolation = {rl.isolation}; allowed: 0, as TRL goes through a batch as a whole": rl.isolation,
        f"rl.false_positive = {rl.false_positive} and rl.false_negative = {rl.false_negative}; allowed: 0, as TRL has "
        "the task's own rewards": rl.verifier_errs,
        f"rl.reward = {rl.reward!r}; allowed: {TRUE_REWARD}, as TRL has the task's own rewards": (
            rl.reward != TRUE_REWARD
        ),
        f"rl.lag = {rl.lag} and rl.sampler = {rl.sampler!r}; allowed: 0 and 'exact', as TRL's sampler is its "
        "own": rl.off_policy,
    }
    for reason, holds in refused.items():
        if holds:
            raise InputError(reason)


def _optimizer(model: Any, rl: PolicyGradientSettings) -> tuple[Any, Any]:
    """Return the optimiser of a model, with weight decay for matrices alone, and the schedule of its learning rate."""
    weights = [value for value in model.parameters() if value.requires_grad]
    decayed, others = [value for value in weights if value.ndim >= 2], [value for value in weights if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": rl.weight_decay}, {"params": others, "weight_decay": 0.0}]
    adamw = partial(torch.optim.AdamW, betas=(rl.b1, rl.b2), eps=rl.eps)
    optimizer = {"adamw": adamw, "sgd": torch.optim.SGD}[rl.optimizer](groups, lr=1.0)  # the schedule has its rate
    # The learning rate follows the number of updates before, and is the same for all updates by one batch.
    return optimizer, torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: rl.rate(done // rl.updates + 1, rl.steps)
    )


def _teacher(source: str, tokens: int) -> Any:
    """Load a teacher from a folder; ``InputError`` for another source, and for one of other tokens."""
    if not Path(source).is_dir():
        raise InputError(f"rl.teacher = {source!r}; allowed: a folder, as TRL reads no other model")
    check_teacher(source, read_tokenizer(source).size, tokens)
    return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)


class ArmTrainer(SimlabGRPOTrainer):
    """TRL's trainer on a task; parts of a batch are of prompts in order, not random; checkpoints have an origin."""

    _buffered_inputs: list[dict[str, Any]]

    def __init__(self, reader: Reader, model: Any, folder: ArmFolder, **options: Any):
        self.reader, self.folder = reader, folder
        super().__init__(model, reward_funcs=self.reward, **options)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Save a checkpoint, its origin last: a checkpoint with an origin is complete."""
        super()._save_checkpoint(model, trial)
        checkpoint = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        write_whole(checkpoint / ORIGIN, json.dumps(self.folder.record()).encode())

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Return, with minibatches, the piece of the batch that is next in the order of prompts."""
        inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
        together, parts = self.args.gradient_accumulation_steps, self.args.steps_per_generation
        if not self.model.training or parts == together:
            return inputs
        turn, number = divmod(self._step, parts)
        is_first = number == 0 and turn % self.num_iterations == 0
        if is_first:
            self._unshuffle()
        if number % together == 0:
            self._weigh_minibatch(number // together, is_first)
        return self._buffered_inputs[number]

    def _unshuffle(self) -> None:
        pieces = self._buffered_inputs
        order = torch.cat([piece["simlab_row"] for piece in pieces]).argsort()
        batch = {
            name: torch.cat([piece[name] for piece in pieces])[order] if value is not None and value.ndim else value
            for name, value in pieces[0].items()
        }
        self._buffered_inputs = split_tensor_dict(batch, len(pieces))

    def _weigh_minibatch(self, number: int, is_first: bool) -> None:
        """Compute the coefficients of a minibatch, at the policy before its update."""
        together, size = self.args.gradient_accumulation_steps, self.num_generations
        pieces = self._buffered_inputs[number * together : (number + 1) * together]
        prompts = sum(len(piece["simlab_row"]) for piece in pieces) // size
        rows = slice(number * prompts, (number + 1) * prompts)
        rollouts, advantages = self._batch
        assert self._method is not None
        self._minibatch = jax.tree.map(lambda values: values[rows], rollouts)
        # Before the first update the policy is the one that sampled.
        old = torch.cat([piece["old_per_token_logps"] for piece in pieces])
        ratios = torch.ones_like(old) if is_first else self._ratios(pieces)
        values = self._method.at(self._schedule).from_advantages(
            ratios.unflatten(0, (prompts, size)), advantages[rows], self._minibatch
        )
        for piece, coefficients in zip(pieces, values.flatten(0, 1).chunk(len(pieces)), strict=True):
            piece["simlab_coefficients"] = coefficients

    def _tokens_of_update(self) -> torch.Tensor:
        if self.args.gradient_accumulation_steps == self.args.steps_per_generation:
            return super()._tokens_of_update()
        tokens: torch.Tensor = self._minibatch.token_mask.sum()
        return tokens

    def _checked_method(self, method: Method) -> Method:
        return method  # ``_prepare_inputs`` makes the updates; beta only has TRL load the reference, see _config

    def reward(self, completion_ids: list[list[int]], problem: list[int], **others: Any) -> list[float | None]:
        """Return the task's rewards of (P G) completions, None for one without; TRL passes the prompts' columns."""
        size, width = self.args.num_generations, max(map(len, completion_ids))
        tokens = np.zeros((len(problem) // size, size, width), np.int32)
        mask = np.zeros(tokens.shape, bool)
        for row, ids in enumerate(completion_ids):
            group = divmod(row, size)
            tokens[group][: len(ids)], mask[group][: len(ids)] = ids, True
        problems = [self.reader.task.training(index) for index in problem[::size]]
        self.judged = self.reader.judge(problems, tokens, mask)
        values, absent = self.judged.rewards.ravel().tolist(), absent_rollouts(self.judged).ravel()
        return [None if missing else value for value, missing in zip(values, absent, strict=True)]

    def _rollouts(self, output: dict[str, Any]) -> tuple[Rollouts, torch.Tensor | None]:
        """Return the groups of TRL, with what the task says is correct and with the parts of its rewards."""
        rollouts, candidates = super()._rollouts(output)
        fields = {"correct": self.judged.correct, **(weighted_parts(self.judged) if "parts" in self._needs else {})}
        tensors = {
            name: torch.as_tensor(value, device=rollouts.rewards.device)
            for name, value in fields.items()
            if value is not None
        }
        return rollouts._replace(**tensors), candidates

    def batch_metrics(self) -> dict[str, Any]:
        """Measure the last batch."""
        rollouts, advantages = self._batch
        assert rollouts.token_mask is not None
        rewards, mask = rollouts.rewards.numpy(force=True), rollouts.token_mask.numpy(force=True)
        judged, weights = self.judged, advantages.numpy(force=True)
        metrics = group_metrics(rewards, weights, mask, judged.solutions, judged.correct)
        metrics |= part_metrics(judged.parts, judged.part_weights, weights, mask)
        return {**metrics, "length": float(mask.sum(axis=2).mean())}

    def parameters(self) -> Parameters:
        """Return the model's parameters now, as simlab's decoder has them."""
        state = self.accelerator.unwrap_model(self.model).state_dict()
        tensors = {name: value.float().numpy(force=True) for name, value in state.items()}
        return from_tensors(tensors, self.reader.config)


class _AfterStep(TrainerCallback):
    """Report a step when the last update by its batch is logged, before a checkpoint is written."""

    def __init__(self, trainer: ArmTrainer, settings: PolicyGradientSettings, after_step: AfterStep):
        self.trainer, self.settings, self.after_step = trainer, settings, after_step
        self.began, self.norms = time.perf_counter(), list[float]()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **others: Any) -> None:
        if "grad_norm" not in logs:  # the summary of the whole run
            return
        step, update = divmod(state.global_step - 1, self.settings.updates)
        if update == 0:
            self.norms, self.entropy = [], logs["entropy"]
        self.norms.append(logs["grad_norm"])
        if not np.isfinite(logs["grad_norm"]):
            raise Diverged(f"step {step + 1}: the norm of the gradient is {logs['grad_norm']}; allowed: finite numbers")
        if update < self.settings.updates - 1:
            return
        now = time.perf_counter()
        line = {"entropy": self.entropy, "grad_norm": float(np.mean(self.norms)), "seconds": now - self.began}
        self.after_step(step + 1, self.trainer.batch_metrics() | line, self.trainer.parameters)
        self.began = time.perf_counter()


def _config(method: Method, settings: TrainingSettings, reader: Reader, out: Path, seed: int) -> GRPOConfig:
    rl = settings.rl
    rollouts = rl.prompts * rl.group_size // rl.minibatches  # of an update
    together = max(size for size in range(1, min(rollouts, rl.microbatch) + 1) if rollouts % size == 0)
    return GRPOConfig(
        output_dir=str(out),
        seed=seed,
        max_steps=rl.steps * rl.updates,
        num_iterations=rl.epochs,
        num_generations=rl.group_size,
        per_device_train_batch_size=together,
        gradient_accumulation_steps=rollouts // together,
        steps_per_generation=rollouts // together * rl.minibatches,
        max_completion_length=reader.task.max_new_tokens,
        temperature=rl.temperature,
        max_grad_norm=rl.max_norm,
        beta=1.0 if "ref_logp" in method.needs else 0.0,  # TRL has a reference only where this is not 0
        shuffle_dataset=False,
        bf16=settings.model.dtype == "bfloat16",
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=settings.model.gradient_checkpointing,
        save_strategy="steps",
        save_steps=settings.record.checkpoint_every * rl.updates,
        save_total_limit=2,  # a kill may leave the later one incomplete
        logging_steps=1,
        disable_tqdm=True,
        report_to=[],
    )


def _last_checkpoint(arm: Path) -> Path | None:
    folders = [path.parent for path in arm.glob(f"{TRL_CHECKPOINTS}/{PREFIX_CHECKPOINT_DIR}-*/{ORIGIN}")]
    return max(folders, key=_updates, default=None)


def _cut_lines(folder: ArmFolder, checkpoint: Path | None) -> None:
    """Cut the lines of an arm to those of a checkpoint, which must be whole, the arm's own, and of the same code."""
    if checkpoint is None:
        folder.cut_lines({})
        return
    try:
        record = json.loads((checkpoint / ORIGIN).read_text())
        origin, sizes = record["origin"], record["sizes"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"checkpoint {checkpoint} is damaged ({error}); {EARLIER}") from None
    folder.check_origin(origin, f"checkpoint {checkpoint}")
    folder.cut_lines(sizes)


def steps_done(arm: Path, updates: int) -> int:
    """Count the steps of an arm in its last complete checkpoint."""
    last = _last_checkpoint(arm)
    return _updates(last) // updates if last else 0


def _updates(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
