"""A tiny model, its tokenizer and prompts, and trainers on them: for the tests of the TRL adapter."""

import warnings

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig

from simlab.adapters.trl import SimlabGRPOTrainer
from simlab.llm.tokenizer import write_tokenizer
from simlab.llm.vocabulary import characters

VOCABULARY = characters("0123456789+=")
PROMPTS = [f"{n}+{n + 1}=" for n in range(8)]
LENGTH = 5


def model_and_tokenizer(folder):
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, VOCABULARY)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY.size, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=64,
        initializer_range=0.5,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)  # TRL loads a reference model from where the model came from
    return LlamaForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def reward(completions, **others):
    return [float((sum(map(ord, text)) + len(text)) % 3 == 0) for text in completions]


def fixed_rollouts(prompts, trainer):
    ids, completions = [], []
    offset = trainer.accelerator.process_index * len(prompts)
    for row, prompt in enumerate(prompts):
        source = np.random.default_rng([sum(map(ord, prompt)), (offset + row) % trainer.num_generations])
        length = int(source.integers(1, LENGTH + 1))
        ids.append(trainer.processing_class(prompt)["input_ids"])
        completions.append([*source.integers(3, VOCABULARY.size, length - 1).tolist(), 2][:length])
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": None}


def trainer(folder, *, kind=SimlabGRPOTrainer, rewards=reward, policy=None, settings=None, **options):
    model, tokenizer = model_and_tokenizer(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = GRPOConfig(**{
            "output_dir": str(folder / "out"), "per_device_train_batch_size": 16, "num_generations": 4,
            "max_completion_length": LENGTH, "use_cpu": True, "bf16": False, "report_to": [], "max_steps": 1,
            "learning_rate": 1e-2, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "optim": "sgd",
            "shuffle_dataset": False, "save_strategy": "no", "disable_tqdm": True,
            "gradient_checkpointing": False, **(settings or {}),
        })  # fmt: skip
        return kind(
            policy or model, reward_funcs=rewards, args=args, train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
            processing_class=tokenizer, rollout_func=fixed_rollouts, **options,
        )  # fmt: skip
