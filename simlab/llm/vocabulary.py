"""Vocabularies: from text to token ids and back. Here those of tasks; a checkpoint brings its own tokenizer."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from simlab.errors import InputError

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"


@runtime_checkable
class Vocabulary(Protocol):
    """A vocabulary, as the sampler and the training loop use it.

    Attributes:
        size: number of token ids; they run from 0.
        pad: id that fills up shorter sequences; it is never part of a text.
        bos: id that may begin a text, None if there is none.
        eos: id that ends a completion.
    """

    @property
    def size(self) -> int:
        """Number of token ids."""

    @property
    def pad(self) -> int:
        """Id of the filling."""

    @property
    def bos(self) -> int | None:
        """Id of the beginning."""

    @property
    def eos(self) -> int:
        """Id of the end."""

    def encode(self, text: str) -> list[int]:
        """The ids of exactly this text: nothing is added in front or behind.

        Raises:
            InputError: for a text that has no tokens in this vocabulary.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids. No id is left out: one that a policy put into its answer stays visible.

        Raises:
            InputError: for an id outside the vocabulary.
        """


@dataclass(frozen=True)
class _Listed:
    """Tokens that are listed; an id is a place in the list. Subclasses say how a text is cut into tokens.

    Attributes:
        tokens: pairwise different, ``<pad>``, ``<bos>`` and ``<eos>`` among them.

    Raises:
        InputError: for a token that is listed twice, or a missing special one.
    """

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self._ids) < len(self.tokens):
            twice = next(token for token in self.tokens if self.tokens.count(token) > 1)
            raise InputError(f"vocabulary token {twice!r} is listed twice; allowed: once")
        for special in (PAD, BOS, EOS):
            if special not in self._ids:
                raise InputError(f"vocabulary lacks the token {special!r}")

    @functools.cached_property
    def _ids(self) -> Mapping[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @property
    def size(self) -> int:
        """Number of token ids."""
        return len(self.tokens)

    @property
    def pad(self) -> int:
        """Id of ``<pad>``."""
        return self._ids[PAD]

    @property
    def bos(self) -> int:
        """Id of ``<bos>``."""
        return self._ids[BOS]

    @property
    def eos(self) -> int:
        """Id of ``<eos>``."""
        return self._ids[EOS]

    def _encode(self, pieces: Sequence[str]) -> list[int]:
        try:
            return [self._ids[piece] for piece in pieces]
        except KeyError as unknown:
            shown = " ".join(token for token in self.tokens if token.isprintable())
            raise InputError(f"{unknown} is no token of the vocabulary; allowed: {shown}") from None

    def _decode(self, ids: Sequence[int]) -> list[str]:
        for token in ids:
            if not 0 <= token < self.size:
                raise InputError(f"token id {token} is outside the vocabulary; allowed: 0 to {self.size - 1}")
        return [self.tokens[token] for token in ids]


@dataclass(frozen=True)
class Words(_Listed):
    """Tokens that are words: a text is cut at white space, and words are joined by single spaces.

    >>> words = Words(("<pad>", "<bos>", "<eos>", "UP", "DONE"))
    >>> words.encode("<bos> UP UP DONE")
    [1, 3, 3, 4]
    >>> words.decode([3, 4, 2])
    'UP DONE <eos>'
    """

    def encode(self, text: str) -> list[int]:
        """The ids of the words of the text.

        Raises:
            InputError: for a word that is not listed.
        """
        return self._encode(text.split())

    def decode(self, ids: Sequence[int]) -> str:
        """The words of these ids, special ones too, joined by spaces.

        Raises:
            InputError: for an id outside the vocabulary.
        """
        return " ".join(self._decode(ids))


@dataclass(frozen=True)
class Characters(_Listed):
    """Tokens that are single characters, after the special ones. See ``characters``.

    >>> digits = characters("0123456789+=")
    >>> digits.encode("7+5=")
    [10, 13, 8, 14]
    >>> digits.decode([4, 5, 2])
    '12<eos>'
    """

    def encode(self, text: str) -> list[int]:
        """The ids of the characters of the text; special tokens cannot be written in it.

        Raises:
            InputError: for a character that is not listed.
        """
        return self._encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The characters of these ids, special tokens by their names.

        Raises:
            InputError: for an id outside the vocabulary.
        """
        return "".join(self._decode(ids))


def characters(alphabet: str) -> Characters:
    """A vocabulary of ``<pad>``, ``<bos>``, ``<eos>`` (ids 0, 1, 2) and the characters of ``alphabet`` in their order.

    Raises:
        InputError: for a character that is listed twice.
    """
    return Characters((PAD, BOS, EOS, *alphabet))
