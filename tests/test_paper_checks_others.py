"""The claims of all papers but FADE have the recorded verdicts, and their checks refute planted errors.

Two files, since one file runs in one process and claims of a paper share what they have simulated.
"""

import pytest
from judged_claims import CLAIMS, assert_as_recorded_and_planted_errors_refuted, tags_of

from paper_checks.claim import PACKAGES


@pytest.mark.parametrize("tag", tags_of(*(set(PACKAGES) - {"fade"})))
def test_the_verdict_is_the_recorded_one_and_planted_errors_are_refuted(tag):
    assert_as_recorded_and_planted_errors_refuted(tag)


def test_errors_are_planted_in_at_least_twenty_claims_of_the_papers():
    assert sum(bool(claim.planted) for claim in CLAIMS.values() if claim.paper != "simlab") >= 20
