"""Vocabularies of tasks: ids, and that nothing is added, lost or hidden on the way."""

import pytest
from sweep_cases import refusal

from simlab.llm.tasks.maze import TOKENS
from simlab.llm.vocabulary import Vocabulary, Words, characters

DIGITS = characters("0123456789+=")


@pytest.mark.parametrize(("vocabulary", "text"), [(DIGITS, "12+7="), (Words(TOKENS), "<bos> GRID_START UP DONE <eos>")])
def test_texts_come_back(vocabulary, text):
    assert isinstance(vocabulary, Vocabulary)
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert all(0 <= token < vocabulary.size for token in ids)


def test_special_tokens_are_the_first_and_stay_visible():
    """An answer with a special token in its midst must not look like the answer without."""
    assert (DIGITS.pad, DIGITS.bos, DIGITS.eos, DIGITS.size) == (0, 1, 2, 15)
    assert DIGITS.decode([*DIGITS.encode("4"), 0, *DIGITS.encode("2"), 1, 2]) == "4<pad>2<bos><eos>"
    assert (Words(TOKENS).pad, Words(TOKENS).bos, Words(TOKENS).eos, Words(TOKENS).size) == (0, 1, 2, 32)
    assert Words(TOKENS).decode([13, 0, 3]) == "UP <pad> <unk>"


def test_nothing_has_no_tokens():
    assert DIGITS.encode("") == Words(TOKENS).encode(" \n") == []
    assert DIGITS.decode([]) == ""


@pytest.mark.parametrize("text", ["12 ", "a", "<eos>", "٣", "\x00"])
def test_a_text_without_tokens_is_refused(text):
    assert "is no token of the vocabulary; allowed: <pad> <bos> <eos> 0 1" in refusal(DIGITS.encode, text)


def test_other_bad_input_is_refused():
    assert "'NORTH' is no token" in refusal(Words(TOKENS).encode, "UP NORTH")
    assert "token id 15 is outside the vocabulary; allowed: 0 to 14" in refusal(DIGITS.decode, [3, 15])
    assert "token id -1" in refusal(DIGITS.decode, [-1])
    assert "'a' is listed twice" in refusal(characters, "aba")
    assert "lacks the token '<eos>'" in refusal(Words, ("<pad>", "<bos>"))
