"""Files of prompts and answers, and a tiny pretrained model with a chat template, for tests of own data."""

import json

import jax
from training_cases import parameters_of

from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.config import ModelConfig
from simlab.llm.tokenizer import write_tokenizer
from simlab.llm.vocabulary import characters

ALPHABET = "0123456789+=-? []\nabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\\{}"
CHAT = "{% for message in messages %}[{{ message.role }}]{{ message.content }}\n{% endfor %}[assistant]"


def lines(path, rows):
    """Write rows as JSON Lines."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def sums(numbers, **columns):
    """Rows such as 3+4=, whose answers are numbers."""
    names = {"prompt": "prompt", "answer": "answer"} | columns
    return [{names["prompt"]: f"{first}+{second}=", names["answer"]: first + second} for first, second in numbers]


def pretrained(folder, chat_template=CHAT, max_positions=64):
    """A folder such as ``transformers`` writes: a random model of characters."""
    vocabulary = characters(ALPHABET)
    config = ModelConfig(
        architecture="qwen2", vocab_size=vocabulary.size, hidden_size=16, intermediate_size=16, num_layers=1,
        num_heads=2, num_kv_heads=1, max_positions=max_positions, tie_embeddings=True, bos_id=vocabulary.bos,
        eos_ids=(vocabulary.eos,), pad_id=vocabulary.pad,
    )  # fmt: skip
    write_tokenizer(folder, vocabulary)
    if chat_template is not None:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": chat_template}))
    write_checkpoint(folder, Model(config, jax.tree.map(jax.numpy.asarray, parameters_of(config))))
    return str(folder)
