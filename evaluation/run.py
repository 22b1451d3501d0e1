"""Measures how often Rightsizer is right; writes the scores to evaluation/RESULTS.md.

`make eval` runs all of it, which takes a few minutes. With RIGHTSIZER_TRUTH=DIR recordings of
production are replayed too. `make eval SCENARIOS=DIR` scores the scenarios of another folder, and
nothing else.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluation.options import Options
from measured import machine, rewrite, rewrite_part, with_rows, without_rows
from rightsizer.model.units import format_duration

DOCUMENT: Final = Path(__file__).with_name("RESULTS.md")
LABELED: Final = "States of labeled scenarios"
EVALUATIONS: Final[Sequence[tuple[str, str, str]]] = (
    (LABELED, "states.labeled", ""),
    ("States of labeled workloads on real boards", "hardware.states", ""),
    ("Memory limits of logs", "hardware.memory_bound", ""),
    ("States of logs that lack columns", "states.missing_columns", ""),
    ("Logs in the shapes that people write", "states.wild_logs", ""),
    ("Stalls and culprits of logs", "states.log_rates", ""),
    ("Quantiles from buckets", "states.quantiles", ""),
    ("Jobs inferred of logs without owners", "states.recorded_jobs", ""),
    ("Advice on simulated nodes", "advice.findings", ""),
    ("Thirty days of advice", "advice.long_run", ""),
    ("A production trace, per pod", "traces.alibaba", "alibaba_genai_2026"),
    ("Sizing by rolling replay", "traces.sizing_replay", "alibaba_genai_2026"),
    ("Idle windows of a production fleet", "traces.idle_replay", "alibaba_genai_2026"),
    ("Autoscaling of a production fleet", "traces.autoscale_replay", "alibaba_genai_2026"),
    ("Pages of dcgm-exporter", "traces.dcgm", "dcgm_samples"),
    ("Memory estimates", "sizing.memory", ""),
    ("Serving", "sizing.serving", ""),
    ("Engines that run", "sizing.served", ""),
    ("Training", "sizing.training", ""),
    ("Image networks in PyTorch", "sizing.vision", "."),
    ("Questions whose answers contradict each other", "sizing.plan_questions", ""),
    ("Ratios between boards", "sizing.ratios", ""),
    ("Published figures that nothing was fitted to", "sizing.unfitted", ""),
    ("MIG slices", "sizing.mig", ""),
    ("Projection of profiles", "sizing.projection", ""),
    ("The fleet, in real stores", "fleet.estate", ""),
    ("Faults planted in a fleet of exporters", "fleet.faults", ""),
    ("Models that a fleet serves", "fleet.served", ""),
    ("Profilers' files against their raw events", "profiles.breakdowns", ""),
    ("The node broker", "broker.shares", ""),
)
"""Each title, its module, which is loaded when it is asked for, and the recording that it needs."""


def _lines_of(module: str, folder: str, options: Options) -> Iterable[str]:
    """Lines of an evaluation; of an absent recording a note that it was skipped."""
    about: Options | Path = options
    if folder:
        if options.truth is None:
            return [f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{folder}`.\n"]
        about = options.truth / folder
        if not about.is_dir():
            return [f"Skipped: RIGHTSIZER_TRUTH has no folder `{folder}`.\n"]
    lines: Iterable[str] = import_module(f"evaluation.{module}").evaluate(about)
    return lines


def main(arguments: Sequence[str]) -> int:
    """Evaluate; scores are reported, not judged."""
    asked = _parse(arguments)
    options = Options(
        seeds=asked.seeds,
        first_seed=asked.first_seed,
        tick_seconds=asked.tick_seconds,
        scenarios=asked.scenarios or Options().scenarios,
    )
    only = asked.only or (LABELED if asked.scenarios else "")
    place = machine()
    print(f"Measured on: {place}.\n", flush=True)
    parts: dict[str, str] = {}
    chosen = [evaluation for evaluation in EVALUATIONS if only.lower() in evaluation[0].lower()]
    began = time.monotonic()
    for number, (title, module, folder) in enumerate(chosen, 1):
        passed = format_duration(round(time.monotonic() - began))
        if sys.stderr.isatty():
            print(f"[{number}/{len(chosen)}, {passed}] {title} ...", file=sys.stderr, flush=True)
        parts[title] = "\n".join(_lines_of(module, folder, options))
        shown = with_rows if asked.rows else without_rows
        print(f"### {title}\n\n{shown(parts[title])}", flush=True)
        if only and asked.write:
            rewrite_part("make eval", title, parts[title], DOCUMENT, place=place)
    if not only and not asked.dry:
        whole = (f"### {title}\n\n{text}" for title, text in parts.items())
        rewrite("make eval", "\n".join((f"Measured on: {place}.\n", *whole)), DOCUMENT)
    elif not asked.write:
        print(f"{DOCUMENT.name} stays as it is.")
    return 0


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is less than 1")
    return count


def _folder(text: str) -> Path:
    folder = Path(text)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder '{text}'; name one with scenarios")
    return folder


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    default = Options()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=_count, default=default.seeds, help="of each scenario")
    parser.add_argument(
        "--first-seed",
        type=int,
        default=default.first_seed,
        help="tune on those below 1000, score on the rest",
    )
    parser.add_argument(
        "--scenarios", type=_folder, help="a folder of scenario files; scores these alone"
    )
    parser.add_argument(
        "--tick-seconds",
        type=_count,
        default=default.tick_seconds,
        help="simulated time between two readings",
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
