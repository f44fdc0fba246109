"""Sentences about prompts say what their intervals allow, and that a question is open where they hold both answers."""

from types import SimpleNamespace

import pytest

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate
from simlab.diagnose.prompts import are_solutions_lost, who_is_heard
from simlab.diagnose.reading import read_log


def between(value, low, high):
    return IntervalEstimate("share", value, low, high, 0.9, "made")


def sentence(tmp_path, question, **estimates):
    path = tmp_path / "log.csv"
    path.write_text("prompt,reward\np,0\np,1\n")
    return question(read_log([path]), Diagnosis(**dict.fromkeys(Diagnosis._fields) | estimates)).sentence


@pytest.mark.parametrize(
    ("against", "never_drawn", "verdict"),
    [
        (between(0, 0, 0.19), between(0, 0, 0.19), "Whether solutions are lost from sight is open"),
        (between(0, 0, 0.09), between(0, 0, 0.03), "Few solutions are lost"),
        (between(0, 0, 0.09), between(0.8, 0.7, 0.9), "Some solutions are lost"),
        (between(0.3, 0.2, 0.4), between(0, 0, 0.03), "Some solutions are lost"),
        (between(0.8, 0.7, 0.9), between(0.8, 0.7, 0.9), "Solutions are lost from sight, and larger groups"),
    ],
)
def test_solutions_are_lost_where_the_intervals_say_so(tmp_path, against, never_drawn, verdict):
    window = SimpleNamespace(share=never_drawn, distinct=3)
    unseen = SimpleNamespace(windows=[window], typical=SimpleNamespace(against=[against], group_sizes=[8]))
    groups = SimpleNamespace(observed=SimpleNamespace(group_size=8))
    assert sentence(tmp_path, are_solutions_lost, unseen=unseen, groups=groups).startswith(verdict)


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ([between(0.2, 0.1, 0.3), between(0.7, 0.6, 0.8), between(0.1, 0, 0.2)], "The update listens most to prompts"),
        ([between(0.3, 0, 1), between(0.4, 0, 1), between(0.3, 0, 1)], "Whom the update listens to is open"),
    ],
)
def test_whom_the_update_listens_to_is_open_where_intervals_overlap(tmp_path, shares, verdict):
    groups = SimpleNamespace(gradient_masses=[SimpleNamespace(of_prompts=shares, estimator="grpo")])
    assert sentence(tmp_path, who_is_heard, groups=groups).startswith(verdict)
