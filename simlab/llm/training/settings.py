"""Settings of a training run, as plain data: written to ``run.json`` and read from it."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from simlab.arms import Arm, parse
from simlab.errors import InputError, check_choice, check_range, check_whole, did_you_mean
from simlab.estimators.registry import check_domain
from simlab.llm.training.optimizer import OptimizerSettings
from simlab.methods import Method
from simlab.simulator import mismatch
from simlab.simulator.verifier import check_accepted, check_errors, correct_rewards
from simlab.text import read_value

SCRATCH = "scratch"
DTYPES = ("float32", "bfloat16")
ENGINES = ("simlab", "trl")
SAMPLERS = ("exact", "bfloat16")  # the decoder computes in no float16
NOT_ARCHITECTURE = ("source", "dtype", "gradient_checkpointing", "lora_rank", "lora_alpha")
LORA_ALPHA = 32.0
NONE = type(None)
LARGEST_LAG = 1024  # steps, each of which keeps a copy of the parameters
ARM_SETTING = re.compile(r"(.*)@([^@=()]+)=([^@=()]*)", re.DOTALL)


@dataclass(frozen=True)
class ModelSettings:
    """The model that is trained.

    Attributes:
        source: ``"scratch"``, or a source that ``simlab.llm.pretrained.load`` takes.
        dtype: the dtype of rollouts and gradients. Parameters (the masters), sums of gradients and the optimiser's
            state are always float32: each computation begins with a copy of the masters in this dtype, so that updates
            too small for bfloat16 add up.
        gradient_checkpointing: store only the inputs of layers for a gradient, and compute the layers a second time.
            That takes a third longer, and the memory of one layer instead of all.
        lora_rank: the rank of the adapters that are trained instead of the model's parameters; 0 trains all
            parameters. The warm start always trains all of them.
        lora_alpha: the product of two adapters is multiplied by ``lora_alpha / lora_rank``.
        architecture, hidden_size, ...: of a model from scratch, see ``ModelConfig``.
    """

    source: str = SCRATCH
    dtype: str = "float32"
    gradient_checkpointing: bool = False
    lora_rank: int = 0
    lora_alpha: float = LORA_ALPHA
    architecture: str = "qwen2"
    hidden_size: int = 128
    intermediate_size: int = 512
    num_layers: int = 2
    num_heads: int = 4
    num_kv_heads: int = 2
    rope_theta: float = 10000.0
    tie_embeddings: bool = True
    max_positions: int = 1024

    def __post_init__(self) -> None:
        check_choice("model.dtype", self.dtype, DTYPES)
        check_whole("model.lora_rank", self.lora_rank, 0)
        check_range("model.lora_alpha", self.lora_alpha, 0, open_low=True)
        if not self.lora_rank and self.lora_alpha != LORA_ALPHA:
            raise InputError(
                f"model.lora_alpha = {self.lora_alpha} without adapters; allowed: a model.lora_rank above 0"
            )

    @property
    def lora_scale(self) -> float:
        """The factor of the product of two adapters."""
        return self.lora_alpha / self.lora_rank if self.lora_rank else 1.0

    @property
    def architecture_fields(self) -> dict[str, Any]:
        """Arguments of ``ModelConfig`` for a model from scratch."""
        return {name: value for name, value in vars(self).items() if name not in NOT_ARCHITECTURE}


@dataclass(frozen=True)
class WarmStartSettings(OptimizerSettings):
    """Supervised training on demonstrations, before the policy gradient.

    Attributes:
        steps: number of steps; 0 for no warm start.
        batch: demonstrations a step.
    """

    learning_rate: float = 1e-3
    decay: str = "cosine"
    steps: int = 0
    batch: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("warm_start.steps", self.steps, 0)
        check_whole("warm_start.batch", self.batch, 1)


@dataclass(frozen=True)
class PolicyGradientSettings(OptimizerSettings):
    """Training by group-sampled policy gradients.

    Attributes:
        steps: batches of rollouts.
        prompts: P, prompts of a batch.
        group_size: G, rollouts of a prompt.
        temperature: of sampling; log-probabilities and gradients are those at this temperature.
        epochs: passes over each batch.
        minibatches: parts of equal size into which the prompts of a batch are split, in their order. Each makes an
            update of its own, as in verl; at the first update of a batch the ratio is 1 by definition.
        false_positive: probability that the verifier accepts a wrong rollout, whose reward is then 1.
        false_negative: probability that it rejects a correct one, whose reward is then 0.
        errors_of: the unit that the verifier errs about: each "rollout", each "answer" (a completion's text; the same
            error throughout a seed), or each "prompt" (all its wrong, or all its correct, answers).
        verifier_correction: "none", "backward" or "forward", for these rates: see ``simlab.simulator.verifier``.
        lag: age of the sampler in steps; the first steps are sampled by the start.
        sampler: dtype of the sampler: "exact" for the model's, or "bfloat16".
        correction: for a sampler that is not the policy: "none", "ratio", "decoupled", "truncated" or "masked", see
            ``simlab.simulator.mismatch``.
        correction_unit: one importance weight for each "token", or for the "sequence" of a rollout's tokens.
        correction_bound: the largest importance weight.
        isolation: probability threshold: less likely tokens get their updates first, the others afterwards (Lopti); 0
            turns this off. See ``simlab.simulator.mismatch.takes_part``.
        rounds: most batches that are sampled to find ``prompts`` groups of unequal rewards; the others are dropped. 0
            keeps all groups of one batch.
        rollouts: most rollouts that are sampled at once; further ones start where others have ended.
        microbatch: rollouts whose gradient one program computes. A CPU computes at most 8,192 of their tokens at once.
    """

    steps: int = 100
    prompts: int = 32
    group_size: int = 8
    temperature: float = 1.0
    epochs: int = 1
    minibatches: int = 1
    false_positive: float = 0.0
    false_negative: float = 0.0
    errors_of: str = "rollout"
    verifier_correction: str = "none"
    lag: int = 0
    sampler: str = "exact"
    correction: str = "none"
    correction_unit: str = "token"
    correction_bound: float = 2.0
    isolation: float = 0.0
    rounds: int = 0
    rollouts: int = 4096
    microbatch: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "prompts", "group_size", "epochs", "minibatches", "microbatch"):
            check_whole(name, getattr(self, name), 1)
        if self.prompts % self.minibatches:
            allowed = f"whole numbers that divide the {self.prompts} prompts of a batch"
            raise InputError(f"minibatches = {self.minibatches}; allowed: {allowed}")
        check_whole("rounds", self.rounds, 0)
        check_whole("rl.rollouts", self.rollouts, 1)
        if self.rollouts < self.group_size:
            raise InputError(
                f"rl.rollouts = {self.rollouts} is less than the {self.group_size} rollouts of one group; "
                f"allowed: {self.group_size} or more"
            )
        check_range("temperature", self.temperature, 0, open_low=True)
        check_range("isolation", self.isolation, 0, 1)
        self._check_verifier()
        self._check_sampler()

    @property
    def updates(self) -> int:
        """Number of updates by a batch."""
        return self.epochs * self.minibatches * self.passes

    @property
    def passes(self) -> int:
        """Number of passes over all epochs: two where unlikely tokens come first."""
        return 2 if self.isolation else 1

    @property
    def verifier_errs(self) -> bool:
        """True if the verifier ever errs."""
        return self.false_positive > 0 or self.false_negative > 0

    @property
    def off_policy(self) -> bool:
        """True if the sampler may be another policy than the one that learns."""
        return self.lag > 0 or self.sampler != "exact"

    def correct_rewards(self, accepted: Any) -> Any:
        """Return the corrected rewards of accepted (1) and rejected (0) rollouts."""
        return correct_rewards(accepted, self.verifier_correction, self.false_positive, self.false_negative)

    def check_method(self, method: Method) -> None:
        """Raise ``InputError`` for a method that does not go with a verifier that errs, or with another sampler."""
        if self.verifier_errs:
            check_domain(method.estimator, self.correct_rewards(np.array([[1.0, 0.0]])))
            if "greedy_reward" in method.needs:
                rates = f"rl.false_positive = {self.false_positive:g} and rl.false_negative = {self.false_negative:g}"
                raise InputError(f"{rates} with a method that reads the greedy answer's reward; allowed: 0")
        reads = "entropies" if "entropy" in method.needs else "candidates" if method.surrogate.candidates else ""
        if self.off_policy and reads:
            raise InputError(
                f"rl.lag = {self.lag} and rl.sampler = {self.sampler!r} with a method that reads {reads}; "
                "allowed: 0 and 'exact', as these are the policy's"
            )

    def _check_verifier(self) -> None:
        rates = self.false_positive, self.false_negative
        check_errors(*rates, self.errors_of, self.verifier_correction)
        for name, usual in (("errors_of", "rollout"), ("verifier_correction", "none")):
            if not self.verifier_errs and getattr(self, name) != usual:
                raise InputError(f"rl.{name} = {getattr(self, name)!r} of a verifier without errors; allowed: {usual}")
        check_accepted(float(self.correct_rewards(1.0)), self.verifier_correction, *rates)

    def _check_sampler(self) -> None:
        check_whole("lag", self.lag, 0, LARGEST_LAG)
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("correction", self.correction, mismatch.CORRECTIONS)
        check_choice("correction_unit", self.correction_unit, mismatch.UNITS)
        check_range("correction_bound", self.correction_bound, 1)
        if self.correction != "none" and not self.off_policy:
            raise InputError(f"rl.correction = {self.correction!r} of a sampler that is the policy; allowed: none")


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation of models on the task's evaluation problems; all arms are evaluated alike.

    Attributes:
        every: steps between two evaluations; the start and the end are evaluated too.
        samples: completions of each problem.
        rollouts: most rollouts that are sampled at once; further ones start where others have ended.
        temperature: of sampling; None for that of training, ``rl.temperature``. At 0 the likeliest token is taken, so
            that one sample of each problem is enough.
        top_p, top_k, min_p: see ``simlab.llm.distribution.Truncation``; all tokens by default.
    """

    every: int = 50
    samples: int = 64
    rollouts: int = 4096
    temperature: float | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        for name in ("every", "samples", "rollouts"):
            check_whole(f"evaluation.{name}", getattr(self, name), 1)
        if self.temperature is not None:
            check_range("evaluation.temperature", self.temperature, 0)
        if self.temperature == 0 and self.samples > 1:
            raise InputError(
                f"evaluation.samples = {self.samples} at a temperature of 0, where all are the same; allowed: 1"
            )
        check_range("evaluation.top_p", self.top_p, 0, 1, open_low=True)
        check_whole("evaluation.top_k", self.top_k, 0)
        check_range("evaluation.min_p", self.min_p, 0, 1)
        if self.rollouts < self.samples:
            raise InputError(
                f"evaluation.rollouts = {self.rollouts} is less than the {self.samples} samples of one problem; "
                f"allowed: {self.samples} or more"
            )

    @property
    def truncation(self) -> dict[str, float]:
        """Arguments of ``simlab.llm.sampling.sample`` that truncate a distribution."""
        return {"top_p": self.top_p, "top_k": self.top_k, "min_p": self.min_p}


