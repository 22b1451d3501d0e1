"""Measures how often Rightsizer is right, prints the scores, writes them into docs/benchmarks.md.

`make eval` runs all of it, which takes a few minutes. With RIGHTSIZER_TRUTH=DIR recordings of
production are replayed too. `make eval SCENARIOS=DIR` scores the scenarios of another folder, and
nothing else.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluation import (
    alibaba,
    autoscale_replay,
    broker,
    dcgm,
    findings,
    fleet,
    idle_replay,
    long_run,
    memory,
    mig,
    missing_columns,
    profiles,
    projection,
    quantiles,
    ratios,
    recorded_jobs,
    serving,
    sizing_replay,
    states,
    training_truth,
)
from evaluation.options import Options
from measured import DOCUMENT, machine, rewrite

Evaluation = Callable[[Options], Iterable[str]]


def _recorded(folder: str, evaluate: Callable[[Path], Iterable[str]]) -> Evaluation:
    """An evaluation of a recording that is not part of the repository."""

    def evaluate_or_say(options: Options) -> Iterable[str]:
        if options.truth is None:
            return [f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{folder}`.\n"]
        if not (options.truth / folder).is_dir():
            return [f"Skipped: RIGHTSIZER_TRUTH has no folder `{folder}`.\n"]
        return evaluate(options.truth / folder)

    return evaluate_or_say


LABELED: Final = "States of labeled scenarios"
EVALUATIONS: Final[Sequence[tuple[str, Evaluation]]] = (
    (LABELED, states.evaluate),
    ("States of logs that lack columns", missing_columns.evaluate),
    ("Quantiles from buckets", quantiles.evaluate),
    ("Jobs inferred of logs without owners", recorded_jobs.evaluate),
    ("Advice on simulated nodes", findings.evaluate),
    ("Thirty days of advice", long_run.evaluate),
    ("A production trace, per pod", _recorded("alibaba_genai_2026", alibaba.evaluate)),
    ("Sizing by rolling replay", _recorded("alibaba_genai_2026", sizing_replay.evaluate)),
    ("Idle windows of a production fleet", _recorded("alibaba_genai_2026", idle_replay.evaluate)),
    (
        "Autoscaling of a production fleet",
        _recorded("alibaba_genai_2026", autoscale_replay.evaluate),
    ),
    ("Pages of dcgm-exporter", _recorded("dcgm_samples", dcgm.evaluate)),
    ("Memory estimates", memory.evaluate),
    ("Serving", serving.evaluate),
    ("Training", training_truth.evaluate),
    ("Ratios between boards", ratios.evaluate),
    ("MIG slices", mig.evaluate),
    ("Projection of profiles", projection.evaluate),
    ("The fleet, in real stores", fleet.evaluate),
    ("Profilers' files against their raw events", profiles.evaluate),
    ("The node broker", broker.evaluate),
)


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
    place = f"Measured on: {machine()}.\n"
    print(place, flush=True)
    parts = [place]
    for title, evaluate in EVALUATIONS:
        if only.lower() not in title.lower():
            continue
        part = "\n".join([f"### {title}\n", *evaluate(options)])
        print(part, flush=True)
        parts.append(part)
    if only or asked.dry:
        print(f"{DOCUMENT.name} stays as it is.")
    else:
        rewrite("make eval", "\n".join(parts))
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
    parser.add_argument("--only", default="", help="only titles with this in them; writes nothing")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
