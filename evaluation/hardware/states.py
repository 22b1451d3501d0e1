"""States of labeled workloads on real boards, by own recordings and by nvidia-smi's logs."""

import csv
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

from msgspec import Struct

from evaluation.hardware.workloads import WORKLOADS, Workload
from evaluation.options import Options
from measured import summarized
from rightsizer.cli.main import main
from rightsizer.model.state import State

_FOLDER: Final = Path(__file__).parent / "recordings"
_VAGUE: Final = frozenset({State.PRODUCTIVE, State.UNKNOWN})
"""They claim no limit."""
_MEAN: Final = "mean"
_HALF: Final = 0.5
_HOW: Final = """\
Programs of known bottleneck, 13 or 14 s each on an H100 and an H200 (`evaluation/hardware/`), by
`rightsizer record` and nvidia-smi's logs of the same seconds. Right: share of time in a state that
a specialist accepts; in parentheses the share that claims another limit. The rest is `productive`
(accepted for `training`, `full_memory` and starved programs) or `unknown`. The first seconds are
left out.
"""


class Recording(Struct, frozen=True):
    """A recording of the workloads."""

    title: str
    path: str
    """Within `recordings/`; labels are beside it."""
    settling_seconds: float
    """Time at the start of each workload that a reading mixes with the gap before."""
    options: Sequence[str] = ()


RECORDINGS: Final = (
    Recording("H100", "h100/second.jsonl.gz", 1.5),
    Recording("H200", "h200/second.jsonl.gz", 1.5),
    Recording("H100, ten a second", "h100/tenth.jsonl.gz", 0.3),
    Recording("H100, nvidia-smi", "h100/query.csv.gz", 2.5),
    Recording("H200, nvidia-smi", "h200/query.csv.gz", 2.5),
    Recording("H100, dmon", "h100/dmon.txt.gz", 2.5, ("--board", "H100-SXM5-80GB")),
    Recording("H200, dmon", "h200/dmon.txt.gz", 2.5, ("--board", "H200-SXM-141GB")),
)


class Score(Struct, frozen=True):
    """Share of a workload's time by verdict; the rest claims nothing."""

    right_ratio: float
    wrong_ratio: float
    has_conditions: bool
    """Whether each expected condition holds for most of the time."""


class _Row(Struct, frozen=True):
    start: float
    end: float
    state: State
    conditions: frozenset[str]


def evaluate(options: Options) -> Iterator[str]:
    """Lines of the table."""
    del options
    yield _HOW
    found = [scores(recording) for recording in RECORDINGS]
    header = ("workload", *(recording.title for recording in RECORDINGS))
    lines = [
        (workload.name, *(_cell(each.get(workload.name)) for each in found))
        for workload in WORKLOADS
        if workload.states
    ]
    means = (_MEAN, *(_mean(list(each.values())) for each in found))
    yield summarized([*lines, means], header, sums_up=lambda line: line[0] == _MEAN)
    yield "\nRight for less than half of the time:\n"
    for recording, scored in zip(RECORDINGS, found, strict=True):
        names = (name for name, each in scored.items() if each.right_ratio < _HALF)
        yield f"- {recording.title}: {', '.join(names) or 'none'}"
    yield ""


def scores(recording: Recording) -> Mapping[str, Score]:
    """Score of each workload with accepted states."""
    path = _FOLDER / recording.path
    rows = list(_timeline(path, recording.options))
    with (path.parent / "labels.csv").open(newline="") as file:
        labels = {
            row["workload"]: (float(row["start"]), float(row["end"]))
            for row in csv.DictReader(file)
        }
    return {
        workload.name: _score(workload, rows, start + recording.settling_seconds, end)
        for workload in WORKLOADS
        if workload.states and workload.name in labels
        for start, end in [labels[workload.name]]
    }


def _timeline(path: Path, options: Sequence[str]) -> Iterator[_Row]:
    with tempfile.TemporaryDirectory() as folder:
        timeline = Path(folder) / "timeline.csv"
        printed = StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            status = main(["replay", str(path), "--timeline", str(timeline), *options])
        if status:
            raise RuntimeError(f"{path}: replay ended with {status}: {printed.getvalue()}")
        with timeline.open(newline="") as file:
            for row in csv.DictReader(file):
                conditions = frozenset(row["conditions"].split())
                yield _Row(float(row["start"]), float(row["end"]), State(row["state"]), conditions)


def _score(workload: Workload, rows: Sequence[_Row], start: float, end: float) -> Score:
    seconds: defaultdict[State, float] = defaultdict(float)
    held: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        overlap = min(row.end, end) - max(row.start, start)
        if overlap > 0:
            seconds[row.state] += overlap
            for condition in row.conditions:
                held[condition] += overlap
    total = sum(seconds.values())
    right = sum(seconds[State(state)] for state in workload.states)
    vague = sum(seconds[state] for state in _VAGUE if state not in workload.states)
    return Score(
        right / total,
        (total - right - vague) / total,
        all(held[condition] > total / 2 for condition in workload.conditions),
    )


def _cell(score: Score | None) -> str:
    if score is None:
        return "not recorded"
    wrong = f" ({score.wrong_ratio:.0%})" if score.wrong_ratio >= 0.005 else ""
    return f"{score.right_ratio:.0%}{wrong}"


def _mean(found: Sequence[Score]) -> str:
    right = sum(each.right_ratio for each in found) / len(found)
    wrong = sum(each.wrong_ratio for each in found) / len(found)
    return f"{right:.0%} ({wrong:.1%})"
