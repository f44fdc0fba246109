"""Turn evidence into a verdict."""

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paper_checks.claim import Amended, Claim, Statement
from paper_checks.evidence import Disagreement, Evidence

HOLDS, HOLDS_IF, FAILS, SLIP = "holds", "holds if", "fails", "slip"
IDENTITY = "identity"  # a definition, or a line of algebra of definitions, that is right
UNDECIDED = "not decidable here"
OURS = "our methods disagree"
VERDICTS = (HOLDS, IDENTITY, HOLDS_IF, FAILS, SLIP, UNDECIDED, OURS)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim; the fields are those of the JSON report.

    Attributes:
        tag, paper, where, claim, formula, reading, whose, caveat: of the claim.
        verdict: one of ``VERDICTS``.
        condition: under which it holds, for "holds if".
        counterexample: the first point at which the printed statement fails, or how our methods disagree.
        computed: what the check computes, and the counterexample shows.
        correction: the intended form of a slip, or a statement that holds in place of one that fails.
        evidence: what each method found about the printed statement, then about its amendment.
        severity: how much it matters that the claim does not hold as printed; empty where it does.
        met: for "holds if", whether the paper's own experiments meet the condition.
        same_error_as: the tag of the claim whose error is the cause, where it is another's.
    """

    tag: str
    paper: str
    where: str
    claim: str
    formula: str
    verdict: str
    condition: str
    counterexample: str
    computed: str
    correction: str
    evidence: tuple[Evidence, ...]
    reading: str
    whose: str
    caveat: str
    severity: str
    met: str
    same_error_as: str

    def as_json(self) -> dict[str, Any]:
        """The verdict as an object of the JSON report."""
        return asdict(self) | {"evidence": [asdict(piece) for piece in self.evidence]}


def judge(claim: Claim) -> Verdict:
    """Put a claim to the test: the printed statement, and, if that does not stand, its amendment, by the same check."""
    if claim.needs:
        return _verdict(claim, UNDECIDED, condition=claim.needs)
    try:
        printed = weigh(claim, claim.statement)
        if stands(printed):
            return _verdict(claim, IDENTITY if claim.identity else HOLDS, printed)
        example = counterexample(printed)
        kind, amended = _amendment(claim)
        if amended is None:
            return _verdict(claim, FAILS, printed, counterexample=example)
        repaired = weigh(claim, amended.statement)
    except Disagreement as disagreement:
        return _verdict(claim, OURS, counterexample=str(disagreement))
    if not stands(repaired):
        failure = f"amended, it fails too: {counterexample(repaired)}"
        return _verdict(claim, OURS, (*printed, *repaired), counterexample=failure)
    condition, correction = (amended.text, "") if kind == HOLDS_IF else ("", amended.text)
    marked = tuple(Evidence(f"{piece.method}, amended", True, piece.figures) for piece in repaired if piece.stands)
    return _verdict(
        claim, kind, (*printed, *marked), condition=condition, counterexample=example, correction=correction
    )


def weigh(claim: Claim, statement: Statement) -> tuple[Evidence, ...]:
    """The evidence of a claim's check for any statement.

    Raises:
        Disagreement: if our methods differ, or nothing was tested.
    """
    evidence = tuple(claim.decide(statement))
    if all(piece.stands is None for piece in evidence):
        raise Disagreement("no method could tell")
    return evidence


def stands(evidence: Sequence[Evidence]) -> bool:
    """Return whether no method refutes."""
    return all(piece.stands is not False for piece in evidence)


def counterexample(evidence: Sequence[Evidence]) -> str:
    """The first refuting method's example; a derivation's only for want of another, since its point is arbitrary."""
    refuting = [piece for piece in evidence if piece.stands is False]
    first = min(refuting, key=lambda piece: piece.method == "symbolic")
    return first.counterexample or first.figures


def unfinished(claim: Claim, error: Exception) -> Verdict:
    """The verdict where the check itself broke."""
    return _verdict(claim, OURS, counterexample=f"the check ended in {type(error).__name__}: {error}")


def _amendment(claim: Claim) -> tuple[str, Amended | None]:
    kinds = {HOLDS_IF: claim.condition, SLIP: claim.slip, FAILS: claim.correction}
    return next(((kind, amended) for kind, amended in kinds.items() if amended is not None), (FAILS, None))


def _verdict(
    claim: Claim,
    verdict: str,
    evidence: Sequence[Evidence] = (),
    *,
    condition: str = "",
    counterexample: str = "",
    correction: str = "",
) -> Verdict:
    faulty = verdict in (HOLDS_IF, FAILS, SLIP)
    computed = inspect.getdoc(claim.decide) or "" if faulty else ""
    return Verdict(
        claim.tag, claim.paper, claim.where, claim.says, claim.formula,
        verdict, condition, counterexample, computed, correction, tuple(evidence), claim.reading, claim.whose,
        claim.caveat, claim.severity if faulty else "", claim.met if verdict == HOLDS_IF else "",
        claim.same_error_as if faulty else "",
    )  # fmt: skip
