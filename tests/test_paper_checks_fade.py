"""FADE's claims have the recorded verdicts, and their checks refute planted errors."""

import pytest
from judged_claims import assert_as_recorded_and_planted_errors_refuted, tags_of


@pytest.mark.parametrize("tag", tags_of("fade"))
def test_the_verdict_is_the_recorded_one_and_planted_errors_are_refuted(tag):
    assert_as_recorded_and_planted_errors_refuted(tag)
