"""Plants every fault into a running agent, prints what it did, and writes RESULTS.md.

`make reliability` runs all of it, which takes about twenty minutes; `--group` and `--only` choose
rows, and keep the others as they were. The exit status is 1 if a row shows what must not be.
"""

import argparse
import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from benchmarks.reliability.control_group import kinds
from benchmarks.reliability.fault import Group
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.shim import preload
from benchmarks.reliability.trial import Outcome, attempt, failed
from measured import machine, rewrite, table

DOCUMENT: Final = Path(__file__).with_name("RESULTS.md")
RESULTS: Final = Path(__file__).parents[2] / ".cache" / "reliability.json"
HEADINGS: Final = (
    "fault",
    "unanswered",
    "longest, ms",
    "back after, s",
    "lost, s",
    "of history, s",
    "logged; counted",
    "memory, MiB",
    "ended in, s",
)
_TICK_SECONDS: Final = 1.0
_PREFIX: Final = "rightsizer_"
_AT_ONCE: Final = 12
_DIE_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main(arguments: Sequence[str]) -> int:
    """Attempt them; 1 if a row has trouble."""
    options = _parse(arguments)
    chosen = [
        number
        for number, fault in enumerate(FAULTS)
        if options.only in fault.name and options.group in ("", fault.group.name.lower())
    ]
    outcomes = _attempts(chosen, options.at_once)
    place = (
        f"Measured on: {machine()}; {options.at_once} agents at once; control groups: {kinds()}."
    )
    print("\n\n".join([place, summary(outcomes), *sections(outcomes)]))
    known = _former()
    rows = [known[fault.name] for fault in FAULTS if fault.name in known]
    if len(rows) == len(FAULTS):
        text = "\n\n".join([place, summary(rows), *sections(rows)])
        rewrite("make reliability", text, DOCUMENT)
    else:
        print(f"{DOCUMENT.name} stays as it is: {len(FAULTS) - len(rows)} rows were never run.")
    return 1 if any(outcome.troubles for outcome in outcomes) else 0


def _former() -> dict[str, Outcome]:
    """Rows of former runs by fault, which a run of some rows keeps."""
    if not RESULTS.exists():
        return {}
    try:
        outcomes = msgspec.json.decode(RESULTS.read_bytes(), type=list[Outcome])
    except msgspec.ValidationError:  # Of an older version.
        return {}
    return {outcome.fault: outcome for outcome in outcomes}


def _keep(outcome: Outcome) -> None:
    known = _former() | {outcome.fault: outcome}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.encode(list(known.values())))


def summary(outcomes: Sequence[Outcome]) -> str:
    """All rows in a few sentences, and what must not be."""
    scrapes = sum(outcome.scrapes for outcome in outcomes)
    unanswered = sum(outcome.unanswered for outcome in outcomes)
    strangers = sum(bool(outcome.strangers) for outcome in outcomes)
    total = (
        f"{len(outcomes)} faults, {scrapes} scrapes, {unanswered} of them unanswered; "
        f"actions for a stranger: {strangers}."
    )
    troubles = [
        f"- **{outcome.fault}**: {'; '.join(outcome.troubles)}"
        for outcome in outcomes
        if outcome.troubles
    ]
    return "\n".join([total, "", *troubles]).strip()


def sections(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A table for each group."""
    for group in Group:
        rows = [row(outcome) for outcome in outcomes if outcome.group == group.name]
        if rows:
            yield f"### {group}\n\n{table(rows, HEADINGS)}"


def row(outcome: Outcome) -> tuple[str, ...]:
    """A line of the table."""
    recovered = outcome.recovered_seconds
    back = "never" if recovered is None else f"{recovered:.1f}"
    if recovered is not None and recovered < _TICK_SECONDS:
        back = "at once"
    history = outcome.history_lost_seconds
    ended = outcome.ended_seconds
    return (
        outcome.fault,
        f"{outcome.unanswered} of {outcome.scrapes}",
        f"{outcome.longest_seconds * 1000:.0f}",
        back,
        _lost(outcome),
        "unreadable" if history is None else _seconds(history),
        _said(outcome),
        f"{outcome.peak_mebibytes:.0f}",
        "killed" if ended is None else f"{ended:.1f}",
    )


def _lost(outcome: Outcome) -> str:
    """Of its GPUs, if there are any, and of others."""
    faulty, others = map(_seconds, outcome.lost_seconds)
    return f"{faulty}; others {others}" if outcome.has_faulty_gpus else others


def _said(outcome: Outcome) -> str:
    """Events of the log, and metrics without their prefix."""
    events = ", ".join(f"`{event}`" for event in outcome.logged)
    metrics = ", ".join(f"`{name.removeprefix(_PREFIX)}`" for name in outcome.counted)
    return "; ".join(filter(None, (events, metrics)))


def _attempts(numbers: Sequence[int], at_once: int) -> list[Outcome]:
    """Outcomes in the order of the table; processes, for scrapes must not wait for each other."""
    outcomes: dict[int, Outcome] = {}
    started = time.monotonic()
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="reliability-") as folder,
        ProcessPoolExecutor(at_once, context, initializer=_begin, initargs=(Path(folder),)) as pool,
    ):
        waiting = {pool.submit(_attempt, number): number for number in numbers}
        for done in as_completed(waiting):
            outcome = done.result()
            outcomes[waiting[done]] = outcome
            _keep(outcome)
            trouble = f": {'; '.join(outcome.troubles)}" if outcome.troubles else ""
            print(
                f"{time.monotonic() - started:6.0f} s, {len(outcomes)} of {len(numbers)}: "
                f"{outcome.fault}{trouble}",
                file=sys.stderr,
                flush=True,
            )
    return [outcomes[number] for number in numbers]


def _begin(folder: Path) -> None:
    """Let agents be forked from a process that has loaded the shim.

    Each worker has a session of its own, as a daemon has, for the kernel shares processors among
    sessions, and ends with the run.
    """
    os.setsid()
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    place = folder / str(os.getpid())
    place.mkdir()
    preload(place)


def _attempt(number: int) -> Outcome:
    """The outcome; what goes wrong with one row must not end the others."""
    try:
        return attempt(FAULTS[number])
    except Exception as error:  # noqa: BLE001 - it is told by the row.
        return failed(FAULTS[number], error)


def _seconds(lost: float) -> str:
    """What is below half a tick is the moment of the reading."""
    return "0" if lost < _TICK_SECONDS / 2 else f"{lost:.0f}"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only faults with this in their name")
    parser.add_argument(
        "--group", default="", choices=["", *(group.name.lower() for group in Group)]
    )
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help="agents side by side")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
