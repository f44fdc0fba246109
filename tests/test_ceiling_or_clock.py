"""The figure ``ceiling_or_clock``: what is kept is what the fits give, and README.md says what is kept."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from figures import ceiling_or_clock
from figures.shared.fitted import averaged, fitted
from simlab.scaling import Curves, Refusal, fit_curves
from simlab.sweeps import Sweep
from simlab.sweeps.presets import PRESETS

DATA = json.loads(ceiling_or_clock.DATA.read_text())
PARAGRAPHS = " ".join((Path(ceiling_or_clock.__file__).parent / "README.md").read_text().split())

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def counted(sweep, metric, key="whole"):
    found = DATA["sweeps"][sweep][metric][key]
    return Counter(ceiling_or_clock.verdict(own) for name, own in found.items() if name != "grpo")


def test_all_weights_take_part_at_one_learning_rate():
    # ReMax came after the runs, which ``simlab figures ceiling_or_clock --rerun`` makes anew with it.
    weights = set(PRESETS["interference-league"]["rate"]["estimators"]) - {"remax"}
    assert set(DATA["sweeps"]["interference"]["pass@1"]["whole"]) == weights
    for settings in PRESETS["ceiling"].values():
        sweep = Sweep(**settings)
        assert len(sweep.parameters["optimizer.learning_rate"]) == 1
        assert "run.update_norm" not in sweep.parameters


def test_countdowns_fits_are_those_of_its_stored_runs():
    """By hand: 512 rollouts a step, the first evaluation is the base model's.

    Resamples are fitted to a rough tolerance, so that the ends of an open interval differ by up to 0.5 % between
    processors, whose linear algebra rounds otherwise.
    """
    kept = json.loads(ceiling_or_clock.COUNTDOWN.read_text())["arms"]
    for arm in ("grpo", "fade", "f_grpo"):
        values = np.array(kept[arm]["pass@64"])
        by_hand = Curves(np.arange(5), 512.0 * np.array(kept[arm]["step"][1:]), values[:, 1:], values[:, 0])
        found, stored = fit_curves(by_hand), DATA["countdown"]["pass@64"]["whole"][arm]
        if isinstance(found, Refusal):
            assert NUMBER.sub("#", stored["refusal"]) == NUMBER.sub("#", found.reason)
            numbers = (list(map(float, NUMBER.findall(text))) for text in (stored["refusal"], found.reason))
            assert next(numbers) == pytest.approx(next(numbers), rel=0.01)
        else:
            assert stored["asymptote"] == pytest.approx(found.asymptote, rel=1e-5)
            assert stored["midpoint"] == pytest.approx(found.midpoint, rel=1e-5)


def test_what_is_kept_of_a_curve_is_its_mean_with_its_error():
    curves = Curves(np.array([0, 1]), np.array([1.0, 2.0]), np.array([[0.2, 0.4], [0.4, 0.4]]), np.array([0.1, 0.1]))
    assert averaged(curves) == {"mean": [0.1, 0.3, 0.4], "error": [0.0, 0.1, 0.0]}
    assert set(fitted({"grpo": curves}, "grpo")["grpo"]) == {"refusal", "against"}


def test_the_readme_counts_as_the_data_do():
    ceiling = counted("interference", "pass@1")
    alike = sum(number for words, number in ceiling.items() if words.startswith("same asymptote"))
    assert f"**{alike} of {ceiling.total()} weights change only the clock of pass@1**" in PARAGRAPHS
    assert f"{ceiling['same asymptote, slower']} of them slower" in PARAGRAPHS
    assert f"The other {ceiling['no sigmoid']} have no ceiling" in PARAGRAPHS
    wide = counted("interference", "pass@256")
    later = sum(number for words, number in wide.items() if words.startswith("same asymptote"))
    assert f"For pass@256 (c) {later} of {wide.total()} come to GRPO's asymptote" in PARAGRAPHS
    bank = counted("bank", "pass@1")
    assert f"{bank['undecided']} of {bank.total()} weights are undecided" in PARAGRAPHS
    assert f"for GRPO and {counted('bank', 'pass@256')['not bending yet']} others" in PARAGRAPHS


def test_every_weight_that_leaves_a_plateau_keeps_pass_at_256():
    """What a sigmoid cannot tell of pass@1 ends above GRPO's pass@256, at 1 to three places."""
    found = DATA["sweeps"]["interference"]
    left = [name for name, own in found["pass@1"]["whole"].items() if ceiling_or_clock.verdict(own) == "no sigmoid"]
    assert len(left) == 5
    assert all(found["pass@256"]["curves"][name]["mean"][-1] == pytest.approx(1, abs=5e-4) for name in left)
    assert found["pass@256"]["curves"]["grpo"]["mean"][-1] < 0.51
