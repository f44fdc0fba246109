"""The committed test of a recommendation: its page and the docs say what its numbers say."""

import json
from pathlib import Path

import numpy as np

from benchmarks import diagnose_recommendation as module

DOCS = (Path(module.__file__).parents[1] / "docs" / "diagnose.md").read_text()
KEPT = json.loads(module.DATA.read_text())


def test_the_page_is_made_of_the_numbers():
    assert module.PAGE.read_text() == module.page(KEPT)


def test_differences_are_those_of_the_stored_trainings():
    arms = json.loads(module.TRAINED.read_text())["arms"]
    for size, name in ((2, "G = 2"), (32, "G = 32")):
        for k in ("pass@1", "pass@64"):
            pairs = [own[-1] - usual[-1] for own, usual in zip(arms[name][k], arms["grpo"][k], strict=True)]
            assert np.isclose(KEPT["trained"][str(size)][f"more {k}"][0], sum(pairs) / len(pairs))


def short(value):
    return f"{abs(value):.3f}".removeprefix("0")


def test_the_docs_quote_them():
    words = " ".join(DOCS.split())
    for size, k in (("2", "pass@1"), ("2", "pass@64"), ("32", "pass@64")):
        value, *ends = KEPT["trained"][size][f"more {k}"]
        low, high = sorted(map(short, ends))
        assert f"{short(value)} [{low}, {high}]" in words
    assert all(log["recommended"] == 2 for log in KEPT["logs"])
