"""Define a claim: its tag, its sentence, a statement of it that can be tested, and the check that decides it."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from paper_checks.evidence import Evidence
from paper_checks.place import place_of

# What a claim states: a formula, a predicate, or a table of printed numbers. A planted error is another of its kind.
Statement = Any
Decide = Callable[[Statement], Iterable[Evidence]]

# In the order of the report.
PACKAGES = {
    "f-grpo": "f_grpo",
    "a-grae": "a_grae",
    "cw-grpo": "cw_grpo",
    "fade": "fade",
    "casp": "casp",
    "simlab": "laboratory",
}
TITLES = {
    "f-grpo": "F-GRPO",
    "a-grae": "A-GRAE",
    "cw-grpo": "CW-GRPO",
    "fade": "FADE",
    "casp": "CaSP",
    "simlab": "The laboratory's own findings",
}

CHANGES, CONDITIONS, COSMETIC = "changes a conclusion", "needs a condition", "cosmetic"
SEVERITIES = (CHANGES, CONDITIONS, COSMETIC)
PRINTED, INFERRED, OWN = "the paper says", "our inference", "the laboratory's own"


@dataclass(frozen=True)
class Amended:
    """A statement put in place of the printed one, which the very same check must let stand.

    Attributes:
        text: the condition, the intended form or the corrected claim, in words.
        statement: the same in the form that the check takes. A condition makes it silent (None) outside.
    """

    text: str
    statement: Statement


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes:
        tag: ``"paper:label"``.
        where: section, equation or table of the paper.
        says: the claim in one sentence.
        formula: its formula in LaTeX, without dollar signs; empty for claims in words.
        refuted_by: what would refute it.
        reading: the reading of the paper that was taken, and the reading under which another verdict would be right.
        statement: what it states, in the form that ``decide`` takes.
        decide: the check: a statement -> its evidence.
        condition: where the statement holds only under a condition, that condition.
        slip: where the print is a slip, the form that was meant.
        correction: where the claim fails, a statement that does not.
        inferred: whether the sentence is ours: what the paper implies, or what somebody might infer from it, but does
            not say. Such claims are counted apart, and a failing one is no error of the paper's.
        identity: whether it defines something, or is a line of algebra of definitions, such as what a named weight
            comes to. Such claims are counted apart: that they stand says that the print has no error.
        severity: one of ``SEVERITIES``, for a claim that does not hold as printed. By default a condition is one that
            the claim needs, and a slip is cosmetic; what fails must say how much it matters.
        met: for a condition: whether the paper's own experiments meet it, in a line that starts with yes, no, partly
            or unknown.
        same_error_as: the tag of the claim whose error is the cause of this one's, which is then counted once.
        caveat: what a reader of the verdict alone would get wrong: the part of the reading that goes wherever the
            verdict goes. Empty if the verdict needs none.
        planted: wrong statements by name, each of which the check must refute.
        needs: for a claim that cannot be decided here, what it would take; it then has no evidence.
        module: in which it is entered.
        line: of that module's statement which enters it.
    """

    tag: str
    where: str
    says: str
    refuted_by: str
    reading: str
    statement: Statement
    decide: Decide
    formula: str = ""
    condition: Amended | None = None
    slip: Amended | None = None
    correction: Amended | None = None
    planted: Mapping[str, Statement] = field(default_factory=dict)
    inferred: bool = False
    identity: bool = False
    severity: str = ""
    met: str = ""
    same_error_as: str = ""
    caveat: str = ""
    needs: str = ""
    module: str = ""
    line: int = 0

    @property
    def paper(self) -> str:
        """The paper's id."""
        return self.tag.partition(":")[0]

    @property
    def whose(self) -> str:
        """Whose sentence it is: the paper's, our inference from it, or the laboratory's own finding."""
        if self.paper == "simlab":
            return OWN
        return INFERRED if self.inferred else PRINTED


CLAIMS: dict[str, Claim] = {}


def claim(
    tag: str,
    *,
    where: str,
    says: str,
    refuted_by: str,
    reading: str,
    statement: Statement,
    formula: str = "",
    condition: Amended | None = None,
    slip: Amended | None = None,
    correction: Amended | None = None,
    planted: Mapping[str, Statement] | None = None,
    inferred: bool = False,
    identity: bool = False,
    severity: str = "",
    met: str = "",
    same_error_as: str = "",
    caveat: str = "",
) -> Callable[[Decide], Decide]:
    """Enter a claim in the list; the decorated function is the check that decides it. Arguments as in ``Claim``.

    Raises:
        ValueError: for a tag that is taken, more than one amendment, a severity that is none of the three, or a ``met``
            without a condition.
    """

    module, line = _entered_from(sys._getframe(1))

    def enter(decide: Decide) -> Decide:
        if sum(amended is not None for amended in (condition, slip, correction)) > 1:
            raise ValueError(f"{tag} has more than one of condition, slip and correction")
        if severity not in ("", *SEVERITIES):
            raise ValueError(f"{tag} has the severity {severity!r}; allowed: {', '.join(SEVERITIES)}")
        if met and condition is None:
            raise ValueError(f"{tag} says whether a condition is met, and has none")
        _enter(
            Claim(
                tag, where, says, refuted_by, reading, statement, decide,
                formula, condition, slip, correction, planted or {},
                inferred, identity, severity or _usual_severity(condition, slip), met, same_error_as, caveat,
                module=module, line=line,
            )
        )  # fmt: skip
        return decide

    return enter


def undecided(
    tag: str, *, where: str, says: str, needs: str, reading: str, formula: str = "", inferred: bool = False
) -> None:
    """Enter a claim that nothing in this laboratory can decide, with what it would take."""

    def none(statement: Statement) -> Iterable[Evidence]:
        return ()

    module, line = _entered_from(sys._getframe(1))
    _enter(
        Claim(
            tag, where, says, needs, reading, None, none,
            formula, inferred=inferred, needs=needs, module=module, line=line,
        )
    )  # fmt: skip


def load() -> dict[str, Claim]:
    """All claims by tag, in the order of the papers and of each paper's text; our own by module.

    Raises:
        ValueError: for a claim whose ``where`` begins with no place of its paper.
    """
    for package in PACKAGES.values():
        folder = importlib.import_module(f"paper_checks.{package}")
        for module in sorted(info.name for info in pkgutil.iter_modules(folder.__path__)):
            importlib.import_module(f"paper_checks.{package}.{module}")
    papers = list(PACKAGES)
    return dict(sorted(CLAIMS.items(), key=lambda item: (papers.index(item[1].paper), _order(item[1]))))


def _order(entered: Claim) -> tuple[Any, ...]:
    return (entered.module,) if entered.paper == "simlab" else (*place_of(entered.where), entered.module)


def _usual_severity(condition: Amended | None, slip: Amended | None) -> str:
    return CONDITIONS if condition else COSMETIC if slip else ""


def _entered_from(frame: FrameType) -> tuple[str, int]:
    """The module that enters a claim, and the line at its top, whatever function of it makes the claim."""
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals["__name__"]), frame.f_lineno


def _enter(entered: Claim) -> None:
    if entered.tag in CLAIMS:
        raise ValueError(f"{entered.tag} is claimed twice")
    CLAIMS[entered.tag] = entered
