"""Settings of a training run, as the plain data of ``run.json``; annotations say their kinds and ranges."""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np

from simlab.arms import Arm, parse
from simlab.errors import InputError, check_choice, check_range, check_whole, did_you_mean
from simlab.estimators.registry import check_domain
from simlab.interference.kernel import FEWEST
from simlab.methods import Method
from simlab.simulator import mismatch
from simlab.simulator.settings import ENDANGERED, LARGEST_LAG, NO_REMEDY, REMEDIES, REWARDS, TRUE_REWARD
from simlab.simulator.verifier import check_accepted, check_errors, correct_rewards
from simlab.text import read_value

SCRATCH = "scratch"
LORA_ALPHA = 32.0
ARM_SETTING = re.compile(r"(.*)@([^@=()]+)=([^@=()]*)", re.DOTALL)
KINDS: dict[Any, tuple[Any, str]] = {
    str: (str, "a text"),
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    float | None: (Real | None, "a number, or none"),
}


check_positive = functools.partial(check_range, low=0, open_low=True)
Count = Annotated[int, check_whole, 1]
CountOrNone = Annotated[int, check_whole, 0]
Positive = Annotated[float, check_positive]
NotNegative = Annotated[float, check_range, 0]
Share = Annotated[float, check_range, 0, 1]
Decay = Annotated[str, check_choice, ("constant", "cosine")]


class Section:
    """Settings that are checked by their annotations; ``prefix`` goes before their names in messages."""

    prefix = ""

    def __post_init__(self) -> None:
        """Raise ``InputError`` for a value outside its range."""
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            check, *limits = getattr(hint, "__metadata__", [None])
            if check is not None and getattr(self, name) is not None:
                check(f"{self.prefix}{name}", getattr(self, name), *limits)


@dataclass(frozen=True)
class ModelSettings(Section):
    """The model that is trained.

    Attributes:
        source: ``"scratch"``, or a source that ``simlab.llm.pretrained.load`` takes.
        dtype: of rollouts and gradients. Parameters, sums of gradients and the optimiser's state are always float32, so
            that updates too small for bfloat16 add up.
        gradient_checkpointing: store only the inputs of layers for a gradient, and compute the layers a second time:
            a third longer, in the memory of one layer instead of all.
        lora_rank: the rank of the adapters that the arms train instead of the model's parameters; 0 for all parameters.
        lora_alpha: the product of two adapters is multiplied by ``lora_alpha / lora_rank``.
        architecture, hidden_size, ...: of a model from scratch, see ``ModelConfig``.
    """

    prefix = "model."
    source: str = SCRATCH
    dtype: Annotated[str, check_choice, ("float32", "bfloat16")] = "float32"
    gradient_checkpointing: bool = False
    lora_rank: CountOrNone = 0
    lora_alpha: Positive = LORA_ALPHA
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
        super().__post_init__()
        if not self.lora_rank and self.lora_alpha != LORA_ALPHA:
            raise InputError(
                f"model.lora_alpha = {self.lora_alpha} without adapters; allowed: a model.lora_rank above 0"
            )

    @property
    def lora_scale(self) -> float:
        """The factor of the product of two adapters."""
        return self.lora_alpha / self.lora_rank if self.lora_rank else 1.0


