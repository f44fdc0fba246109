"""Tokenizers of checkpoints (``tokenizer.json``), of GGUF files, and of tasks, by the package ``tokenizers``."""

import functools
import json
import os
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from simlab.errors import InputError, check_choice, package
from simlab.files import write_whole
from simlab.llm.vocabulary import BOS, EOS, PAD, Characters, Words, check_ids
from simlab.reading import LARGEST_JSON, read_bytes, read_json, reason

# How a text is cut into pieces before pairs are merged; the names are llama.cpp's.
LLAMA3_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
PIECES = {"llama-bpe": LLAMA3_PIECES, "qwen2": LLAMA3_PIECES.replace(r"\p{N}{1,3}", r"\p{N}")}
CUTS = ("gpt-2", "smollm", *PIECES)
TIME_LIMIT = 5.0  # seconds for one prompt; a template takes well under a millisecond


class Tokenizer:
    """A ``Vocabulary`` of a pretrained model; ``rules`` is the tokenizer of the package ``tokenizers``."""

    def __init__(
        self,
        rules: Any,
        eos: int,
        bos: int | None = None,
        pad: int | None = None,
        chat_template: "ChatTemplate | None" = None,
    ):
        self.rules, self.eos, self.bos, self.chat_template = rules, eos, bos, chat_template
        self.pad = eos if pad is None else pad
        self.size = 1 + max(rules.get_vocab(with_added_tokens=True).values(), default=-1)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, with nothing added; a special token that is written in it becomes that token."""
        with _in_one_line("the tokenizer cannot encode this text"):
            ids: list[int] = self.rules.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids; special tokens stay visible."""
        check_ids(ids, self.size)
        with _in_one_line("the tokenizer cannot decode these tokens"):
            text: str = self.rules.decode(list(map(int, ids)), skip_special_tokens=False)
        return text


@contextmanager
def _in_one_line(complaint: str) -> Iterator[None]:
    """Turn what the package ``tokenizers`` raises, its panics too, into one line that begins with this complaint."""
    try:
        yield
    except BaseException as error:  # the package raises nothing narrower; a panic is no Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InputError(f"{complaint}: {reason(error)}") from None
        raise


def read_tokenizer(folder: str | os.PathLike) -> Tokenizer:
    """Read a checkpoint's ``tokenizer.json``; special tokens and chat template are in ``tokenizer_config.json``.

    A file ``chat_template.jinja`` comes before the template there; of several that named default is taken.
    """
    folder = Path(folder)
    path = folder / "tokenizer.json"
    content = read_bytes(path, LARGEST_JSON)
    with _in_one_line(f"{path} cannot be read"):
        rules = package("tokenizers").Tokenizer.from_buffer(content)
    rules.no_truncation()  # transformers does what the file says of truncation and padding on request alone
    rules.no_padding()
    config, path = read_json(folder / "tokenizer_config.json"), folder / "chat_template.jinja"
    source = read_bytes(path, LARGEST_JSON).decode(errors="replace") if path.exists() else config.get("chat_template")
    if isinstance(source, list):  # of several templates, with names
        source = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}.get(
            "default"
        )
    if not isinstance(source, str | None):
        raise InputError(f"{folder / 'tokenizer_config.json'} has a chat_template that is no text")
    texts = {name: entry.get("content") if isinstance(entry, dict) else entry for name, entry in config.items()}
    ids = {}
    for name in ("eos_token", "bos_token", "pad_token"):
        text = texts.get(name)
        ids[name] = rules.token_to_id(text) if isinstance(text, str) else None
        if text is not None and ids[name] is None:
            raise InputError(f"the tokenizer has no token {text!r}, its {name}")
    eos, bos, pad = ids.values()
    if eos is None:
        raise InputError(f"{folder / 'tokenizer_config.json'} has no eos_token, which ends a completion")
    special = {name: text for name, text in texts.items() if name.endswith("_token") and isinstance(text, str)}
    return Tokenizer(rules, eos, bos, pad, None if source is None else ChatTemplate(source, special))


def write_tokenizer(folder: str | os.PathLike, vocabulary: Tokenizer | Words) -> None:
    """Write a vocabulary as ``tokenizer.json`` and ``tokenizer_config.json``, which ``read_tokenizer`` reads."""
    rules = vocabulary.rules if isinstance(vocabulary, Tokenizer) else _task_rules(vocabulary)
    ids = {"eos": vocabulary.eos, "bos": vocabulary.bos, "pad": vocabulary.pad}
    special = {f"{name}_token": rules.id_to_token(token) for name, token in ids.items() if token is not None}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False} | special
    if isinstance(vocabulary, Tokenizer) and vocabulary.chat_template is not None:
        config["chat_template"] = vocabulary.chat_template.source
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "tokenizer.json", rules.to_str(pretty=True).encode())
        write_whole(folder / "tokenizer_config.json", (json.dumps(config, indent=2) + "\n").encode())
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None


