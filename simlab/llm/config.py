"""The sizes and options of a Llama, Qwen2 or Qwen3 decoder, from and to a Hugging Face ``config.json``."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from simlab.errors import InputError, check_choice, check_range, check_whole

LARGEST_SIZE = 2**31 - 1  # of anything that is counted: places are int32
LARGEST_BASE = 1e30  # of rotations; float32 holds numbers up to 3e38
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3's change of the rotation's frequencies, for contexts longer than ``original_positions``."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_positions: float

    def __post_init__(self) -> None:
        low, high = self.low_frequency_factor, self.high_frequency_factor
        check_range("rope factor", self.factor, 1.0, LARGEST_BASE)
        check_range("low_freq_factor", low, 0.0, LARGEST_BASE, open_low=True)
        check_range("high_freq_factor", high, low, LARGEST_BASE, open_low=True)
        check_range("original_max_position_embeddings", self.original_positions, 1, LARGEST_SIZE)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The sizes and options of a decoder; ``InputError`` for those that do not fit together."""

    vocab_size: int  # V tokens
    hidden_size: int  # D, the width of the residual stream
    intermediate_size: int  # F, the width of the feed-forward layer
    num_layers: int  # L
    num_heads: int  # H query heads
    num_kv_heads: int = 0  # K key and value heads, each of H / K query heads; 0 for H
    head_dim: int = 0  # E numbers a head, even; 0 for D / H
    rope_theta: float = 10000.0  # base of the rotation's frequencies
    rope_scaling: Llama3Scaling | None = None
    rms_norm_eps: float = 1e-6  # added to the mean square
    tie_embeddings: bool = False  # the matrix that embeds tokens also gives the logits
    max_positions: int = 2048  # the longest sequence, prompt and completion together
    architecture: str = "llama"  # llama, qwen2 or qwen3
    bos_id: int | None = None  # the token that starts a sequence
    eos_ids: tuple[int, ...] = ()  # the tokens that end one
    pad_id: int | None = None  # the token that fills up a batch

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads", "max_positions"):
            check_whole(name, getattr(self, name), 1, LARGEST_SIZE)
        check_choice("architecture", self.architecture, CLASSES)
        check_choice("tie_embeddings", self.tie_embeddings, (True, False))
        object.__setattr__(self, "num_kv_heads", self.num_kv_heads or self.num_heads)
        object.__setattr__(self, "head_dim", self.head_dim or self.hidden_size // self.num_heads)
        check_whole("num_kv_heads", self.num_kv_heads, 1, LARGEST_SIZE)
        check_whole("head_dim", self.head_dim, 2, LARGEST_SIZE)
        check_range("rope_theta", self.rope_theta, 1.0, LARGEST_BASE)
        check_range("rms_norm_eps", self.rms_norm_eps, 0.0, 1.0)
        if self.num_heads % self.num_kv_heads:
            raise InputError(f"num_kv_heads = {self.num_kv_heads}; allowed: divisors of num_heads = {self.num_heads}")
        if self.head_dim % 2:
            raise InputError(f"head_dim = {self.head_dim}; allowed: even numbers, which are rotated in pairs")
        for name, token in (("bos_id", self.bos_id), ("pad_id", self.pad_id), *(("eos_ids", i) for i in self.eos_ids)):
            if token is not None or name == "eos_ids":
                check_whole(name, token, 0, self.vocab_size - 1)

    @property
    def attention_bias(self) -> bool:
        """True if queries, keys and values have a bias."""
        return self.architecture == "qwen2"

    @property
    def qk_norm(self) -> bool:
        """True if each head's queries and keys are normalised."""
        return self.architecture == "qwen3"


# Entries of a config.json that say nothing of the logits, whatever their value.
IGNORED = frozenset((
    "_name_or_path", "_attn_implementation_autoset", "architectures", "auto_map", "chunk_size_feed_forward", "dtype",
    "eos_token", "id2label", "initializer_range", "is_llama_config", "keys_to_ignore_at_inference", "label2id",
    "max_window_layers", "output_attentions", "output_hidden_states", "problem_type", "return_dict", "sliding_window",
    "torch_dtype", "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version", "use_cache",
))  # fmt: skip
# Entries that have to have one of these values, where they are there at all.
FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False, None),
    "attention_dropout": (0, None),
    "is_encoder_decoder": (False,),
    "mlp_bias": (False, None),
    "num_experts": (0, None),
    "partial_rotary_factor": (1, None),
    "per_layer_config": (None, {}),
    "pretraining_tp": (1, None),
    "quantization_config": (None,),
    "rope_interleaved": (False,),
    "use_mrope": (False,),
    "use_qk_norm": (False, None),
    "use_sliding_window": (False, None),
}
READ = {
    **{name: name for name in ("vocab_size", "hidden_size", "intermediate_size", "head_dim", "rms_norm_eps")},
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "tie_word_embeddings": "tie_embeddings",
    "max_position_embeddings": "max_positions",
    "bos_token_id": "bos_id",
    "pad_token_id": "pad_id",
}
REQUIRED = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
KNOWN = {*IGNORED, *READ, "model_type", "rope_theta", "rope_scaling", "rope_parameters", "eos_token_id"}
LLAMA3 = {
    "factor": "factor",
    "low_freq_factor": "low_frequency_factor",
    "high_freq_factor": "high_frequency_factor",
    "original_max_position_embeddings": "original_positions",
}


