"""Judges a claim as ``simlab check`` does, and puts its planted errors to the very same check."""

from paper_checks.claim import load
from paper_checks.run import recorded
from paper_checks.verdict import judge, stands, weigh

CLAIMS = load()
RECORDED = recorded()


def tags_of(*papers):
    """The claims' tags."""
    return [tag for tag, claim in CLAIMS.items() if claim.paper in papers]


def assert_as_recorded_and_planted_errors_refuted(tag):
    """The claim has the recorded verdict, and its check refutes each wrong statement in its place."""
    claim = CLAIMS[tag]
    found = judge(claim)
    assert found.verdict == RECORDED.get(tag), found.counterexample
    passed = [name for name, statement in claim.planted.items() if stands(weigh(claim, statement))]
    assert passed == []
