"""Measures what Rightsizer costs, prints a list, and writes it into benchmarks/RESULTS.md.

`make bench` runs all of it, which takes about half an hour; the exit status is 1 if a figure is
above what was promised.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.options import Options
from measured import (
    Figure,
    as_rows,
    listed,
    machine,
    rewrite,
    rewrite_part,
    with_rows,
    without_rows,
)

DOCUMENT: Final = Path(__file__).with_name("RESULTS.md")
BENCHMARKS: Final[Sequence[tuple[str, str]]] = (
    ("The agent at 1 Hz on eight simulated H100", "agent_cost"),
    ("One tick, everything on", "tick_cost"),
    ("The host beside the GPUs", "host_cost"),
    ("A scrape", "scrape_cost"),
    ("Scrapes in a crowd", "scrape_crowd"),
    ("Rendering", "render_cost"),
    ("Accounting and history", "accounting_cost"),
    ("A history of fourteen days", "history_cost"),
    ("Killed under load", "kills"),
    ("An hour and a week", "soak_cost"),
    ("The recommender", "recommender_cost"),
    ("The fleet", "fleet_cost"),
    ("Recording rules", "rules_cost"),
    ("Replay", "replay_speed"),
    ("Profiles", "profile_speed"),
    ("Planning", "plan_speed"),
    ("Placement", "placement_speed"),
    ("Start of the command", "import_time"),
    ("Beside others, on the same simulated driver", "peers"),
)
"""Each title, and its module, which is loaded when it is asked for."""


def main(arguments: Sequence[str]) -> int:
    """Measure; 1 if a promise was not kept."""
    asked = _parse(arguments)
    options = Options(seconds=asked.seconds, replay_megabytes=asked.replay_megabytes)
    place = machine()
    print(f"Measured on: {place}.\n", flush=True)
    parts: dict[str, str] = {}
    broken: list[Figure] = []
    for title, module in BENCHMARKS:
        if asked.only.lower() not in title.lower():
            continue
        figures: list[Figure] = list(import_module(f"benchmarks.{module}").measure(options))
        parts[title] = f"{lists(figures)}\n"
        shown = with_rows if asked.rows else without_rows
        print(f"### {title}\n\n{shown(parts[title])}", flush=True)
        broken += [figure for figure in figures if not figure.is_met]
    if asked.dry or (asked.only and not asked.write):
        print(f"{DOCUMENT.name} stays as it is.")
    elif asked.only:
        for title, text in parts.items():
            rewrite_part("make bench", title, text, DOCUMENT, place=place)
    else:
        whole = (f"### {title}\n\n{text}" for title, text in parts.items())
        rewrite("make bench", "\n".join((f"Measured on: {place}.\n", *whole)), DOCUMENT)
    for figure in broken:
        print(f"not kept: {figure.what}", file=sys.stderr)
    return 1 if broken else 0


def lists(figures: Sequence[Figure]) -> str:
    """Figures that a reader decides by, and the others as rows."""
    others = [figure for figure in figures if figure.is_row and figure.is_met]
    shown = listed(figure for figure in figures if figure not in others)
    return f"{shown}\n{as_rows(listed(others))}" if others else shown


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the agent is watched")
    parser.add_argument(
        "--replay-megabytes", type=float, default=100.0, help="size of the log that is replayed"
    )
    parser.add_argument("--rows", action="store_true", help="print what the page leaves out")
    parser.add_argument("--only", default="", help="only titles with this in them; writes nothing")
    parser.add_argument(
        "--write", action="store_true", help="write what --only names, with its day"
    )
    parser.add_argument("--dry", action="store_true", help="write nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
