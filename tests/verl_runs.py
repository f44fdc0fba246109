"""Runs of verl's own command on a tiny random model: a folder with what it reads, and the settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from simlab.llm.tokenizer import write_tokenizer
from simlab.llm.vocabulary import characters

VOCABULARY = characters("0123456789+=")
TESTS = Path(__file__).parent
REWARD = '''
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **others):
    """A mixture of right and wrong that follows from the text alone."""
    return float((sum(map(ord, solution_str)) + len(solution_str)) % 3 == 0)
'''
SETTINGS = {
    "data.train_batch_size": 4, "data.max_prompt_length": 8, "data.max_response_length": 5,
    "data.dataloader_num_workers": 0, "data.shuffle": False,
    "actor_rollout_ref.model.use_remove_padding": False,
    "actor_rollout_ref.model.enable_gradient_checkpointing": False,
    "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "actor_rollout_ref.actor.ppo_mini_batch_size": 4,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 8,
    "actor_rollout_ref.actor.optim.lr": 0.01,
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
    "actor_rollout_ref.actor.fsdp_config.model_dtype": "float32",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision": "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}",
    "actor_rollout_ref.rollout.name": "on_cpu", "actor_rollout_ref.rollout.n": 4,
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.rollout.agent.num_workers": 1,
    "reward.num_workers": 1,
    "trainer.n_gpus_per_node": 1, "trainer.nnodes": 1, "trainer.device": "cpu", "trainer.logger": "[console,file]",
    "trainer.val_before_train": False, "trainer.test_freq": -1, "trainer.save_freq": 1, "trainer.total_epochs": 9,
    "trainer.resume_mode": "disable",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "ray_kwargs.ray_init.num_cpus": 8, "+ray_kwargs.ray_init.num_gpus": 1,
    "+ray_kwargs.ray_init.include_dashboard": False,
}  # fmt: skip


def prepare(folder):
    write_tokenizer(folder / "model", VOCABULARY)
    settings = json.loads((folder / "model" / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    (folder / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY.size, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=64,
        initializer_range=0.5, tie_word_embeddings=False,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    rows = [
        {"data_source": "addition", "prompt": [{"role": "user", "content": f"{n}+{n + 1}="}],
         "reward_model": {"style": "rule", "ground_truth": ""}, "extra_info": {"index": n}}
        for n in range(8)
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet(folder / "prompts.parquet")
    (folder / "reward.py").write_text(REWARD)


def train(folder, name, steps, **settings):
    options = SETTINGS | {
        "data.train_files": folder / "prompts.parquet", "data.val_files": folder / "prompts.parquet",
        "actor_rollout_ref.model.path": folder / "model",
        "reward.custom_reward_function.path": folder / "reward.py",
        "trainer.default_local_dir": folder / name, "trainer.total_training_steps": steps,
    } | settings  # fmt: skip
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{key}={value}" for key, value in options.items())]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {
        "PYTHONPATH": path, "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu", "VERL_PLATFORM": "on_cpu",
        "VERL_FILE_LOGGER_PATH": str(folder / f"{name}.jsonl"), "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": "/tmp", "HYDRA_FULL_ERROR": "1", "TOKENIZERS_PARALLELISM": "false",
    }  # fmt: skip
    with (folder / f"{name}.log").open("w") as log:
        done = subprocess.run(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=environment, timeout=900, check=False
        )
    assert done.returncode == 0, (folder / f"{name}.log").read_text()[-5000:]
    return [json.loads(line)["data"] for line in (folder / f"{name}.jsonl").read_text().splitlines()]
