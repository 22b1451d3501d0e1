"""Every second's state against the generator's own label, beside the rules that others use."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from evaluation.options import Options
from evaluation.processes import in_processes
from evaluation.states.scenario_scores import judge
from evaluation.states.score_tables import (
    baselines,
    by_scenario,
    by_state,
    by_tier,
    conditions,
)
from evaluation.states.scores import Scores
from rightsizer.model.errors import RightsizerError

_SUFFIXES: Final = (".yaml", ".yml")
_HOW: Final = """\
Truth is the label of the generator's phase. Generator and classifier share boards, signals and
their authors' idea of what limits a kernel: a score of 1 means that this idea is consistent, not
that it is true. Each seed changes kernels by an eighth, and the length of phases and what busy
kernels leave unused by a third.

Disturbed: counters lag by up to 3 s, gains are off by 4% (power 2%) with as much noise, the memory
controller shows part of the traffic, one value in 50 and one reading in 100 is missing, clocks
jitter by a tenth of the interval. DCGM's counters replace GPM where a board has none.
"""

Run = tuple[Path, int]
Result = Scores | str
"""Or why there is none."""


def evaluate(options: Options) -> Iterator[str]:
    """Scores by tier, by state, by condition and by scenario, and those of the baselines."""
    files, skipped = _files(options.scenarios)
    runs = [(file, seed) for file in files for seed in options.all_seeds]
    by_file: dict[Path, Scores] = {}
    reasons: dict[Path, str] = {}
    work = partial(_judged, tick_seconds=options.tick_seconds, is_varied=options.are_varied)
    for (file, _), process in zip(runs, in_processes(work, runs), strict=True):
        if isinstance(process, Scores):
            by_file.setdefault(file, Scores()).merge(process)
        else:
            reasons[file] = process
    yield _what_was_scored(len(by_file), options)
    skipped += [_named(file, reason) for file, reason in reasons.items()]
    yield from (f"Skipped {reason}\n" for reason in skipped)
    if not by_file:
        yield f"There is no scenario in {options.scenarios} to score.\n"
        return
    yield _HOW
    total = Scores.total(by_file.values())
    for part in (by_tier, baselines, by_state, conditions):
        yield from part(total)
    yield from by_scenario({file.stem: scores for file, scores in by_file.items()})


def _files(folder: Path) -> tuple[list[Path], list[str]]:
    """The scenario files of a folder, and what else is in it."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = [entry for entry in entries if entry.is_file() and entry.suffix in _SUFFIXES]
    others = [entry for entry in entries if entry not in files]
    return files, [
        f"{other.name}: no scenario; the names of those end in .yaml" for other in others
    ]


def _judged(run: Run, *, tick_seconds: float, is_varied: bool) -> Result:
    path, seed = run
    try:
        return judge(path, seed, tick_seconds, is_varied=is_varied)
    except RightsizerError as error:
        return str(error)


def _named(file: Path, reason: str) -> str:
    """Most reasons begin with the place in the file."""
    return reason if reason.startswith(file.name) else f"{file.name}: {reason}"


def _what_was_scored(count: int, options: Options) -> str:
    seeds = options.all_seeds
    return (
        f"{count} scenario{'' if count == 1 else 's'}, seeds {seeds[0]} to {seeds[-1]} of each, "
        f"one day each, a reading every {options.tick_seconds} s.\n"
    )
