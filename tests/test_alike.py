"""Normal forms: every weight that ignores the order of a group has one, and its nearest known weight is named."""

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab.alike import bars, classify, compare, known, report, verdict
from simlab.cli import main
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Link, chain, estimator, stateless
from simlab.theory.normal_form import beyond, normal_form

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "normal-form.md"
MARKER = "<!-- normal forms -->"


def by_number(correct, wrong):
    """The weight that gives ``correct[s]`` and ``wrong[s]`` to rollouts of a group with s correct ones."""

    def weigh(advantages, rollouts):
        s = rollouts.rewards.sum(axis=-1, keepdims=True).astype(int)
        return np.where(rollouts.rewards > 0, np.asarray(correct, float)[s], np.asarray(wrong, float)[s])

    return chain(stateless(weigh))


numbers = st.lists(st.floats(-4, 4), min_size=5, max_size=5)


@given(numbers, numbers)
def test_every_weight_by_number_is_c_times_reward_less_d(correct, wrong):
    form = normal_form(by_number(correct, wrong), 4)
    for group in itertools.product((0.0, 1.0), repeat=4):
        for i, reward in enumerate(group):
            j = int(sum(group) - reward)
            expected = (correct if reward else wrong)[int(sum(group))]
            assert np.isclose(form.speed[j] * reward - form.offset[j], expected, atol=1e-12), (group, i)


def test_what_a_weight_reads_besides_the_number_of_correct_rollouts_is_named():
    first = chain(lambda advantages, rollouts: rollouts.rewards - rollouts.rewards[:, :1])
    assert beyond(first) == ("order",)
    assert beyond(estimator("reinforce_pp")) == ("batch",)
    assert beyond(estimator("ha_dw")) == ("history",)
    assert beyond(estimator("opo")) == ("tokens",)
    assert beyond(estimator("cw_grpo")) == ("old_logp",)
    assert all(beyond(estimator(name)) == () for name in ("grpo", "nsr", "pkpo", "least_variance"))


KNOWN = functools.cache(known)


def told(chosen, size=8):
    return verdict(compare(normal_form(chosen, size), KNOWN(size)))


def test_a_known_weight_in_disguise_is_told():
    def cubic(advantages, rollouts):
        mean = rollouts.rewards.mean(axis=-1, keepdims=True)
        return 5 * (rollouts.rewards - mean) * (1 - mean) ** 2

    assert told(chain(cubic)) == "5 times power_alpha(alpha=3)"
    assert told(estimator("least_variance", base="maxrl")) == "maxrl with another baseline"
    # Best of 8 in groups of 8 pays where none but this rollout is right, as Tang's weight does.
    assert "pass_at_k_tang" in told(estimator("pkpo", k=8))
    assert told(by_number([0] * 9, [0] * 9)).startswith("Dr. GRPO times a number a group")
    assert told(by_number([1, 9, 1, 9, 1, 9, 1, 9, 1], [0] * 9)).startswith("new; its speed is nearest to ")


def test_weights_that_sum_to_zero_are_dr_grpo_times_a_number_a_group():
    grpo = normal_form(estimator("grpo", eps=0.0), 4)
    np.testing.assert_allclose(grpo.factors, [16 / 3**0.5 / 4, 2, 16 / 3**0.5 / 4])
    assert normal_form(estimator("reinforce"), 4).factors is None


@pytest.mark.parametrize("base", ["cw_grpo", "ha_dw"])
def test_least_variance_refuses_a_base_that_reads_more(base):
    with pytest.raises(InputError, match=f"base = {base} reads more"):
        estimator("least_variance", base=base)


def test_the_command_describes_a_weight_of_ones_own(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "def weight(advantages, rollouts):\n"
        "    mean = rollouts.rewards.mean(axis=-1, keepdims=True)\n"
        "    return (rollouts.rewards - mean) * (2 - mean)\n"
    )
    assert main(["alike", f"{tmp_path}/mine.py:weight", "--group-size", "4"]) == 0
    shown = capsys.readouterr().out
    assert "Dr. GRPO times a number a group; its speed is nearest to softmax's" in shown
    assert "it is Dr. GRPO, r - mean, times 1.75 with 1, 1.5 with 2, 1.25 with 3 correct in the group" in shown


@pytest.mark.parametrize("arguments", [[], ["grpo", "--all"], ["grpo", "--group-size", "1"], ["nothing"]])
def test_bad_input_is_refused(arguments, capsys):
    assert main(["alike", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_page_shows_what_the_command_prints(capsys):
    assert main(["alike", "--all"]) == 0
    assert PAGE.read_text(encoding="utf-8").split(MARKER)[1] == f"\n\n{capsys.readouterr().out}\n"


def test_a_weight_of_many_rollouts_is_printed_in_columns_that_fit():
    assert all(len(line) <= 220 for line in report("grpo", estimator("grpo"), 64).splitlines())
    assert bars(np.array([np.nan, -1.0, 1.0])) == " ▁█"
    assert classify("fade", REGISTRY["fade"].build(), 8).form is None
    assert Link(lambda a, r, s: (a, s)).exchangeable is False
