"""Plants every fault into a running agent, prints what it did, and writes docs/reliability.md.

`make reliability` runs all of it, which takes about a quarter of an hour; the exit status is 1 if
an agent did not recover, or left a history that cannot be read.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.trial import Outcome, attempt
from measured import machine, rewrite, table

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "reliability.md"
_HEADINGS: Final = (
    "faults",
    "unanswered scrapes",
    "longest, ms",
    "all GPUs again after, s",
    "its GPUs lost, s, at most",
    "others lost, s",
    "logged",
)
_AREAS: Final = {
    "driver": "Driver and GPUs",
    "disk": "Disk",
    "process": "Process",
    "page": "Page and API",
    "network": "Servers that it speaks to",
}
_AT_START: Final = ", as the agent starts"
_BOTH: Final = " (both)"
_TICK_SECONDS: Final = 1.0


def main(arguments: Sequence[str]) -> int:
    """Attempt them; 1 if an agent did not recover."""
    asked = _parse(arguments)
    wanted = [each for each in FAULTS if asked.only in f"{each.area}: {each.name}"]
    with ThreadPoolExecutor(asked.at_once) as pool:
        outcomes = list(pool.map(attempt, wanted))
    text = "\n\n".join(
        f"### {title}\n\n{table(merged(found), _HEADINGS)}"
        for area, title in _AREAS.items()
        if (found := [each for each in outcomes if each.fault.area == area])
    )
    place = f"Measured on: {machine()}; {asked.at_once} agents at once."
    print(f"{place}\n\n{text}")
    if asked.only:
        print(f"{DOCUMENT.name} stays as it is.")
    else:
        rewrite("make reliability", f"{place}\n\n{text}", DOCUMENT)
    broken = [each for each in outcomes if each.recovered_seconds is None or not each.opens]
    for each in broken:
        print(f"not recovered: {each.fault.name}", file=sys.stderr)
    return 1 if broken else 0


def merged(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, ...]]:
    """A row for all faults that are alike in what was logged, lost by others and answered."""
    alike: dict[tuple[object, ...], list[Outcome]] = {}
    for each in outcomes:
        recovered = each.recovered_seconds
        lost = _seconds(each.lost_seconds[1])
        is_at_once = recovered is not None and recovered < _TICK_SECONDS
        key = is_at_once, recovered is None, lost, each.unanswered > 0, each.warnings_logged
        alike.setdefault(key, []).append(each)
    return map(_row, alike.values())


def _row(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    first = outcomes[0]
    recovered = [each.recovered_seconds for each in outcomes if each.recovered_seconds is not None]
    slowest = max(recovered, default=None)
    after = "never" if slowest is None else f"at most {slowest:.1f}"
    if slowest is not None and slowest < _TICK_SECONDS:
        after = "at once"
    of_fault = max((each.lost_seconds[0] for each in outcomes if each.fault.gpus), default=None)
    return (
        _named([each.fault.name for each in outcomes]),
        f"{sum(each.unanswered for each in outcomes)} of {sum(each.scrapes for each in outcomes)}",
        f"{max(each.longest_seconds for each in outcomes) * 1000:.0f}",
        after,
        "" if of_fault is None else _seconds(of_fault),
        _seconds(max(each.lost_seconds[1] for each in outcomes)),
        ", ".join(f"`{event}`" for event in first.warnings_logged),
    )


def _named(faults: Sequence[str]) -> str:
    """The faults, each once where it is alike at the start and later."""
    later = [each for each in faults if not each.endswith(_AT_START)]
    at_start = [each for each in faults if each.removesuffix(_AT_START) not in later]
    both = (f"{each}{_BOTH if each + _AT_START in faults else ''}" for each in later)
    return "; ".join([*both, *at_start])


def _seconds(lost: float) -> str:
    """What is below half a tick is the moment of the reading."""
    return "0" if lost < _TICK_SECONDS / 2 else f"{lost:.0f}"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only faults with this in them; writes nothing")
    parser.add_argument("--at-once", type=int, default=4, help="agents that run side by side")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
