"""A check lets right statements stand, refutes wrong ones at the smallest point, and blames no paper for our errors."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from mpmath import mpf

from paper_checks import claim as claims
from paper_checks.claim import Amended, Claim, claim, load, undecided
from paper_checks.evidence import (
    Disagreement,
    Estimate,
    Evidence,
    Printed,
    arithmetic,
    equals,
    grid,
    proved,
    satisfies,
    vanishes,
)
from paper_checks.exact import POLICIES, expectation, groups, score_gradient, stepped
from paper_checks.place import place_of
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, OURS, SLIP, UNDECIDED, judge, stands, weigh

POINTS = grid(p=[Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)])
SYMBOLIC = [{"p": sympy.Symbol("p", positive=True)}]


def variance(p):
    """The truth of these tests."""
    return p - p**2


def wrong_from_half(p):
    """Right at the first points, wrong from p = 1/2."""
    return variance(p) if p in (0, Fraction(1, 4)) else p


def against_variance(statement):
    """The check of these tests: two exact ways."""
    return equals(statement, POINTS, derived=lambda p: p * (1 - p), enumerated=variance, symbolic_points=SYMBOLIC)


def made(statement, decide=against_variance, **more):
    """A claim that is entered in no list."""
    return Claim("fade:eq-0", "nowhere", "says", "a point", "a reading", statement, decide, **more)


# equals


def sampled(mean, noise):
    """A simulation at p = 1/2."""
    return {"sampled": lambda p: Estimate(mean, noise), "sampled_points": [{"p": Fraction(1, 2)}]}


def test_a_right_formula_stands_by_every_method():
    ways = {"derived": lambda p: p - p**2, "enumerated": variance, "symbolic_points": SYMBOLIC, **sampled(0.2501, 1e-3)}
    evidence = equals(lambda p: p * (1 - p), POINTS, **ways)
    assert [(piece.method, piece.stands) for piece in evidence] == [
        ("symbolic", True), ("enumerated", True), ("Monte Carlo", True),
    ]  # fmt: skip


def test_a_wrong_formula_is_refuted_at_the_first_point_where_it_differs():
    (piece,) = equals(wrong_from_half, POINTS, enumerated=variance)
    assert piece.stands is False
    assert piece.counterexample == "p = 1/2: stated 1/2, found 1/4"


@pytest.mark.parametrize("error", ["1e-29", "-1e-29"])
def test_the_thirtieth_digit_counts(error):
    (piece,) = equals(lambda p: variance(p) + mpf(error), POINTS, derived=variance)
    assert piece.stands is False


@pytest.mark.parametrize("statement", [variance, wrong_from_half])
def test_two_ways_that_differ_are_our_error_whatever_is_stated(statement):
    def decide(stated):
        return equals(stated, POINTS, derived=lambda p: p + p**2, enumerated=variance)

    with pytest.raises(Disagreement, match="derivation 5/16 and enumeration 3/16 differ at p = 1/4"):
        list(decide(statement))
    judgement = judge(made(statement, decide))
    assert (judgement.verdict, judgement.evidence, judgement.correction) == (OURS, (), "")
    assert "differ at p = 1/4" in judgement.counterexample


@pytest.mark.parametrize("statement", [variance, wrong_from_half])
def test_a_simulation_out_of_its_noise_is_our_error_whatever_is_stated(statement):
    def decide(stated):
        return equals(stated, POINTS, enumerated=variance, **sampled(0.3, 0.001))

    judgement = judge(made(statement, decide))
    assert judgement.verdict == OURS
    assert "differ by 50 standard errors at p = 1/2" in judgement.counterexample


@pytest.mark.parametrize(("noise", "stands"), [(1.0, None), (0.001, False)])
def test_a_simulation_refutes_only_what_its_noise_lets_it_see(noise, stands):
    *_, piece = equals(wrong_from_half, POINTS, enumerated=variance, **sampled(0.25, noise))
    assert (piece.method, piece.stands) == ("Monte Carlo", stands)


def test_what_sympy_cannot_decide_is_our_error(monkeypatch):
    monkeypatch.setattr(sympy, "simplify", lambda expression: expression)
    with pytest.raises(Disagreement, match="sympy cannot decide"):
        list(equals(lambda p: p * (1 - p), POINTS, derived=variance, symbolic_points=SYMBOLIC))


@pytest.mark.parametrize(
    "decide",
    [
        lambda: equals(lambda p: None, POINTS, enumerated=variance),
        lambda: satisfies(lambda value, p: None, POINTS, variance),
        lambda: vanishes(lambda step, p: None, POINTS, order=2),
        lambda: arithmetic([]),
        lambda: equals(variance, [], enumerated=variance),
        lambda: equals(variance, POINTS),
    ],
)
def test_a_check_that_tests_nothing_is_our_error(decide):
    with pytest.raises(Disagreement):
        list(decide())


def test_a_statement_is_not_tested_where_it_is_silent():
    (piece,) = equals(lambda p: None if p >= Fraction(1, 2) else wrong_from_half(p), POINTS, enumerated=variance)
    assert piece == Evidence("enumerated", True, "equal at all 2 points")


# satisfies, vanishes, arithmetic, proved


def test_a_predicate_is_tested_at_every_point():
    (piece,) = satisfies(lambda value, p: value >= 0, POINTS, variance)
    assert piece == Evidence("enumerated", True, "true at all 4 points")
    (piece,) = satisfies(lambda value, p: value < Fraction(1, 4), POINTS, variance)
    assert (piece.stands, piece.counterexample) == (False, "p = 1/2: 1/4")
    with pytest.raises(Disagreement, match="differ at p = 1/4"):
        list(satisfies(lambda value, p: True, POINTS, variance, derived=lambda p: p))


@pytest.mark.parametrize(
    ("names", "told"),
    [(("mean", "variance"), "mean = 1/2, variance = 1/4"), ("moments", "moments = (1/2, 1/4)"), ("", "(1/2, 1/4)")],
)
def test_a_counterexample_has_the_names_of_its_parts_beside_them(names, told):
    (piece,) = satisfies(lambda value, p: p < Fraction(1, 2), POINTS, lambda p: (p, p * (1 - p)), names=names)
    assert piece.counterexample == f"p = 1/2: {told}"


@pytest.mark.parametrize(
    ("error", "stands"),
    [
        (lambda step, p: 7 * step**2 + step**3, True),
        (lambda step, p: mpf(0), True),
        (lambda step, p: step**3, True),
        (lambda step, p: step**2 + step / 1000, False),
        (lambda step, p: step**2 + mpf("1e-9"), False),
    ],
)
def test_a_first_order_claim_needs_an_error_of_second_order(error, stands):
    (piece,) = vanishes(error, POINTS, order=2)
    assert piece.stands is stands
    assert piece.counterexample.startswith("p = 0: ") is not stands


def test_printed_numbers_may_differ_by_their_rounding_and_no_more():
    (piece,) = arithmetic([Printed("average", 52.4, 52.35, 0.05), Printed("gain", 1.0, 1.0, 0.0)])
    assert piece.stands is True
    (piece,) = arithmetic([Printed("average", 52.4, 52.34, 0.05), Printed("gain", 1.0, 1.0, 0.0)])
    assert (piece.stands, piece.counterexample) == (False, "average: 52.4 printed, 52.34 computed")


@pytest.mark.parametrize("false", [False, np.False_, sympy.false, sympy.Lt(2, 1)])
def test_a_false_of_any_library_refutes(false):
    assert not stands([Evidence("symbolic", false, "")])
    assert not stands([proved(false, "it is not")])


RIGHT, WRONG = Amended("p - p^2", variance), Amended("p", lambda p: p)
SMALL = Amended("p <= 1/4", lambda p: variance(p) if p <= Fraction(1, 4) else None)
NEVER = Amended("never", lambda p: None)


@pytest.mark.parametrize(
    ("statement", "amendments", "verdict", "condition", "correction"),
    [
        (variance, {}, HOLDS, "", ""),
        (variance, {"identity": True}, IDENTITY, "", ""),
        (wrong_from_half, {"identity": True}, FAILS, "", ""),
        (variance, {"slip": RIGHT}, HOLDS, "", ""),
        (wrong_from_half, {}, FAILS, "", ""),
        (wrong_from_half, {"condition": SMALL}, HOLDS_IF, "p <= 1/4", ""),
        (wrong_from_half, {"slip": RIGHT}, SLIP, "", "p - p^2"),
        (wrong_from_half, {"correction": RIGHT}, FAILS, "", "p - p^2"),
        (wrong_from_half, {"correction": WRONG}, OURS, "", ""),
        (wrong_from_half, {"slip": WRONG}, OURS, "", ""),
        (wrong_from_half, {"condition": WRONG}, OURS, "", ""),
        (wrong_from_half, {"condition": NEVER}, OURS, "", ""),
    ],
)
def test_the_verdict_follows_from_the_evidence(statement, amendments, verdict, condition, correction):
    def decide(stated):
        return equals(stated, POINTS, enumerated=variance)

    judgement = judge(made(statement, decide, **amendments))
    assert (judgement.verdict, judgement.condition, judgement.correction) == (verdict, condition, correction)
    assert bool(judgement.counterexample) is (verdict not in (HOLDS, IDENTITY))
    if condition or correction:
        pieces = [(piece.method, piece.stands) for piece in judgement.evidence]
        assert pieces == [("enumerated", False), ("enumerated, amended", True)]


def test_the_counterexample_is_the_smallest_point_and_not_where_the_derivation_happened_to_look():
    judgement = judge(made(lambda p: p * (1 + p)))
    assert [piece.method for piece in judgement.evidence if piece.stands is False] == ["symbolic", "enumerated"]
    assert judgement.counterexample == "p = 1/4: stated 5/16, found 3/16"


def test_a_planted_error_goes_through_the_very_same_check():
    planted = made(variance, planted={"a sign": lambda p: p + p**2})
    assert judge(planted).verdict == HOLDS
    assert not stands(weigh(planted, planted.planted["a sign"]))


@pytest.fixture
def empty_list(monkeypatch):
    """No claims, for one test."""
    monkeypatch.setattr(claims, "CLAIMS", entered := {})
    return entered


def enter(tag, **more):
    """Enter the claim of these tests."""
    claim(tag, where="", says="", refuted_by="", reading="", statement=variance, **more)(against_variance)


def test_a_tag_is_claimed_once_and_amended_once(empty_list):
    enter("fade:eq-0")
    with pytest.raises(ValueError, match="fade:eq-0 is claimed twice"):
        enter("fade:eq-0")
    amended = Amended("", variance)
    with pytest.raises(ValueError, match="more than one of condition, slip and correction"):
        enter("fade:eq-1", slip=amended, correction=amended)
    assert list(empty_list) == ["fade:eq-0"]


def test_what_cannot_be_decided_says_what_it_would_take(empty_list):
    undecided("fade:table-0", where="Table 0", says="it is better", needs="a 7B model", reading="as printed")
    judgement = judge(empty_list["fade:table-0"])
    assert (judgement.verdict, judgement.condition, judgement.evidence) == (UNDECIDED, "a 7B model", ())


def test_claims_come_in_the_order_of_the_papers_and_of_each_papers_text():
    papers = list(claims.PACKAGES)
    loaded = list(load().values())
    assert [papers.index(entered.paper) for entered in loaded] == sorted(papers.index(entry.paper) for entry in loaded)
    for paper in papers[:-1]:
        positions = [place_of(entered.where) for entered in loaded if entered.paper == paper]
        assert positions == sorted(positions)
    assert set(claims.TITLES) == set(papers)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"severity": "grave"}, "the severity 'grave'; allowed: changes a conclusion"),
        ({"met": "yes: always"}, "says whether a condition is met, and has none"),
    ],
)
def test_what_cannot_be_told_of_a_claim_is_refused(empty_list, changes, message):
    with pytest.raises(ValueError, match=message):
        enter("fade:eq-0", **changes)


def test_a_claim_that_holds_has_no_severity_and_needs_no_condition():
    told = {"condition": Amended("p < 1/2", variance), "severity": claims.CONDITIONS, "met": "no: p = 3/4"}
    right, wrong = judge(made(variance, **told)), judge(made(wrong_from_half, **told))
    assert (right.verdict, right.severity, right.met) == (HOLDS, "", "")
    assert (wrong.verdict, wrong.severity, wrong.met) == (HOLDS_IF, claims.CONDITIONS, "no: p = 3/4")


@pytest.mark.parametrize(("policy", "correct"), POLICIES)
def test_every_group_is_counted_with_its_probability(policy, correct):
    assert sum(policy) == 1
    for size in (1, 3):
        assert sum(chance for chance, _ in groups(policy, size)) == 1
        for action, p in enumerate(policy):
            assert expectation(policy, size, lambda counts, action=action: counts[action]) == size * p
            missed = expectation(policy, size, lambda counts, action=action: counts[action] == 0)
            assert missed == (1 - p) ** size


def test_a_step_along_the_score_gradient_moves_the_policy_as_calculus_says():
    policy, _ = POLICIES[1]
    direction = score_gradient(policy, (1, 0, -2))
    assert sum(direction) == 0
    after = stepped(policy, direction, mpf("1e-20"))
    mean = sum(p * d for p, d in zip(policy, direction, strict=True))
    for p, d, moved in zip(policy, direction, after, strict=True):
        predicted = mpf(p.numerator) / p.denominator
        slope = p * (d - mean)
        assert abs((moved - predicted) / mpf("1e-20") - mpf(slope.numerator) / slope.denominator) < mpf("1e-18")