@dataclass(frozen=True)
class RecordSettings:
    """Contents and frequency of a run's records.

    Attributes:
        checkpoint_every: steps between two checkpoints.
        instruments_every: steps between two uses of the instruments that compute with the model.
        top_n: likeliest candidates whose log-probabilities are recorded by rank, and counted in evaluations.
        rollouts: most rollouts of a step that are stored with their texts, in whole groups; 0 for none.
        completions: most completions of each evaluation set that are stored with their texts: the first sample of each
            problem, then the second, and so on; 0 for none.
        keep_checkpoint: keep the last checkpoint of a finished arm, which simlab itself needs no more.
        weight_changes: measure in evaluations how near to rank 1 the change of each matrix is. That decomposes every
            matrix, which takes seconds in a model of 100 million parameters.
    """

    checkpoint_every: int = 25
    instruments_every: int = 10
    top_n: int = 0
    rollouts: int = 256
    completions: int = 32
    keep_checkpoint: bool = False
    weight_changes: bool = True

    def __post_init__(self) -> None:
        check_whole("record.checkpoint_every", self.checkpoint_every, 1)
        check_whole("record.instruments_every", self.instruments_every, 1)
        check_whole("record.top_n", self.top_n, 0)
        check_whole("record.rollouts", self.rollouts, 0)
        check_whole("record.completions", self.completions, 0)


