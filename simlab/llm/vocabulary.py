"""Vocabularies: from text to token ids and back. Here those of tasks; a checkpoint brings its own tokenizer."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from simlab.errors import InputError

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"


@runtime_checkable
class Vocabulary(Protocol):
    """A vocabulary, as the sampler and the training loop use it."""

    size: int  # number of token ids; they run from 0
    pad: int  # id that fills up shorter sequences; it is never part of a text
    bos: int | None  # id that may begin a text, if there is one
    eos: int  # id that ends a completion

    def encode(self, text: str) -> list[int]:
        """Return the ids of exactly this text, nothing added; ``InputError`` for one that has no tokens here."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, none left out: one that a policy put into its answer stays visible."""


def check_ids(ids: Sequence[int], size: int) -> None:
    """Raise ``InputError`` for an id outside a vocabulary of this size."""
    for token in ids:
        if not 0 <= token < size:
            raise InputError(f"token id {token} is outside the vocabulary; allowed: 0 to {size - 1}")


class Words:
    """Tokens that are listed, an id being a place in the list: words, joined by single spaces.

    Args:
        tokens: pairwise different, ``<pad>``, ``<bos>`` and ``<eos>`` among them.

    >>> words = Words(("<pad>", "<bos>", "<eos>", "UP", "DONE"))
    >>> words.encode("<bos> UP UP DONE")
    [1, 3, 3, 4]
    >>> words.decode([3, 4, 2])
    'UP DONE <eos>'
    """

    space = " "

    def __init__(self, tokens: Iterable[str]):
        self.tokens = tuple(tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        self.size = len(self.tokens)
        if len(self._ids) < self.size:
            twice = next(token for token in self.tokens if self.tokens.count(token) > 1)
            raise InputError(f"vocabulary token {twice!r} is listed twice; allowed: once")
        for special in (PAD, BOS, EOS):
            if special not in self._ids:
                raise InputError(f"vocabulary lacks the token {special!r}")
        self.pad, self.eos = self._ids[PAD], self._ids[EOS]
        self.bos: int | None = self._ids[BOS]

    def encode(self, text: str) -> list[int]:
        """Return the ids of the tokens of the text; ``InputError`` for one that is not listed."""
        try:
            return [self._ids[piece] for piece in (text.split() if self.space else text)]
        except KeyError as unknown:
            shown = " ".join(token for token in self.tokens if token.isprintable())
            raise InputError(f"{unknown} is no token of the vocabulary; allowed: {shown}") from None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the tokens of these ids, special ones by their names; ``InputError`` for an id outside the list."""
        check_ids(ids, self.size)
        return self.space.join(self.tokens[token] for token in ids)


class Characters(Words):
    """Tokens that are single characters, after the special ones, which cannot be written in a text.

    >>> digits = characters("0123456789+=")
    >>> digits.encode("7+5=")
    [10, 13, 8, 14]
    >>> digits.decode([4, 5, 2])
    '12<eos>'
    """

    space = ""


def characters(alphabet: str) -> Characters:
    """Return a vocabulary of ``<pad>``, ``<bos>``, ``<eos>`` (ids 0, 1, 2) and the characters of ``alphabet``."""
    return Characters((PAD, BOS, EOS, *alphabet))
