"""Problems: the anchored policy of the paper, any policy by hand or from files, exact quantities, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab.errors import InputError
from simlab.problems import anchored, custom, problem
from simlab.problems.exact import correct_mass, pass_at_k, retained_mass, share_kept


def softmax(logits):
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    total = math.fsum(weights)
    return np.array([weight / total for weight in weights])


def test_the_anchored_policy_is_the_papers():
    """The four numbers of [f-grpo:app-j], to the digits it gives."""
    setup = anchored().listed()
    p = softmax(setup.logits.tolist())
    assert (setup.actions, setup.correct.sum(), setup.correct[:10_000].all()) == (128_000, 10_000, True)
    assert float(correct_mass(p, setup.correct)) == pytest.approx(0.6301, abs=5e-5)
    assert p[0] == pytest.approx(4.653e-4, abs=5e-8)
    assert p[1:10_000].tolist() == pytest.approx([6.297e-5] * 9_999, abs=5e-9)
    assert -math.fsum(p * np.log(p)) == pytest.approx(10.782, abs=5e-4)
    assert (setup.reward_correct, setup.reward_incorrect) == (1.0, 0.0)


def test_anchored_arguments_say_which_actions_are_which():
    setup = anchored(
        6, 4, anchor_logit=2.0, correct_logit=1.0, incorrect_logit=-1.0, target=2, reward_correct=3, reward_incorrect=-2
    ).listed()
    assert setup.logits.tolist() == [2, 1, 1, 1, -1, -1]
    assert setup.correct.tolist() == [True, True, True, True, False, False]
    assert setup.target.tolist() == [False, False, True, True, False, False]
    assert (setup.reward_correct, setup.reward_incorrect) == (3, -2)


@pytest.mark.parametrize("suffix", ["npy", "txt"])
def test_custom_reads_files(tmp_path, suffix):
    """A .npy file, or text of numbers separated by blanks or lines, equals the lists that it holds."""
    paths = {}
    for name, numbers in {"logits": [0.5, -1.0, 2.0, 0.25], "correct": [2, 0], "target": [2]}.items():
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "npy":
            np.save(path, np.array(numbers))
        else:
            path.write_text("\n".join(str(number) for number in numbers))
        paths[name] = str(path)
    by_file, by_list = problem("custom", **paths), custom([0.5, -1.0, 2.0, 0.25], [2, 0], [2])
    assert by_file.fingerprint == by_list.fingerprint
    assert by_file.logits.tolist() == [0.5, -1.0, 2.0, 0.25]
    assert by_file.correct.tolist() == [True, False, True, False]
    assert by_file.target.tolist() == [False, False, True, False]


DIFFERENT = {
    "logits": ([0.0, 1.5], [1], [1], 1.0, 0.0),
    "correct": ([0.0, 1.0], [0, 1], [1], 1.0, 0.0),
    "target": ([0.0, 1.0], [0, 1], [0], 1.0, 0.0),
    "reward_correct": ([0.0, 1.0], [1], [1], 2.0, 0.0),
    "reward_incorrect": ([0.0, 1.0], [1], [1], 1.0, -1.0),
}


def test_the_fingerprint_tells_every_part_of_a_problem():
    """Equal for equal problems, different wherever any part differs."""
    base = ([0.0, 1.0], [1], [1], 1.0, 0.0)
    assert custom(*base).fingerprint == custom(*base).fingerprint
    assert len({custom(*arguments).fingerprint for arguments in [base, *DIFFERENT.values()]}) == 1 + len(DIFFERENT)


@st.composite
def two_policies(draw):
    """Two policies over the same 1 to 8 actions, and a correct set that is not empty."""
    count = draw(st.integers(1, 8))
    logits = st.lists(st.floats(-20, 20), min_size=count, max_size=count)
    correct = draw(st.sets(st.integers(0, count - 1), min_size=1))
    return softmax(draw(logits)), softmax(draw(logits)), correct


@given(two_policies())
def test_exact_quantities_equal_naive_loops(policies):
    """Q_pos, retained mass [f-grpo:eq-26], share of correct actions kept, and pass@k."""
    now, initial, correct = policies
    is_correct = np.array([i in correct for i in range(len(now))])
    mass = count = start = lost = 0.0
    for i in correct:
        mass += now[i]
        start += initial[i]
        lost += initial[i] - now[i] if initial[i] > now[i] else 0.0
        count += 1 if now[i] >= initial[i] else 0
    assert float(correct_mass(now, is_correct)) == pytest.approx(mass, abs=1e-14)
    assert float(retained_mass(now, initial, is_correct)) == pytest.approx(1 - lost / start, abs=1e-14)
    assert float(share_kept(now, initial, is_correct)) == pytest.approx(count / len(correct), abs=1e-14)
    for k in (1, 2, 7):
        fails = 1.0
        for _ in range(k):
            fails *= 1 - mass
        assert float(pass_at_k(correct_mass(now, is_correct), k)) == pytest.approx(1 - fails, abs=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 8, 512])
def test_pass_at_k_keeps_its_digits(k, dtype):
    """Against rational arithmetic, from masses that 1 - q would round away up to 1, and for one rounded above 1."""
    for q in np.array([1e-30, 1e-12, 1e-9, 1e-4, 0.3, 0.999, 1.0], dtype):
        exact = float(1 - (1 - Fraction(float(q))) ** k)
        assert float(pass_at_k(q, k)) == pytest.approx(exact, rel=4 * float(np.finfo(dtype).eps), abs=0)
    assert float(pass_at_k(np.nextafter(dtype(1), dtype(2)), k)) == 1


BAD_FILES = {
    "missing": (lambda path: None, "no such file"),
    "a folder": (lambda path: path.mkdir(), "no regular file"),
    "pickled": (lambda path: np.save(path, np.array([0, "a", None], dtype=object)), "object arrays"),
    "no array": (lambda path: path.write_bytes(b"not an array at all"), "magic string"),
    "two-dimensional": (lambda path: np.save(path, np.zeros((2, 2))), r"shape \(2, 2\)"),
    "booleans": (lambda path: np.save(path, np.array([True, False])), "bool"),
    "no number": (lambda path: path.with_suffix(".txt").write_text("0.5 apple"), "apple"),
    "nothing": (lambda path: path.with_suffix(".txt").write_text(""), "empty"),
    "rows": (lambda path: path.with_suffix(".txt").write_text("1 2\n3 4"), "shape"),
}


def test_unreadable_files_are_refused(tmp_path):
    for name, (write, reason) in BAD_FILES.items():
        path = tmp_path / name / "numbers.npy"
        path.parent.mkdir()
        write(path)
        path = path.with_suffix(".txt") if path.with_suffix(".txt").exists() else path
        for argument in ("logits", "correct")[: 1 if name == "nothing" else 2]:
            with pytest.raises(InputError, match="(?i)" + reason) as refusal:
                custom(**({"logits": [0.0, 1.0], "correct": [0]} | {argument: str(path)}))
            assert_one_line(refusal, argument)


REFUSED = {
    "correct outside": (lambda: custom([0.0, 1.0], [2]), "correct action 2 .* 0 to 1"),
    "correct between": (lambda: custom([0.0, 1.0], [0.5]), "correct action 0.5 .* 0 to 1"),
    "correct a mask": (lambda: custom([0.0, 1.0], [True, False]), "correct: bool"),
    "no correct": (lambda: custom([0.0, 1.0], []), "correct set is empty"),
    "target outside": (lambda: custom([0.0, 1.0], [0], [7]), "target action 7 .* 0 to 1"),
    "target incorrect": (lambda: custom([0.0, 1.0], [0], [1]), "target set must be .* subset"),
    "no logits": (lambda: custom([], [0]), "logits are empty"),
    "NaN logit": (lambda: custom([0.0, math.nan], [0]), "logit 1 is nan"),
    "infinite logit": (lambda: custom([0.0, 0.0, -math.inf], [0]), "logit 2 is -inf"),
    "correct reward 0": (lambda: custom([0.0, 1.0], [0], reward_correct=0.0), "reward_correct = 0"),
    "incorrect reward above 0": (lambda: custom([0.0, 1.0], [0], reward_incorrect=0.5), "reward_incorrect = 0.5"),
    "more correct than actions": (lambda: anchored(10, 11), "correct = 11"),
    "target above correct": (lambda: anchored(10, 5, target=6), "target = 6"),
    "unknown problem": (lambda: problem("maze"), "'maze' is unknown; allowed: anchored, custom"),
}


def test_what_is_no_problem_is_refused():
    for build, reason in REFUSED.values():
        with pytest.raises(InputError, match=reason) as refusal:
            build()
        assert_one_line(refusal)


def assert_one_line(refusal, *mentions):
    message = str(refusal.value)
    assert "\n" not in message
    assert all(mention in message for mention in mentions)
