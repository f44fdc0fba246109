"""The page of papers since July: each paragraph quotes and says what was read; oscillators and taxes behind it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from figures import lately
from figures.shared.oscillator import Oscillator, fit_oscillator
from paper_checks.claim import load
from paper_checks.laboratory.lately import cases_of_table_6
from paper_checks.run import recorded

PAGE = (Path(__file__).parent.parent / "docs" / "lately.md").read_text(encoding="utf-8")
PAPERS = re.findall(r"^## .*?(?=^## |\Z)", PAGE.partition("## The numbers")[0], re.MULTILINE | re.DOTALL)
STEPS = np.arange(1.0, 101.0)


def naive_oscillator(times, curve, pieces=2000):
    """The motion by many small steps of its equation: the state is moved half a step, then a whole one."""
    values, x, v, now = [], 1.0, 0.0, 0.0
    for time in times:
        length = (time - now) / pieces
        for _ in range(pieces):
            middle_x, middle_v = x + length / 2 * v, v + length / 2 * force(x, v, curve)
            x, v = x + length * middle_v, v + length * force(middle_x, middle_v, curve)
        now = time
        values.append(curve.asymptote - (curve.asymptote - curve.base) * x)
    return values


def force(x, v, curve):
    return -2 * curve.damping * curve.frequency * v - curve.frequency**2 * x


@pytest.mark.parametrize("damping", [0.2, 0.999, 1.0, 1.001, 3.0])
def test_the_oscillator_solves_its_equation_from_rest(damping):
    curve, times = Oscillator(0.2, 0.8, 0.3, damping), [0.0, 1.0, 5.0, 20.0]
    np.testing.assert_allclose(curve.at(np.array(times)), naive_oscillator(times, curve), atol=1e-5)


def test_a_strongly_damped_oscillator_is_the_single_exponential():
    curve = Oscillator(0.2, 0.8, 1.0, 50.0)
    exponential = 0.8 - 0.6 * np.exp(-STEPS / 100)  # its rate is omega / (2 zeta)
    np.testing.assert_allclose(curve.at(STEPS), exponential, atol=2e-4)


@pytest.mark.parametrize(
    "curve", [Oscillator(0.2, 0.8, 0.1, 0.3), Oscillator(0.2, 0.8, 0.1, 2.0), Oscillator(0.7, 0.4, 0.2, 1.2)]
)
def test_a_known_oscillator_is_found_again(curve):
    fitted = fit_oscillator(STEPS, curve.at(STEPS), curve.base)
    np.testing.assert_allclose(fitted, curve, rtol=1e-3)


def test_the_taxes_of_a_bank_are_the_waits_for_a_first_success():
    """Three prompts, K = 5: E[(H - 1) 1{H <= K}], and that over K - 1 given that the first try fails."""
    rates, budget = [0.0, 0.1, 0.5], 5
    passes = np.array([np.mean([1 - (1 - p) ** k for p in rates]) for k in range(1, budget + 1)])
    waits = [sum((h - 1) * p * (1 - p) ** (h - 1) for h in range(1, budget + 1)) for p in rates]
    raw, calibrated = lately.scalability(passes)
    assert raw == pytest.approx(sum(waits) / 3)
    assert calibrated == pytest.approx(sum(waits) / 3 / (budget - 1) / (1 - 0.2))


def test_the_printed_table_has_a_row_for_each_model_and_benchmark():
    rows = cases_of_table_6()
    assert len(rows) == 3 * 14
    assert all(0 <= lost <= 100 and 0 <= gained <= 100 for lost, gained, _ in rows)


def test_every_paragraph_quotes_says_what_was_read_and_names_claims_that_are_recorded():
    claims, verdicts = load(), recorded()
    assert len(PAPERS) >= 9
    for text in PAPERS:
        title = text.splitlines()[0]
        assert re.search(r"\d{4}\.\d{5}", title), title
        assert "**Read:**" in text, title
        assert "“" in text, title
        assert re.search(r"^\*\*Try:\*\* `[^`]+`", text.rstrip().splitlines()[-1]), title
        named = re.findall(r"[` ](simlab:[a-z0-9-]+)`", text)
        assert set(named) <= set(claims), title
        assert {verdicts[tag] for tag in named} <= {"holds", "identity"}, title


def test_papers_stand_newest_first():
    numbers = [re.search(r"(\d{4})\.(\d{5})", text.splitlines()[0]).groups() for text in PAPERS]
    assert numbers == sorted(numbers, reverse=True)


def test_the_tables_of_the_page_are_those_of_the_numbers_kept():
    text = lately.table(json.loads(lately.DATA.read_text()))
    shown = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert shown == [line for line in text.splitlines() if line.startswith("| ")]