def _task_rules(vocabulary: Words) -> Any:
    """Return the rules that cut a text as a task's vocabulary does."""
    tokenizers = package("tokenizers")
    rules = tokenizers.Tokenizer(tokenizers.models.WordLevel({token: i for i, token in enumerate(vocabulary.tokens)}))
    if isinstance(vocabulary, Characters):
        rules.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), behavior="isolated")
        rules.decoder = tokenizers.decoders.Fuse()
    else:
        rules.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    rules.add_special_tokens(_special_tokens((PAD, BOS, EOS)))
    return rules


def _special_tokens(texts: Iterable[str]) -> list[Any]:
    added_token = package("tokenizers").AddedToken
    return [added_token(text, special=True, normalized=False) for text in texts]


def byte_pairs(
    tokens: Sequence[str],
    merges: Iterable[str],
    special: Iterable[str],
    cut: str,
    *,
    eos: int,
    bos: int | None = None,
    pad: int | None = None,
    chat_template: str | None = None,
) -> Tokenizer:
    """Build a byte-level byte-pair encoding.

    Args:
        tokens: the text of every id.
        merges: the pairs that are merged, ``left right``, in the order of their ranks.
        special: the tokens that are never made of pieces.
        cut: how a text is cut before that: a name of ``CUTS``.
    """
    check_choice("the tokenizer's pre-tokenizer", cut, CUTS)
    tokenizers = package("tokenizers")
    with _in_one_line("the tokenizer's byte pairs cannot be used"):
        ids = {token: index for index, token in enumerate(tokens)}
        pairs = [tuple(merge.split(" ")) for merge in merges]
        rules = tokenizers.Tokenizer(tokenizers.models.BPE(ids, pairs, ignore_merges=cut == "llama-bpe"))
    cutters = tokenizers.pre_tokenizers
    pieces = cutters.ByteLevel(add_prefix_space=False, use_regex=cut not in PIECES)
    if cut in PIECES:
        pieces = cutters.Sequence([cutters.Split(tokenizers.Regex(PIECES[cut]), behavior="isolated"), pieces])
    elif cut == "smollm":  # each digit alone
        pieces = cutters.Sequence([cutters.Digits(individual_digits=True), pieces])
    rules.pre_tokenizer = pieces
    if cut == "qwen2":
        rules.normalizer = tokenizers.normalizers.NFC()
    rules.decoder = tokenizers.decoders.ByteLevel()
    rules.add_special_tokens(_special_tokens(special))
    named_ids = {"eos_token": eos, "bos_token": bos, "pad_token": pad}
    texts = {name: tokens[token] for name, token in named_ids.items() if token is not None and 0 <= token < len(tokens)}
    return Tokenizer(rules, eos, bos, pad, None if chat_template is None else ChatTemplate(chat_template, texts))


# Chat templates


class Message(NamedTuple):
    """One turn of a conversation; the role is system, user or assistant, in most templates."""

    role: str
    content: str


class ChatTemplate:
    """A tokenizer's chat template in jinja2's sandbox, without a clock; it may name the ``special`` texts."""

    def __init__(self, source: str, special: Mapping[str, str]):
        self.source, self.special = source, dict(special)

    def render(self, messages: Sequence[Message]) -> str:
        """Return messages and the answer's beginning; ``InputError`` if the template refuses or takes too long."""
        outcome = queue.SimpleQueue[str | Exception]()
        # Python cannot stop a thread. One that takes too long is left behind, and ends with the process.
        threading.Thread(target=self._render, args=(self.template, messages, outcome), daemon=True).start()
        try:
            prompt = outcome.get(timeout=TIME_LIMIT)
        except queue.Empty:
            raise InputError(f"the chat template takes more than {TIME_LIMIT:g} seconds") from None
        if isinstance(prompt, Exception):
            raise InputError(f"the chat template is refused: {reason(prompt)}")
        return prompt

    def _render(self, template: Any, messages: Sequence[Message], outcome: queue.SimpleQueue[str | Exception]) -> None:
        texts = [message._asdict() for message in messages]
        absent = {"tools": None, "documents": None}
        try:
            outcome.put(template.render(**self.special, **absent, messages=texts, add_generation_prompt=True))
        except Exception as error:  # a template can make jinja2 raise anything
            outcome.put(error)

    @functools.cached_property
    def template(self) -> Any:
        """The template as jinja2 reads it; ``InputError`` if it cannot, and without jinja2."""
        extension, sandbox = package("jinja2.ext").Extension, package("jinja2.sandbox")

        class Generation(extension):  # type: ignore[misc, valid-type]
            """``{% generation %}`` marks the assistant's own words; the mark prints nothing."""

            tags = frozenset({"generation"})

            def parse(self, parser: Any) -> Any:
                next(parser.stream)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
        )
        # jinja2's own filter would escape characters of HTML.
        environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
        environment.globals["raise_exception"] = _raise_exception
        try:
            return environment.from_string(self.source)
        except Exception as error:  # a text that is no template can make the package raise anything
            raise InputError(f"the chat template cannot be read: {reason(error)}") from None


def _raise_exception(message: str) -> None:
    raise ValueError(message)
