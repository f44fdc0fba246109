"""The table of what ran: one row an environment, one a part, one a reason for which tests were skipped."""

import os
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from .running import Outcome


def table(
    commit: str,
    versions: dict[str, dict[str, str]],
    missing: dict[str, str],
    outcomes: Sequence[Outcome],
    waiting: Sequence[str],
) -> str:
    """The table as Markdown.

    Args:
        commit: what was tested.
        versions: of Python and packages, of each environment.
        missing: the environments, or what of them, that could not be had, each with the reason.
        outcomes: what each part that ran came to.
        waiting: the parts that have not run.
    """
    complete = not (missing or waiting or any(one.failed or one.ended for one in outcomes))
    lines = [
        "# Every test, in every environment",
        "",
        f"Written by `python -m tests.everything` on {datetime.now(UTC):%Y-%m-%d}, of {commit}, on {machine()}. "
        f"{_sum(outcomes)}; {'nothing is missing' if complete else 'not all of it ran and passed: see below'}.",
        "",
        "## Environments",
        "",
        *_rows(("environment", "versions"), [(name, _listed(told)) for name, told in versions.items()]),
        "",
        "## Parts",
        "",
        *_rows(
            ("part", "passed", "failed", "skipped", "seconds", "day", ""),
            [_row(one) for one in outcomes]
            + [(name, "", "", "", "", "", "has not run") for name in waiting]
            + [(name, "", "", "", "", "", f"**did not run**: {why}") for name, why in missing.items()],
        ),
        "",
        "## Skipped, and why",
        "",
        *_rows(("environment", "tests", "reason"), _skipped(outcomes)),
        "",
        "## Failed",
        "",
        *(_rows(("part", "test"), [(one.part, f"`{test}`") for one in outcomes for test in one.failed])),
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Cores, memory and system of this machine, without its name."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"


def _sum(outcomes: Sequence[Outcome]) -> str:
    passed = sum(one.passed for one in outcomes)
    failed = sum(len(one.failed) for one in outcomes)
    skipped = sum(sum(one.skipped.values()) for one in outcomes)
    return f"{passed} passed, {failed} failed, {skipped} skipped in {len(outcomes)} parts"


def _row(one: Outcome) -> tuple[object, ...]:
    if one.ended:
        return one.part, "", "", "", f"{one.seconds:.0f}", one.day, f"**{one.ended}**"
    failed = f"**{len(one.failed)}**" if one.failed else 0
    return one.part, one.passed, failed, sum(one.skipped.values()), f"{one.seconds:.0f}", one.day, ""


def _skipped(outcomes: Sequence[Outcome]) -> list[tuple[object, ...]]:
    """Environment, number of tests and reason, for each reason in an environment."""
    reasons = Counter[tuple[str, str]]()
    for one in outcomes:
        for reason, count in one.skipped.items():
            reasons[one.part.partition("/")[0], reason] += count
    return [(name, count, reason) for (name, reason), count in sorted(reasons.items())]


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _rows(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> list[str]:
    if not rows:
        return ["None."]
    return [_line(head), _line(tuple("---" for _ in head)), *map(_line, rows)]


def _line(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
