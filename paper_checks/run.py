"""Select claims, judge them in several processes, and compare the verdicts with the recorded ones."""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from tqdm import tqdm

from paper_checks.claim import CLAIMS, PACKAGES, Claim, load
from paper_checks.verdict import Verdict, judge, unfinished
from simlab.errors import InputError, check_choice

RECORD = Path(__file__).with_name("verdicts.json")


def select(claims: Mapping[str, Claim], paper: str | None = None, tag: str | None = None) -> list[Claim]:
    """The claims of one paper, the one claim of a tag, or all.

    Args:
        claims: by tag.
        paper: its id, such as ``"f-grpo"``.
        tag: ``"lemma-3.1"`` with a paper, ``"f-grpo:lemma-3.1"`` with or without.

    Raises:
        InputError: for a paper or tag that is not there.
    """
    if paper is not None:
        check_choice("paper", paper, PACKAGES)
    chosen = {claim.tag: claim for claim in claims.values() if paper in (None, claim.paper)}
    if tag is None:
        return list(chosen.values())
    whole = tag if ":" in tag or paper is None else f"{paper}:{tag}"
    if whole not in chosen:
        closest = ", ".join(get_close_matches(whole, chosen, n=5, cutoff=0.0)) or "none, nothing is claimed yet"
        raise InputError(f"tag = {tag!r} is claimed nowhere; closest known: {closest}")
    return [chosen[whole]]


def judge_all(claims: Iterable[Claim], jobs: int | None = None) -> list[Verdict]:
    """The verdicts, in the order of the claims, with a progress bar on a terminal.

    Args:
        claims: from the list that ``load`` gives.
        jobs: how many processes; by default one a core. A single claim is judged in this process.

    Raises:
        InputError: if a process is killed.
    """
    tags = [claim.tag for claim in claims]
    jobs = min(jobs or os.cpu_count() or 1, len(tags))
    judged = map(judge_tag, tags) if jobs <= 1 else _in_processes(tags, jobs)
    with tqdm(judged, total=len(tags), unit=" claims", desc="judging", disable=None) as shown:
        verdicts = {verdict.tag: verdict for verdict in shown}
    return [verdicts[tag] for tag in tags]


def judge_tag(tag: str) -> Verdict:
    """Judge one claim; an error in its check is reported as ours, and the other claims go on."""
    try:
        return judge(CLAIMS[tag])
    except Exception as error:
        return unfinished(CLAIMS[tag], error)


def recorded() -> dict[str, str]:
    """The verdicts by tag with which the present ones are compared."""
    verdicts: dict[str, str] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    return verdicts


def differences(judged: Mapping[str, str], known: Mapping[str, str], *, everything: bool) -> list[str]:
    """One line a tag whose verdict is not the recorded one.

    Args:
        judged: verdicts by tag.
        known: those recorded.
        everything: whether all claims were judged, so that a recorded tag that is missing is claimed no more.

    >>> differences({"fade:eq-1": "fails"}, {"fade:eq-1": "holds"}, everything=True)
    ['fade:eq-1: recorded holds, found fails']
    """
    lines = [
        f"{tag}: recorded {known.get(tag, 'nothing')}, found {verdict}"
        for tag, verdict in judged.items()
        if known.get(tag) != verdict
    ]
    if everything:
        lines += [f"{tag}: recorded {verdict}, claimed no more" for tag, verdict in known.items() if tag not in judged]
    return lines


def _in_processes(tags: list[str], jobs: int) -> Iterator[Verdict]:
    """Verdicts as they come. Processes are spawned, not forked: JAX's threads do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(jobs, context, _start_worker)
    try:
        with _interrupts_blocked():  # the workers inherit it for good: the parent ends them
            waiting = [executor.submit(judge_tag, tag) for tag in tags]
        yield from (done.result() for done in as_completed(waiting))
    except BrokenExecutor:
        raise InputError("a process was killed, perhaps for want of memory; try --jobs 1") from None
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Load the claims; simulate on the CPU, since many processes cannot share a GPU; end when the parent does."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent.join,), daemon=True).start()
    load()


def _end_with(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """An interrupt that comes inside is delivered at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
