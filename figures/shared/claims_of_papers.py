"""Write five papers' claims of pass@k as orders of arms, and judge whether some runs have these orders.

An arm is called as ``figures/interference_papers.py`` calls it. Numbers that papers report are in per cent.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

HOLDS, FAILS, UNTOLD = "holds", "does not hold", "cannot be told"
SHORT = {HOLDS: "yes", FAILS: "no", UNTOLD: "open"}
TRIFLE = 0.005  # a difference so small is none
STUDENT = 2.2  # the 97.5 % point of Student's t for the 12 seeds that are judged
BASE = "base model"

Arms = Mapping[str, Mapping[str, list[float] | None]]  # the values of each arm's measures, seed by seed


class Order(NamedTuple):
    """One arm is above another in a measure; or, if ``matches``, not below it."""

    measure: str
    above: str
    below: str
    matches: bool = False


class Claim(NamedTuple):
    """A claim of a paper, the numbers that it reports, and the orders of arms that it comes to."""

    tag: str
    says: str
    reported: str
    orders: tuple[Order, ...]


class Found(NamedTuple):
    """A verdict, and the difference that it hangs on with its standard error; none where an arm does not get there."""

    verdict: str
    measure: str = ""
    difference: float | None = None
    error: float | None = None

    def __str__(self) -> str:
        """``yes +0.0321(20)``, with the measure unless it is pass@256."""
        if self.difference is None or self.error is None:
            return SHORT[self.verdict]
        measure = "" if self.measure == "pass@256" else f"{self.measure} "
        return f"{SHORT[self.verdict]} {measure}{self.difference:+.4f}({self.error * 10_000:.0f})"


def judge(claim: Claim, arms: Arms, *, equal_pass_at_1: bool) -> Found | None:
    """Judge whether arms have the orders of a claim, by the order furthest from it; None if none can be asked for."""
    asked = [order for order in claim.orders if not (equal_pass_at_1 and order.measure == "pass@1")]
    findings = [_judge_order(order, arms) for order in asked]
    for verdict in (FAILS, UNTOLD, HOLDS):
        deciding = [finding for finding in findings if finding.verdict == verdict]
        if deciding:
            return min(deciding, key=lambda finding: np.inf if finding.difference is None else finding.difference)
    return None


def _judge_order(order: Order, arms: Arms) -> Found:
    above, below = (arms[name].get(order.measure) for name in (order.above, order.below))
    if above is None or below is None:
        return Found(UNTOLD)
    differences = np.array(above) - np.array(below)
    mean, error = differences.mean().item(), differences.std(ddof=1).item() / np.sqrt(len(differences)).item()
    margin = mean + TRIFLE if order.matches else mean - TRIFLE
    verdict = HOLDS if margin > STUDENT * error else FAILS if margin < -STUDENT * error else UNTOLD
    return Found(verdict, order.measure, mean, error)


def in_words(one_rate: Mapping[str, Found | None], equal: Mapping[str, Found | None]) -> str:
    """The verdict where features are shared, and the verdicts on other banks that differ, from both readings."""
    others = {"rare": "with rare answers", "apart": "without shared features", "network": "in a network with Adam"}
    shared, *rest = (_of_bank(one_rate[bank], equal[bank]) for bank in ("shared", *others))
    more = [f"{where}: {verdict}" for where, verdict in zip(others.values(), rest, strict=True) if verdict != shared]
    return "; ".join([shared, *more])


def _of_bank(one_rate: Found | None, equal: Found | None) -> str:
    first, second = (finding and finding.verdict for finding in (one_rate, equal))
    if first is None or second is None or first == second:
        return str(first or second)
    return f"{first} at one rate, {second} at equal pass@1"


def _all_above(measure: str, above: str, *others: str, matches: bool = False) -> tuple[Order, ...]:
    return tuple(Order(measure, above, other, matches) for other in others)


def _descending(measure: str, *names: str) -> tuple[Order, ...]:
    return tuple(Order(measure, above, below) for above, below in itertools.pairwise(names))


def _groups(*sizes: int, rollouts: str = "") -> tuple[str, ...]:
    return tuple(f"grpo, G = {size}{rollouts}" for size in sizes)


GRPO, FOCAL = "grpo, G = 8", "f_grpo(gamma=0.5), G = 8"
GROUP_LEVEL, SAMPLE_LEVEL = "linked(scale=std,sign=attenuate)", "linked(difficulty=shift,scale=std)"
ALPHA_ONLY, DELTA_ONLY = "fade(delta_min=1)", "fade(alpha_max=1)"
LOGARITHMIC, ENTROPY_ONLY = "fade_logarithmic(last=200)", "fade_entropy"
OF_CLIPS = "grpo+ppo_clip"
_AT_64 = ", 64 rollouts"
_G2, _G8, _G32 = _groups(2, 8, 32)

CLAIMS = (
    Claim(
        "f-grpo:sec-5.4-shape",
        "Pass@256 is highest at G = 2, lowest at 8, partly back at 32",
        "75.0, 64.1, 70.1",
        _descending("pass@256", _G2, _G32, _G8),
    ),
    Claim(
        "f-grpo:table-2-regimes",
        "The same at equal rollouts a step",
        "not run",
        _descending("pass@256", *_groups(2, 32, 8, rollouts=_AT_64)),
    ),
    Claim(
        "f-grpo:sec-5.4-lowest-pass-at-1",
        "Pass@1 rises with G from 2 over 8 to 32",
        "36.2, 37.3, 39.2",
        _descending("pass@1", _G32, _G8, _G2),
    ),
    Claim(
        "f-grpo:sec-5.4-nll",
        "The NLL of rare correct answers is lowest at G = 2, highest at 8",
        "0.19, 0.68, 0.52",
        _descending("rare NLL", _G8, _G32, _G2),
    ),
    Claim(
        "f-grpo:sec-5.4-matches-32",
        "F-GRPO at G = 8 matches GRPO at 32",
        "70.3, 70.1",
        (Order("pass@256", FOCAL, _G32, matches=True),),
    ),
    Claim(
        "f-grpo:sec-5.5-nine-of-nine",
        "F-GRPO raises pass@256",
        "70.3 > 64.1",
        (Order("pass@256", FOCAL, GRPO),),
    ),
    Claim(
        "f-grpo:sec-5.5-pass-at-1",
        "F-GRPO preserves pass@1",
        "38.6, 37.3",
        (Order("pass@1", FOCAL, GRPO, matches=True),),
    ),
    Claim(
        "f-grpo:sec-5.6-low-lr",
        "A lower rate does less for pass@256 than F-GRPO, but some",
        "64.1 < 69.2 < 70.3",
        _descending("pass@256", FOCAL, "grpo, low rate", GRPO),
    ),
    Claim(
        "f-grpo:sec-5.6-order",
        "DS-GRPO and a KL penalty (.1) keep more pass@256 than F-GRPO",
        "73.8, 72.0 > 70.3",
        tuple(Order("pass@256", above, FOCAL) for above in ("ds_grpo", "grpo, kl = 0.1")),
    ),
    Claim(
        "a-grae:sec-4.2-pass-256",
        "GRPO's pass@256 ends below the base model's",
        "MATH: 95.0 < 96.3",
        (Order("pass@256", BASE, GRPO),),
    ),
    Claim(
        "a-grae:sec-5.4-group-level",
        "that of A-GRAE's group level does not",
        "MATH: 97.0, 96.3",
        (Order("pass@256", GROUP_LEVEL, BASE, matches=True),),
    ),
    Claim(
        "a-grae:sec-5.4-group-level",
        "The group level does more for pass@256 than the sample level",
        "MATH: 97.0 > 96.0 > 95.0",
        _descending("pass@256", GROUP_LEVEL, SAMPLE_LEVEL, GRPO),
    ),
    Claim(
        "a-grae:sec-5.4-sample-level",
        "The sample level does more for pass@1",
        "MATH: 77.8 > 77.6 > 76.5",
        _descending("pass@1", SAMPLE_LEVEL, GROUP_LEVEL, GRPO),
    ),
    Claim(
        "a-grae:sec-5.4-full",
        "The full method is best in all metrics",
        "MATH: 78.3 at 1; 96.5 < 97.0 at 256",
        tuple(
            order
            for measure in ("pass@1", "pass@256")
            for order in _all_above(measure, "a_grae", GROUP_LEVEL, SAMPLE_LEVEL, GRPO)
        ),
    ),
    Claim(
        "a-grae:sec-4.2-growing-gain",
        "The negative-dominant control keeps more pass@256 than GRPO",
        "MATH: 97.0 > 95.0",
        (Order("pass@256", "negative_dominant", GRPO),),
    ),
    Claim(
        "a-grae:sec-4.2-positive-dominant",
        "The positive-dominant control keeps less",
        "MATH: 93.2 < 95.0",
        (Order("pass@256", GRPO, "positive_dominant"),),
    ),
    Claim(
        "a-grae:sec-4.3-focus",
        "Hard-focused keeps more pass@256, easy-focused gains more pass@1",
        "MATH: 96.0 > 95.0; 75.8 < 77.0",
        (Order("pass@256", "hard_focused", "easy_focused"), Order("pass@1", "easy_focused", "hard_focused")),
    ),
    Claim(
        "fade:fig-9",
        "Without alpha pass@100 is lower",
        "order alone",
        (Order("pass@128", "fade", DELTA_ONLY),),
    ),
    Claim(
        "fade:fig-9",
        "Without delta entropy collapses",
        "order alone",
        (Order("entropy", "fade", ALPHA_ONLY),),
    ),
    Claim(
        "fade:fig-9",
        "The logarithmic schedule has lower pass@10 and pass@100",
        "order alone",
        (Order("pass@8", "fade", LOGARITHMIC), Order("pass@128", "fade", LOGARITHMIC)),
    ),
    Claim(
        "fade:fig-9",
        "Driven by entropy alone it has lower pass@10 and pass@100",
        "order alone",
        (Order("pass@8", "fade", ENTROPY_ONLY), Order("pass@128", "fade", ENTROPY_ONLY)),
    ),
    Claim(
        "cw-grpo:accuracy-gain",
        "CW-GRPO is above Clip-Cov, and that above GRPO, at pass@1",
        "55.3 > 53.6 > 52.6",
        _descending("pass@1", "cw_grpo+ppo_clip", "grpo+clip_cov", OF_CLIPS),
    ),
    Claim(
        "casp:section-5.2-much-lower",
        "NSR, W-REINFORCE and Chen's pass@k keep more pass@256 than GRPO",
        "80.3, 80.2, 80.1 > 76.1",
        tuple(Order("pass@256", above, GRPO) for above in ("nsr", "w_reinforce", "pass_at_k_chen(k=4)")),
    ),
    Claim(
        "casp:section-5.2-much-lower",
        "and have lower pass@1",
        "39.5, 41.5, 39.8 < 41.7",
        _all_above("pass@1", GRPO, "nsr", "w_reinforce", "pass_at_k_chen(k=4)"),
    ),
    Claim(
        "casp:table-1-averages",
        "PSR keeps less pass@256 than GRPO",
        "72.5 < 76.1",
        (Order("pass@256", GRPO, "psr"),),
    ),
    Claim(
        "casp:section-5.2-figures",
        "KL-Cov keeps more pass@256 than GRPO",
        "79.0 > 76.1",
        (Order("pass@256", "grpo+kl_cov", OF_CLIPS),),
    ),
    Claim(
        "casp:table-1-averages",
        "An entropy bonus (.01) keeps more pass@256 than GRPO",
        "78.1 > 76.1",
        (Order("pass@256", "grpo, entropy_bonus = 0.01", GRPO),),
    ),
    Claim(
        "casp:section-5.2-pass-256",
        "Entropy-Adv keeps no more pass@256 than GRPO",
        "76.1, 76.1",
        (Order("pass@256", GRPO, "entropy_advantage", matches=True),),
    ),
    Claim(
        "casp:section-5.4-tau",
        "CaSP at all tokens keeps more pass@256 and has lower pass@1",
        "77.1 > 76.1; 34.1 < 41.7",
        (Order("pass@256", "grpo+casp(quantile=0)", OF_CLIPS), Order("pass@1", OF_CLIPS, "grpo+casp(quantile=0)")),
    ),
)
