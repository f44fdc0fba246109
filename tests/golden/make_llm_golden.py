"""Make the checkpoints and logits that tests/test_llm_model.py compares with: tiny random models of ``transformers``.

Run in an environment with torch 2.13.0 and transformers 5.23.0: ``python tests/golden/make_llm_golden.py [FOLDER]``.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).parent / "llm"
SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LLAMA, QWEN2, QWEN3 = (LlamaConfig, LlamaForCausalLM), (Qwen2Config, Qwen2ForCausalLM), (Qwen3Config, Qwen3ForCausalLM)
MODELS = {
    "llama": (LLAMA, {}),
    "llama_all_heads": (LLAMA, {"num_key_value_heads": 4, "rms_norm_eps": 1e-5, "eos_token_id": [2, 3]}),
    "llama_one_kv_head_tied": (LLAMA, {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "llama3_scaled": (LLAMA, {"rope_parameters": LLAMA3}),
    "llama_head_dim": (LLAMA, {"head_dim": 6}),
    "qwen2": (QWEN2, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "qwen2_tied": (QWEN2, {"tie_word_embeddings": True, "num_hidden_layers": 3}),
    "qwen3": (QWEN3, {"head_dim": 8}),
    "qwen3_tied": (QWEN3, {"head_dim": 4, "tie_word_embeddings": True, "num_key_value_heads": 4}),
    "qwen3_sharded": (QWEN3, {"head_dim": 6}),
    "qwen2_bfloat16": (QWEN2, {}),
}


def build(name):
    """The model of a name, with every weight random, norms and biases too."""
    (config, model), options = MODELS[name]
    torch.manual_seed(sorted(MODELS).index(name))
    made = model(config(**(SIZES | options))).eval()
    with torch.no_grad():
        for weight, values in made.named_parameters():
            values.normal_(std=0.3)
            if "norm" in weight:
                values.add_(1)
            if name.endswith("bfloat16"):
                values.copy_(values.bfloat16())
    return made


def tokens_of(model):
    """Two sequences of 40 tokens, longer than the original context of the scaled model."""
    return torch.randint(model.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(0))


def logits_of(model, tokens):
    """The logits after each token, computed in float32 also where the weights are stored in fewer bits."""
    with torch.no_grad():
        return model(tokens).logits.numpy()


def make(folder):
    """Write every model and its logits."""
    for name in MODELS:
        model = build(name)
        tokens = tokens_of(model)
        logits = logits_of(model, tokens)
        stored = model.to(torch.bfloat16) if name.endswith("bfloat16") else model
        stored.save_pretrained(folder / name, max_shard_size="8KB" if name.endswith("sharded") else "5GB")
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        np.savez_compressed(folder / name / "golden.npz", tokens=tokens.numpy(), logits=logits)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