SECTIONS = {
    "model": ModelSettings,
    "warm_start": WarmStartSettings,
    "rl": PolicyGradientSettings,
    "evaluation": EvaluationSettings,
    "record": RecordSettings,
}


class TrainingArm(NamedTuple):
    """An arm as it is written: a method, and settings of ``rl`` that replace the run's."""

    method: Arm
    overrides: dict[str, Any]


def read_arm(text: str) -> TrainingArm:
    """Read an arm: a method as ``simlab.arms`` reads it, and behind ``@`` settings of ``rl`` for this arm alone.

    Raises:
        InputError: for a text that cannot be read, and a setting that is given twice.

    >>> arm = read_arm("f_grpo(gamma=0.5)@token_mean @ group_size = 4 @learning_rate=1e-4")
    >>> str(arm.method), arm.overrides
    ('f_grpo(gamma=0.5)@token_mean', {'group_size': 4, 'learning_rate': 0.0001})
    """
    method, overrides = text, dict[str, Any]()
    while match := ARM_SETTING.fullmatch(method):
        method, name, value = match[1], match[2].strip(" "), read_value(match[3].strip(" "))
        if name in overrides:
            raise InputError(f"arm {text!r} has {name} twice; allowed: each setting once")
        overrides = {name: value, **overrides}
    return TrainingArm(parse(method), overrides)


