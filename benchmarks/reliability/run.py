"""Plants every fault into a running agent, prints what it did, and writes docs/reliability.md.

`make reliability` runs all of it, which takes about a quarter of an hour; the exit status is 1 if
an agent did not recover, or left a history that cannot be read.
"""

import argparse
import sys
from collections.abc import Sequence
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
    *("fault", "unanswered scrapes", "longest, ms", "all GPUs again after, s"),
    *("its GPUs lost, s", "others lost, s", "logged"),
)
_AREAS: Final = {
    "driver": "Driver and GPUs",
    "disk": "Disk",
    "process": "Process",
    "page": "Page and API",
    "network": "Servers that it speaks to",
}
_TICK_SECONDS: Final = 1.0


def main(arguments: Sequence[str]) -> int:
    """Attempt them; 1 if an agent did not recover."""
    asked = _parse(arguments)
    wanted = [each for each in FAULTS if asked.only in f"{each.area}: {each.name}"]
    with ThreadPoolExecutor(asked.at_once) as pool:
        outcomes = list(pool.map(attempt, wanted))
    text = "\n\n".join(
        f"### {title}\n\n{table(rows, _HEADINGS)}"
        for area, title in _AREAS.items()
        if (rows := [_row(each) for each in outcomes if each.fault.area == area])
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


def _row(outcome: Outcome) -> tuple[str, ...]:
    of_fault, of_others = outcome.lost_seconds
    recovered = outcome.recovered_seconds
    after = "never" if recovered is None else f"{recovered:.1f}"
    if recovered is not None and recovered < _TICK_SECONDS:
        after = "at once"
    return (
        outcome.fault.name,
        f"{outcome.unanswered} of {outcome.scrapes}",
        f"{outcome.longest_seconds * 1000:.0f}",
        after,
        _seconds(of_fault) if outcome.fault.gpus else "",
        _seconds(of_others),
        ", ".join(f"`{event}`" for event in outcome.warnings_logged),
    )


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
