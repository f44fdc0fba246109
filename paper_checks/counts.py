"""Count verdicts: the papers' own sentences apart from our inferences, and every error once."""

from collections import Counter
from collections.abc import Iterable, Mapping

from paper_checks.claim import INFERRED, Claim
from paper_checks.verdict import FAILS

UNRECORDED = "not recorded"


def verdicts_of(claims: Iterable[Claim], verdicts: Mapping[str, str], *, inferred: bool) -> Counter[str]:
    """Count the claims by verdict, among our inferences or among all others."""
    chosen = [claim for claim in claims if (claim.whose == INFERRED) == inferred]
    return Counter(verdicts.get(claim.tag, UNRECORDED) for claim in chosen)


def errors(claims: Iterable[Claim], verdicts: Mapping[str, str]) -> int:
    """Count the errors behind the papers' sentences that fail; sentences with one cause make one error."""
    failing = [claim for claim in claims if verdicts.get(claim.tag) == FAILS and claim.whose != INFERRED]
    return len({claim.same_error_as or claim.tag for claim in failing})
