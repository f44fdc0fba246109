"""The list of rewritten sentences is true: each stands in its file, and the one before it no longer does."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"\| `([^`]+)` \| (.+) \| (.+) \|")
ROWS = [
    found.groups() for line in (ROOT / "docs" / "rewritten.md").read_text().splitlines() if (found := ROW.match(line))
]


def test_there_are_dozens_of_them():
    assert len(ROWS) >= 60


@pytest.mark.parametrize(("name", "before", "after"), ROWS)
def test_a_sentence_is_as_the_list_says(name, before, after):
    text = " ".join((ROOT / name).read_text().split())
    assert after in text
    assert before not in text