def from_hugging_face(entries: Mapping[str, Any]) -> ModelConfig:
    """Read a ``config.json`` of ``transformers`` 4 or 5; ``InputError`` names a missing, unknown or unfit entry."""
    for name in REQUIRED:
        if entries.get(name) is None:
            raise InputError(f"the config has no entry {name}")
    check_choice("model_type", entries["model_type"], CLASSES)
    for name, value in entries.items():
        if name in FIXED and value not in FIXED[name]:
            allowed = " or ".join(repr(choice) for choice in FIXED[name] if choice is not None)
            raise InputError(f"the config's {name} = {value!r} is not supported; allowed: {allowed}")
        if name == "layer_types":
            if value is not None and (not isinstance(value, list) or {"full_attention"} != set(map(str, value))):
                raise InputError(f"the config's layer_types = {value!r} is not supported; allowed: full_attention")
        elif name not in FIXED and name not in KNOWN:
            raise InputError(f"the config's entry {name} = {value!r} is not known, and might change the model")
    fields = {READ[name]: value for name, value in entries.items() if name in READ and value is not None}
    if entries["model_type"] == "qwen3":
        fields.setdefault("head_dim", 128)  # the default of transformers, where a Qwen3 config says nothing
    eos = entries.get("eos_token_id")
    fields["eos_ids"] = () if eos is None else tuple(eos) if isinstance(eos, list) else (eos,)
    theta, scaling = _rope(entries)
    return ModelConfig(**fields, architecture=entries["model_type"], rope_theta=theta, rope_scaling=scaling)


def _rope(entries: Mapping[str, Any]) -> tuple[float, Llama3Scaling | None]:
    """Read transformers 5's ``rope_parameters``, or 4's ``rope_theta`` and ``rope_scaling``."""
    numbers: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        if not isinstance(entries.get(name), dict | None):
            raise InputError(f"the config's {name} = {entries[name]!r} is no JSON object")
        numbers |= entries.get(name) or {}
    theta = numbers.pop("rope_theta", entries.get("rope_theta"))
    kinds = [kind for name in ("type", "rope_type") if (kind := numbers.pop(name, "default")) != "default"]
    for kind in kinds:
        check_choice("the config's rope_type", kind, ("default", "llama3"))
    if numbers.pop("partial_rotary_factor", 1) != 1:
        raise InputError("the config's partial_rotary_factor is not supported; allowed: 1")
    allowed = LLAMA3 if kinds else {}
    for name in numbers:
        if name not in allowed:
            names = ", ".join(allowed) or "rope_theta"
            raise InputError(f"the config's rope entry {name} = {numbers[name]!r} is not known; allowed: {names}")
    for name in allowed:
        if name not in numbers:
            raise InputError(f"the config's rope scaling has no {name}")
    scaling = Llama3Scaling(**{field: numbers[name] for name, field in LLAMA3.items()}) if kinds else None
    return 10000.0 if theta is None else theta, scaling


def to_hugging_face(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """Return the entries of the ``config.json`` that ``transformers`` 4 and 5 read; ``dtype`` is the weights'."""
    entries: dict[str, Any] = {name: getattr(config, field) for name, field in READ.items()}
    if config.rope_scaling is not None:
        numbers = {name: getattr(config.rope_scaling, field) for name, field in LLAMA3.items()}
        entries["rope_scaling"] = {"rope_type": "llama3", **numbers}
    if config.architecture != "qwen2":
        entries["attention_bias"] = False
    eos: Any = list(config.eos_ids)
    return entries | {
        "architectures": [CLASSES[config.architecture]],
        "eos_token_id": None if not eos else eos[0] if len(eos) == 1 else eos,
        "hidden_act": "silu",
        "model_type": config.architecture,
        "rope_theta": config.rope_theta,
        "torch_dtype": dtype,
    }