@dataclass(frozen=True)
class OptimizerSettings(Section):
    """Settings of the optimiser in a phase of training.

    Attributes:
        learning_rate: the rate from the end of the warm-up on.
        warmup: steps over which the learning rate rises linearly.
        decay: ``"constant"``, or ``"cosine"``, which falls from the first step on and would be 0 after the last.
        weight_decay: decoupled, of matrices; norms and biases have none.
        b1, b2, eps: Adam's.
        max_norm: a gradient with a larger Euclidean norm, over all parameters together, is scaled down to it; a very
            large number clips nothing.
        optimizer: ``"adamw"``, or ``"sgd"`` for plain steps by the clipped gradient and the decay.
    """

    learning_rate: NotNegative = 1e-4
    warmup: CountOrNone = 0
    decay: Decay = "constant"
    weight_decay: NotNegative = 0.01
    b1: Share = 0.9
    b2: Share = 0.95
    eps: NotNegative = 1e-8
    max_norm: Positive = 1.0
    optimizer: Annotated[str, check_choice, ("adamw", "sgd")] = "adamw"

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, from 1 to ``steps``."""
        rising = min(1.0, step / (self.warmup + 1))
        falling = 0.5 + 0.5 * math.cos(math.pi * (step - 1) / steps) if self.decay == "cosine" else 1.0
        return self.learning_rate * rising * falling


@dataclass(frozen=True)
class WarmStartSettings(OptimizerSettings):
    """Supervised training on demonstrations, before the policy gradient.

    Attributes:
        steps: number of steps; 0 for no warm start.
        batch: demonstrations a step.
    """

    prefix = "warm_start."
    learning_rate: NotNegative = 1e-3
    decay: Decay = "cosine"
    steps: CountOrNone = 0
    batch: Count = 64


@dataclass(frozen=True)
class PolicyGradientSettings(OptimizerSettings):
    """Training by group-sampled policy gradients.

    Attributes:
        steps: batches of rollouts.
        prompts: P, prompts of a batch.
        group_size: G, rollouts of a prompt.
        temperature: of sampling; log-probabilities and gradients are those at this temperature.
        epochs: passes over each batch.
        minibatches: equal parts of the prompts of a batch, in their order. Each makes an update of its own, as in verl;
            at the first update of a batch the ratio is 1 by definition.
        false_positive: probability that the verifier accepts a wrong rollout, whose reward is then 1.
        false_negative: probability that it rejects a correct one, whose reward is then 0.
        errors_of: the verifier errs about each "rollout", each "answer" (a text, throughout a seed), or each "prompt"
            (all its wrong, or all its correct, answers).
        verifier_correction: "none", "backward" or "forward", see ``simlab.simulator.verifier``.
        lag: age of the sampler in steps; the first steps are sampled by the start.
        sampler: dtype of the sampler: "exact" for the model's, or "bfloat16".
        correction: for a sampler that is not the policy: "none", "ratio", "decoupled", "truncated" or "masked", see
            ``simlab.simulator.mismatch``.
        correction_unit: one importance weight for each "token", or for the "sequence" of a rollout's tokens.
        correction_bound: the largest importance weight.
        isolation: less likely tokens get their updates first, the others afterwards (Lopti); 0 turns this off. See
            ``simlab.simulator.mismatch.takes_part``.
        teacher: model whose log-probabilities methods such as ``opd`` follow, named as ``model.source`` names one; it
            reads the same tokens.
        rounds: most batches that are sampled to find ``prompts`` groups of unequal rewards; 0 keeps all of one batch.
        rollouts: most rollouts that are sampled at once; further ones start where others have ended.
        reward: "true", or a placebo that no answer earns, at the same rate: "placebo" pays a rollout what another
            answer to its prompt gets, of a second group that is sampled for it, "placebo_by_group" deals the rewards of
            a group out at random.
        remedy: what a step makes of its interference, which its own rollouts measure by ``probe.estimator``: "none";
            "damp" or "drop" the prompts that harm those in danger most; "project" the update off pushing them down; or
            "endangered", by which they come again in the next batch. See ``simlab.interference.remedies``.
        remedy_strength: how much: of a weight that the worst prompt loses, of the harmful prompts that are dropped, of
            the projection, or of the batch that prompts in danger get.
        microbatch: rollouts whose gradient one program computes. A CPU computes at most 8,192 of their tokens at once.
    """

    prefix = "rl."
    steps: Count = 100
    prompts: Count = 32
    group_size: Count = 8
    temperature: Positive = 1.0
    epochs: Count = 1
    minibatches: Count = 1
    false_positive: float = 0.0
    false_negative: float = 0.0
    errors_of: str = "rollout"
    verifier_correction: str = "none"
    lag: Annotated[int, check_whole, 0, LARGEST_LAG] = 0
    sampler: Annotated[str, check_choice, ("exact", "bfloat16")] = "exact"  # the decoder computes in no float16
    correction: Annotated[str, check_choice, mismatch.CORRECTIONS] = "none"
    correction_unit: Annotated[str, check_choice, mismatch.UNITS] = "token"
    correction_bound: Annotated[float, check_range, 1] = 2.0
    isolation: Share = 0.0
    teacher: str = ""
    rounds: CountOrNone = 0
    reward: Annotated[str, check_choice, REWARDS] = TRUE_REWARD
    remedy: Annotated[str, check_choice, REMEDIES] = NO_REMEDY
    remedy_strength: Share = 0.5
    rollouts: Count = 4096
    microbatch: Count = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompts % self.minibatches:
            allowed = f"whole numbers that divide the {self.prompts} prompts of a batch"
            raise InputError(f"minibatches = {self.minibatches}; allowed: {allowed}")
        _check_at_once("rl", self.rollouts, self.group_size, "rollouts of one group")
        rates = self.false_positive, self.false_negative
        check_errors(*rates, self.errors_of, self.verifier_correction)
        for name, usual in (("errors_of", "rollout"), ("verifier_correction", "none")):
            if not self.verifier_errs and getattr(self, name) != usual:
                raise InputError(f"rl.{name} = {getattr(self, name)!r} of a verifier without errors; allowed: {usual}")
        check_accepted(float(self.correct_rewards(1.0)), self.verifier_correction, *rates)
        if self.reward != TRUE_REWARD and self.verifier_errs:
            raise InputError(f"rl.reward = {self.reward!r} with a verifier that errs; allowed: {TRUE_REWARD}")
        if self.correction != "none" and not self.off_policy:
            raise InputError(f"rl.correction = {self.correction!r} of a sampler that is the policy; allowed: none")
        self._check_remedy()

    @property
    def updates(self) -> int:
        """Number of updates by a batch."""
        return self.epochs * self.minibatches * (2 if self.isolation else 1)

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

    def _check_remedy(self) -> None:
        """Raise ``InputError`` for a remedy where a batch does not tell what its step does."""
        said = f"rl.remedy = {self.remedy!r} with"
        wrong = {
            f"groups of {self.group_size}; allowed: {FEWEST} or more": self.group_size < FEWEST,
            f"{self.updates} updates by a batch; allowed: 1": self.updates > 1,
            "a sampler that is another policy; allowed: rl.lag = 0 and rl.sampler = 'exact'": self.off_policy,
            f"rl.rounds = {self.rounds}; allowed: 0": self.rounds and self.remedy == ENDANGERED,
        }
        for words, refused in wrong.items():
            if refused and self.remedy != NO_REMEDY:
                raise InputError(f"{said} {words}")

    def check_method(self, method: Method) -> None:
        """Raise ``InputError`` for a method that does not go with a verifier that errs, or with another sampler."""
        if self.reward != TRUE_REWARD and "greedy_reward" in method.needs:
            reads = "a method that reads the greedy answer's reward"
            raise InputError(f"rl.reward = {self.reward!r} with {reads}; allowed: {TRUE_REWARD}")
        if self.verifier_errs:
            check_domain(method.estimator, self.correct_rewards(np.array([[1.0, 0.0]])))
            if "greedy_reward" in method.needs:
                rates = f"rl.false_positive = {self.false_positive:g} and rl.false_negative = {self.false_negative:g}"
                raise InputError(f"{rates} with a method that reads the greedy answer's reward; allowed: 0")
        if "teacher_logp" in method.needs and not self.teacher:
            raise InputError("rl.teacher = '' with a method that follows a teacher; allowed: a model, as model.source")
        sizes = "entropies" if "entropy" in method.needs else "sums of squares" if "collision" in method.needs else ""
        reads = sizes or ("candidates" if method.surrogate.candidates else "")
        if self.off_policy and reads:
            raise InputError(
                f"rl.lag = {self.lag} and rl.sampler = {self.sampler!r} with a method that reads {reads}; "
                "allowed: 0 and 'exact', as these are the policy's"
            )


def _check_at_once(section: str, rollouts: int, fewest: int, unit: str) -> None:
    if rollouts < fewest:
        raise InputError(f"{section}.rollouts = {rollouts} is less than the {fewest} {unit}; allowed: {fewest} or more")


@dataclass(frozen=True)
class EvaluationSettings(Section):
    """Evaluation of models on the task's evaluation problems; all arms are evaluated alike.

    Attributes:
        every: steps between two evaluations; the start and the end are evaluated too.
        samples: completions of each problem.
        rollouts: most rollouts that are sampled at once; further ones start where others have ended.
        temperature: of sampling; None for ``rl.temperature``. At 0 the likeliest token is taken.
        top_p, top_k, min_p: see ``simlab.llm.distribution.Truncation``; all tokens by default.
    """

    prefix = "evaluation."
    every: Count = 50
    samples: Count = 64
    rollouts: Count = 4096
    temperature: Annotated[float | None, check_range, 0] = None
    top_p: Annotated[float, functools.partial(check_positive, high=1)] = 1.0
    top_k: CountOrNone = 0
    min_p: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature == 0 and self.samples > 1:
            raise InputError(
                f"evaluation.samples = {self.samples} at a temperature of 0, where all are the same; allowed: 1"
            )
        _check_at_once("evaluation", self.rollouts, self.samples, "samples of one problem")


@dataclass(frozen=True)
class RecordSettings(Section):
    """Contents and frequency of a run's records.

    Attributes:
        checkpoint_every: steps between two checkpoints.
        instruments_every: steps between two uses of the instruments that compute with the model.
        top_n: likeliest candidates whose log-probabilities are recorded by rank, and counted in evaluations.
        rollouts: most rollouts of a step that are stored with their texts, in whole groups; 0 for none.
        completions: most completions of each evaluation set that are stored with their texts: the first sample of each
            problem, then the second, and so on; 0 for none.
        keep_checkpoint: keep the last checkpoint of a finished arm, which simlab itself needs no more.
        weight_changes: measure in evaluations how near to rank 1 the change of each matrix is: seconds in a model of
            100 million parameters.
    """

    prefix = "record."
    checkpoint_every: Count = 25
    instruments_every: Count = 10
    top_n: CountOrNone = 0
    rollouts: CountOrNone = 256
    completions: CountOrNone = 32
    keep_checkpoint: bool = False
    weight_changes: bool = True


@dataclass(frozen=True)
class ProbeSettings(Section):
    """Measurement of how far prompts move one another, ``simlab.interference``.

    Attributes:
        every: steps between two measurements, each before the step's update; 0 for none.
        estimator: ``"full"``, gradients of all that is trained; ``"head"``, the last layer alone, without gradients; or
            ``"both"``.
        panel: problems, the first of the first evaluation set, that are watched beside the batch.
        rollouts: of each problem of the panel, in groups of ``rl.group_size``.
        sketch: numbers onto which ``full`` projects the gradient of a layer, best a prime; 0 keeps all.
    """

    prefix = "probe."
    every: CountOrNone = 0
    estimator: Annotated[str, check_choice, ("full", "head", "both")] = "full"
    panel: CountOrNone = 0
    rollouts: Count = 64
    sketch: CountOrNone = 1021

    @property
    def estimators(self) -> tuple[str, ...]:
        """Names of the estimators that are used."""
        return ("full", "head") if self.estimator == "both" else (self.estimator,)

    def check_fits(self, group_size: int, engine: str) -> None:
        """Raise ``InputError`` for groups, or an engine, that cannot be measured."""
        if self.every and engine != "simlab":
            raise InputError(f"probe.every = {self.every} with the engine {engine}; allowed: 0")
        if self.every and group_size < FEWEST:
            raise InputError(f"probe.every = {self.every} with groups of {group_size}; allowed: {FEWEST} or more")
        if self.every and self.panel and self.rollouts % group_size:
            allowed = f"whole numbers of groups of {group_size}"
            raise InputError(f"probe.rollouts = {self.rollouts}; allowed: {allowed}")


SECTIONS: dict[str, type[Section]] = {
    "model": ModelSettings,
    "warm_start": WarmStartSettings,
    "rl": PolicyGradientSettings,
    "evaluation": EvaluationSettings,
    "record": RecordSettings,
    "probe": ProbeSettings,
}


class TrainingArm(NamedTuple):
    """An arm as it is written: a method, and settings of ``rl`` that replace the run's."""

    method: Arm
    overrides: dict[str, Any]