@dataclass(frozen=True)
class TrainingSettings:
    """A run: a task, a model, and arms that are trained from the same start on the same problems.

    Attributes:
        task: its name, as ``name``, and its parameters.
        arms: the methods that are compared, see ``read_arm``.
        seeds: number of seeds; each has its own start, problems and random numbers, which its arms share.
        engine: the trainer of the arms: ``"simlab"``, or ``"trl"`` for TRL's. The start and all evaluations are
            simlab's.

    Raises:
        InputError: for settings that cannot be met, in one line.
    """

    task: Mapping[str, Any] = field(default_factory=lambda: {"name": "addition"})
    model: ModelSettings = field(default_factory=ModelSettings)
    warm_start: WarmStartSettings = field(default_factory=WarmStartSettings)
    rl: PolicyGradientSettings = field(default_factory=PolicyGradientSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    record: RecordSettings = field(default_factory=RecordSettings)
    arms: tuple[str, ...] = ("grpo", "f_grpo")
    seeds: int = 1
    engine: str = "simlab"

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds, 1)
        check_choice("engine", self.engine, ENGINES)
        if self.engine == "trl" and self.model.lora_rank:
            raise InputError(f"model.lora_rank = {self.model.lora_rank} with the engine trl; allowed: 0")
        arms = [read_arm(text) for text in self.arms]
        if not arms or len({(arm.method, frozenset(arm.overrides.items())) for arm in arms}) < len(arms):
            raise InputError(f"arms are {', '.join(self.arms) or 'none'}; allowed: one or more, each once")
        for text, arm in zip(self.arms, arms, strict=True):
            method = arm.method.build()
            self.arm_rl(text).check_method(method)
            if self.engine == "trl" and "greedy_reward" in method.needs:
                raise InputError(f"arm {text} reads the greedy answer's reward; allowed with the engine trl: others")

    def arm_rl(self, arm: str) -> PolicyGradientSettings:
        """Return the settings of ``rl`` for an arm: the run's, with the arm's overrides.

        Raises:
            InputError: for an unknown setting, and for values outside their ranges.
        """
        overrides = read_arm(arm).overrides
        if not overrides:
            return self.rl
        rl: PolicyGradientSettings = _build_section(
            "rl", PolicyGradientSettings, dataclasses.asdict(self.rl) | overrides
        )
        return rl

    def select_arm(self, arm: str) -> "TrainingSettings":
        """Return the settings of a run of this arm alone, with its overrides as ``rl``."""
        return dataclasses.replace(self, rl=self.arm_rl(arm), arms=(str(read_arm(arm).method),))

    def as_data(self) -> dict[str, Any]:
        """Return plain data, from which ``from_data`` builds the settings again."""
        return dataclasses.asdict(self) | {"arms": list(self.arms), "task": dict(self.task)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "TrainingSettings":
        """Build settings from plain data; a missing setting has its default.

        Raises:
            InputError: for an unknown section or name, and for values outside their ranges.
        """
        fields = dict(data)
        for name in fields:
            check_choice("section", name, ["task", "arms", "seeds", "engine", *SECTIONS])
        for name, section in SECTIONS.items():
            fields[name] = _build_section(name, section, fields.get(name, {}))
        _check_kind("seeds", int, fields.get("seeds", 1))
        _check_kind("engine", str, fields.get("engine", "simlab"))
        task = fields.get("task", {"name": ""})
        if not (isinstance(task, Mapping) and isinstance(task.get("name"), str)):
            raise InputError(f"task = {task!r}; allowed: its name, as name, and its parameters")
        if "arms" in fields:
            if not isinstance(fields["arms"], (list, tuple)) or not all(isinstance(arm, str) for arm in fields["arms"]):
                raise InputError(f"arms = {fields['arms']!r}; allowed: a list of texts")
            fields["arms"] = tuple(fields["arms"])
        return cls(**fields)


def _build_section(name: str, section: type, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise InputError(f"{name} = {values!r}; allowed: its settings by name")
    kinds = {field.name: type(field.default) for field in dataclasses.fields(section)}
    arguments = {}
    for entry, value in values.items():
        if entry not in kinds:
            hint = did_you_mean(entry, kinds)
            raise InputError(f"{name} has no setting {entry!r}{hint}; it takes: {', '.join(kinds)}")
        # The command line reads "none" as None; for a text it is a choice.
        arguments[entry] = "none" if kinds[entry] is str and value is None else value
        _check_kind(f"{name}.{entry}", kinds[entry], arguments[entry])
    return section(**arguments)


def _check_kind(name: str, kind: type, value: Any) -> None:
    """Raise ``InputError`` for a value of another kind than the setting's; the setting itself checks its range."""
    words = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", NONE: "a number, or none"}
    types: Any = {str: str, bool: bool, int: Integral, float: Real, NONE: (Real, NONE)}[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name} = {value!r}; allowed: {words[kind]}")


def merge_layers(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge plain data of settings, later layers over earlier ones, section by section; a task of a new name is new."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            base = result.get(name)
            if not (isinstance(base, dict) and isinstance(value, Mapping)):
                base = {}
            if name == "task" and base and value.get("name", base.get("name")) != base.get("name"):
                base = {}
            result[name] = {**base, **value} if isinstance(value, Mapping) else value
    return result
