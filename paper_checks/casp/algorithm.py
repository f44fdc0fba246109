"""Figure 10, the entropy gate and the settings: what the pseudo-code and the numbers do beside what the text says."""

from fractions import Fraction as F
from math import floor

from paper_checks.casp.candidates import SAMPLED, average, smoothed_target
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, satisfies

ALPHA, TOP, LAMBDA = F(1, 100), 2, F(11, 10)
SETTINGS = {"mathematics": (F(1, 100), 3), "logic": (F(1, 200), 3), "code": (F(1, 20), 3)}


@claim(
    "casp:figure-10-k",
    where="Figure 10; Table 4",
    says="The pseudo-code's divisor K is the K of the text, the sampling budget.",
    refuted_by="a K at which the weights on the sampled token and the candidates do not sum to 1",
    reading="K is the sampling budget from the abstract on, here and in Table 4 it stands for N (k in its caption). "
    "With N in its place the pseudo-code is Eq. 4. Anyone who passes one K to both gets alpha N/K of smoothing.",
    statement=lambda n, budget: budget,
    slip=Amended("alpha/N", lambda n, budget: n),
    planted={"no divisor": lambda n, budget: 1},
)
def divisor(statement):
    """Add up the weights under the stated divisor."""
    alpha = SETTINGS["mathematics"][0]
    yield from equals(
        lambda n, budget: (1 - alpha) + n * alpha / statement(n, budget),
        grid(n=[3, 5], budget=[256, 1024]),
        enumerated=lambda n, budget: sum(smoothed_target((F(1, 8),) * 8, 0, alpha, n)),
    )


def pseudo_code(p, y, advantage, gate):
    """Figure 10 line by line, as the weight of each token's ratio."""
    w = int(gate)
    ratio = [F(int(v == y)) for v in range(len(p))]
    topn_ratio = [F(int(v < TOP)) for v in range(len(p))]
    if advantage > 0:
        ratio = [(1 - ALPHA * w) * own + ALPHA * w / TOP * top for own, top in zip(ratio, topn_ratio, strict=True)]
    if advantage < 0 and y == 0 and w:
        ratio = [LAMBDA * own for own in ratio]
    return tuple(ratio)


@claim(
    "casp:figure-10-update",
    where="Figure 10, steps 2 and 3",
    says="With its gate open the pseudo-code gives a success the weights of Eq. 4 and a failure of rank 1 lambda.",
    refuted_by="an advantage, token and gate at which the pseudo-code's weights differ from Eqs. 4 and 5",
    reading="K read as N; `ratio` and `topn_ratio` on policy. A zero advantage keeps the plain ratio in both.",
    statement=pseudo_code,
    planted={
        "no gate": lambda p, y, advantage, gate: pseudo_code(p, y, advantage, True),
        "penalty on all": lambda p, y, advantage, gate: pseudo_code(p, 0, advantage, gate),
    },
)
def pseudo_code_update(statement):
    """Each token's weight by the equations."""

    def by_equations(p, y, advantage, gate):
        plain = [F(int(v == y)) for v in range(len(p))]
        if not gate or advantage == 0:
            return tuple(plain)
        if advantage > 0:
            return tuple(smoothed_target(p, y, ALPHA, TOP))
        return tuple((LAMBDA if y == 0 else 1) * entry for entry in plain)

    yield from equals(
        statement,
        [
            {**point, "advantage": advantage, "gate": gate}
            for gate in (True, False)
            for advantage in (1, -1, 0)
            for point in SAMPLED[:8]
        ],
        enumerated=by_equations,
    )


def quantile(values, q):
    """The q-quantile by linear interpolation, NumPy's default."""
    ordered, place = sorted(values), q * (len(values) - 1)
    low = floor(place)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def above(values, threshold):
    """How many values exceed a threshold."""
    return sum(value > threshold for value in values)


RESPONSES = [
    [[F(t) for t in range(10)], [F(t) for t in range(10)]],
    [[F(t) for t in range(10)], [F(t, 10) for t in range(10)]],
]