def read_arm(text: str) -> TrainingArm:
    """Read an arm: a method as ``simlab.arms`` reads it, and behind ``@`` settings of ``rl`` for this arm alone.

    Raises: InputError: for a text that cannot be read, and a setting that is given twice.

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
class TrainingSettings(Section):
    """A run: a task, a model, and arms that are trained from the same start on the same problems.

    Attributes:
        task: its name, as ``name``, and its parameters.
        arms: the methods that are compared, see ``read_arm``.
        seeds: number of seeds; each has its own start, problems and random numbers, which its arms share.
        engine: the trainer of the arms: ``"simlab"``, or ``"trl"``; starts and evaluations are simlab's.

    Raises: InputError: for settings that cannot be met, in one line.
    """

    task: Mapping[str, Any] = field(default_factory=lambda: {"name": "addition"})
    model: ModelSettings = field(default_factory=ModelSettings)
    warm_start: WarmStartSettings = field(default_factory=WarmStartSettings)
    rl: PolicyGradientSettings = field(default_factory=PolicyGradientSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    record: RecordSettings = field(default_factory=RecordSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    arms: tuple[str, ...] = ("grpo", "f_grpo")
    seeds: Count = 1
    engine: Annotated[str, check_choice, ("simlab", "trl")] = "simlab"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine == "trl" and self.model.lora_rank:
            raise InputError(f"model.lora_rank = {self.model.lora_rank} with the engine trl; allowed: 0")
        arms = [read_arm(text) for text in self.arms]
        if not arms or len({(arm.method, frozenset(arm.overrides.items())) for arm in arms}) < len(arms):
            raise InputError(f"arms are {', '.join(self.arms) or 'none'}; allowed: one or more, each once")
        for text, arm in zip(self.arms, arms, strict=True):
            method = arm.method.build()
            self.arm_rl(text).check_method(method)
            self.probe.check_fits(self.arm_rl(text).group_size, self.engine)
            if "role" in method.needs:
                raise InputError(f"arm {text} reads the role of each rollout; allowed: others, as tasks have no roles")
            if self.engine == "trl" and "greedy_reward" in method.needs:
                raise InputError(f"arm {text} reads the greedy answer's reward; allowed with the engine trl: others")

    def arm_rl(self, arm: str) -> PolicyGradientSettings:
        """Return the settings of ``rl`` for an arm: the run's, with the arm's overrides."""
        data = vars(self.rl) | read_arm(arm).overrides
        rl: PolicyGradientSettings = _build_section("rl", PolicyGradientSettings, data)
        return rl

    def select_arm(self, arm: str) -> tuple["TrainingSettings", Method]:
        """Return the settings of a run of this arm alone, with its overrides as ``rl``, and its method."""
        method = read_arm(arm).method
        return dataclasses.replace(self, rl=self.arm_rl(arm), arms=(str(method),)), method.build()

    def as_data(self) -> dict[str, Any]:
        """Return plain data, from which ``from_data`` builds the settings again."""
        return dataclasses.asdict(self) | {"arms": list(self.arms), "task": dict(self.task)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "TrainingSettings":
        """Build settings from plain data; a missing setting has its default."""
        fields = dict(data)
        for name in fields:
            check_choice("section", name, ["task", "arms", "seeds", "engine", *SECTIONS])
        for name, section in SECTIONS.items():
            fields[name] = _build_section(name, section, fields.get(name, {}))
        for name, kind in (("seeds", int), ("engine", str)):
            _check_kind(name, kind, fields.get(name, getattr(cls, name)))
        task, arms = fields.get("task", {"name": ""}), fields.get("arms", cls.arms)
        if not (isinstance(task, Mapping) and isinstance(task.get("name"), str)):
            raise InputError(f"task = {task!r}; allowed: its name, as name, and its parameters")
        if not isinstance(arms, (list, tuple)) or not all(isinstance(arm, str) for arm in arms):
            raise InputError(f"arms = {arms!r}; allowed: a list of texts")
        return cls(**fields | {"arms": tuple(arms)})


def _build_section(name: str, section: type, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise InputError(f"{name} = {values!r}; allowed: its settings by name")
    kinds, arguments = get_type_hints(section), dict(values)
    for entry, value in values.items():
        if entry not in kinds:
            hint = did_you_mean(entry, kinds)
            raise InputError(f"{name} has no setting {entry!r}{hint}; it takes: {', '.join(kinds)}")
        if kinds[entry] is str and (value is None or isinstance(value, bool)):
            arguments[entry] = str(value).lower()  # the command line reads "none" and "true" so, here a choice
        _check_kind(f"{name}.{entry}", kinds[entry], arguments[entry])
    return section(**arguments)


def _check_kind(name: str, kind: Any, value: Any) -> None:
    """Raise ``InputError`` for a value of another kind than the setting's; the setting itself checks its range."""
    types, words = KINDS[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name} = {value!r}; allowed: {words}")


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
