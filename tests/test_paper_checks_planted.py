"""The check of each claim refutes the errors that are planted in it."""

import pytest
from judged_claims import CLAIMS, assert_planted_errors_are_refuted, tags_of

from paper_checks.claim import PACKAGES


@pytest.mark.parametrize("tag", tags_of(*PACKAGES))
def test_planted_errors_are_refuted(tag):
    assert_planted_errors_are_refuted(tag)


def test_errors_are_planted_in_at_least_twenty_claims_of_the_papers():
    assert sum(bool(claim.planted) for claim in CLAIMS.values() if claim.paper != "simlab") >= 20