@claim(
    "casp:figure-10-gate",
    where="Figure 10, step 1; Section 4; Appendix E.1",
    says="The pseudo-code's percentile over the entropies picks in each response the tokens above its own quantile.",
    refuted_by="two responses of which the percentile of the batch picks other numbers of tokens than their quantiles",
    reading="`percentile(entropy, tau)` with no axis is over the batch; the text has it 'within the response'. "
    "It also passes tau, the threshold in the text, where the level q belongs. On the reading that one response is "
    "meant, it would hold.",
    statement=lambda responses, q: [quantile([value for response in responses for value in response], q)] * 2,
    condition=Amended(
        "the responses have the same distribution of entropies",
        lambda responses, q: (
            [quantile([value for response in responses for value in response], q)] * 2
            if sorted(responses[0]) == sorted(responses[1])
            else None
        ),
    ),
    planted={"the mean": lambda responses, q: [average([F(1, 10)] * 10, response) for response in responses]},
)
def gate(statement):
    """Count the tokens that either threshold picks in each response."""

    def picked(responses, q):
        thresholds = statement(responses, q)
        return thresholds and tuple(above(r, t) for r, t in zip(responses, thresholds, strict=True))

    yield from equals(
        picked,
        grid(responses=RESPONSES, q=[F(4, 5)]),
        enumerated=lambda responses, q: tuple(above(r, quantile(r, q)) for r in responses),
    )


@claim(
    "casp:section-5.4-tau",
    where="Section 5.4; Section 4",
    says="At tau_0 all tokens receive the CaSP update, at tau_1 none.",
    refuted_by="a response of which 'exceeds the 0-quantile' leaves one out, or 'exceeds the 1-quantile' lets one in",
    reading="The rule is 'entropy exceeds the quantile'; the 0-quantile is the least entropy, which does not exceed "
    "itself, nor do tokens that tie with it: on a collapsed policy, with most entropies at rounding 0, that can be "
    "most tokens. On the reading that tau_0 is minus infinity, it would hold.",
    statement=quantile,
    correction=Amended(
        "with the 0-quantile read as minus infinity",
        lambda values, q: quantile(values, q) if q else min(values) - 1,
    ),
    planted={"the median": lambda values, q: quantile(values, F(1, 2))},
)
def gate_limits(statement):
    """Count the tokens above the threshold."""
    yield from equals(
        lambda values, q: above(values, statement(values, q)),
        grid(values=[(F(0), F(1), F(2)), (F(0), F(0), F(0), F(1))], q=[F(0), F(1)]),
        enumerated=lambda values, q: len(values) if q == 0 else 0,
    )


@claim(
    "casp:app-e-1-quantile",
    where="Appendix E.1, Mathematics",
    says="A fraction q of each response's tokens have an entropy below tau_q.",
    refuted_by="a response in which the number of tokens below the quantile is off q times the length by 1 or more",
    reading="To within one token, as q times the length need not be whole. Ties break it: entropies of a nearly "
    "deterministic policy are equal in floating point. A response of 3 tokens, as in the toy of Figure 5, has "
    "exactly one token above tau_.8.",
    statement=lambda below, values, q: abs(below - q * len(values)) < 1,
    condition=Amended(
        "no two tokens have the same entropy",
        lambda below, values, q: abs(below - q * len(values)) < 1 if len(set(values)) == len(values) else None,
    ),
    planted={"above": lambda below, values, q: abs(len(values) - below - q * len(values)) < 1},
)
def fraction_below(statement):
    """Count the tokens below the quantile."""
    yield from satisfies(
        statement,
        grid(values=[*(tuple(range(size)) for size in (3, 10, 57)), (*[0] * 8, 1, 2)], q=[F(2, 5), F(4, 5)]),
        lambda values, q: sum(value < quantile(values, q) for value in values),
    )


@claim(
    "casp:app-e-1-floor",
    where="Appendix E.1; Appendix D.2 with Figure 9; Section 3.3",
    says="With the settings used, a top-N candidate's share alpha/N of the target is not negligible: it lies above "
    "Figure 9's lowest bin, .05.",
    refuted_by="a task whose alpha/N is at most .05",
    reading="'Preserving non-negligible probability mass on the top-N candidates'; Appendix D.2 takes rank 3 below .05 "
    "as carrying next to none of the relevant mass. alpha/N is where positive updates hold a candidate while another "
    "is reinforced (casp:eq-4-floor). On the reading that .0033 is not negligible for K = 256 (a branch found in 57 "
    "% of such budgets), it would hold.",
    statement=F(1, 20),
    correction=Amended("they lie between .0016 and .017, in the lowest bin", F(16, 10000)),
    planted={"a tenth": F(1, 10)},
)
def smallest_share(statement):
    """alpha/N of each task."""
    yield from satisfies(
        lambda share, task: share > statement,
        grid(task=list(SETTINGS)),
        lambda task: SETTINGS[task][0] / SETTINGS[task][1],
    )
