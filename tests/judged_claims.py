"""Put the planted errors of a claim to its own check."""

import pytest

from paper_checks.claim import load
from paper_checks.verdict import stands, weigh

CLAIMS = load()


# These take half a second and more each, most of it for compiling or for sums over large groups.
LONG = {
    "simlab:expected-entropy-change", "simlab:unsampled-mass-noise", "simlab:expected-update",
    "simlab:unsampled-mass-noise-gives", "simlab:focal-entropy-sign", "simlab:worst-group-rarer",
    "simlab:worst-group-one-sided",
    "simlab:unsampled-mass-each-estimator", "f-grpo:eq-5", "f-grpo:eq-27", "a-grae:eq-36", "cw-grpo:unsampled-logits",
    "fade:app-9-large-batch", "fade:sec-4-1-drift", "fade:masses", "fade:pass-at-k-tang", "fade:app-12-laplace",
    "fade:asym-power", "simlab:interference-transfer", "simlab:interference-temperature",
    "simlab:unsampled-drift", "fade:sec-4-1-asym-update", "a-grae:app-b5-exploration", "cw-grpo:entropy-covariance",
    "f-grpo:eq-11", "f-grpo:eq-4", "casp:entropy-loss", "a-grae:eq-9", "fade:softmax", "a-grae:thm-2", "a-grae:thm-1",
    "a-grae:against-f-grpo", "casp:eq-5-expected", "f-grpo:sec-5.1-direct-drift", "fade:mix", "fade:app-12-saddle",
    "fade:app-12-pass-at-k", "fade:rs-grpo", "f-grpo:lemma-3.1", "fade:power-alpha", "fade:eq-2",
    "fade:pass-at-k-chen", "fade:ha-dw", "fade:power-norm", "cw-grpo:abstract-covariance", "casp:eq-4-expected",
    "cw-grpo:entropy-stability", "casp:figure-5-casp", "fade:pkpo", "a-grae:eq-13", "fade:asym-rl",
    "a-grae:against-fade", "f-grpo:fig-2", "cw-grpo:entropy", "f-grpo:prop-3.2",
    "f-grpo:app-j", "f-grpo:fig-2-gamma", "f-grpo:app-j-figure-5", "f-grpo:sec-5.1-lemma-locates-zone",
    "f-grpo:fig-2-gamma-equal-mass",
    "casp:figure-5-entropy", "casp:figure-5-entropy-modes", "casp:figure-5-grpo", "casp:figure-4-plateau",
    "casp:eq-4-floor",
    "cw-grpo:entropy-covariance-in-grpo", "simlab:verifier-speed", "simlab:verifier-group-size",
    "simlab:verifier-hard-focus", "simlab:interference-descartes", "simlab:unsampled-mass-expected", "f-grpo:eq-9",
    "simlab:interference-group-size", "simlab:entropy-over-prompts", "f-grpo:sec-3.2-mass-grows-with-group-size",
    "f-grpo:sec-5.1-same-mechanism", "casp:prop-3", "simlab:verifier-answers",
    "simlab:active-successes-grow",
    "simlab:stale-rise", "simlab:lag-threshold", "simlab:verifier-asymmetry", "simlab:sign-balance",
    "simlab:tax-without-loss",
}  # fmt: skip


def tags_of(*papers):
    """The claims' tags, as parameters of a test."""
    tags = [tag for tag, claim in CLAIMS.items() if claim.paper in papers and claim.planted]
    return [pytest.param(tag, marks=pytest.mark.slow) if tag in LONG else tag for tag in tags]


def assert_planted_errors_are_refuted(tag):
    """The claim's check refutes each wrong statement in its place; ``simlab check`` judges the right ones."""
    claim = CLAIMS[tag]
    passed = [name for name, statement in claim.planted.items() if stands(weigh(claim, statement))]
    assert passed == []
