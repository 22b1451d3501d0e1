"""Whether nvidia-smi's columns tell programs that memory limits from others that fill the GPU."""

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from evaluation.hardware.states import RECORDINGS, Recording
from evaluation.options import Options
from measured import table
from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.agent.replay import replay
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.units import nanoseconds
from rightsizer.model.window import Entry
from rightsizer.recordings.source import open_recording

_FOLDER: Final = Path(__file__).parent / "recordings"
_BOUND: Final = frozenset({"memory_stream", "decode"})
_OTHERS: Final = frozenset(
    {"bfloat16_product", "float32_product", "float64_product", "training_float32", "full_memory"}
)
"""Programs that arithmetic limits; of `training` a specialist accepts both answers."""
COLUMNS: Final[Mapping[str, Signal]] = {
    "memory controller": Signal.MEMORY_CONTROLLER_BUSY,
    "utilization": Signal.GPU_BUSY,
    "power": Signal.POWER,
}
_HOW: Final = """\
Programs that fill a GPU, in four logs each: two boards, by `--query-gpu` and by `dmon`. A column,
its direction and a threshold halfway between those that memory limits and the others are chosen by
the widest gap on all but one program, or on the other board, and asked of what was left out: no
line but the last was fitted to what it is asked of. The last is the product's second cause, of most
of the time.
"""


class Log(Struct, frozen=True):
    """Of one program on one board."""

    board: str
    program: str
    values: Mapping[str, float]
    """Median of each column."""
    is_suspected: bool
    """Whether memory is the second cause for most of the time."""

    @property
    def is_bound(self) -> bool:
        """Whether memory limits the program."""
        return self.program in _BOUND


class Threshold(Struct, frozen=True):
    """Of a column; `gap` is between the two kinds of programs, negative if they overlap."""

    gap: float
    column: str
    value: float
    is_above: bool
    """Whether memory limits what is above."""

    def is_right(self, log: Log) -> bool:
        """Whether it tells a log's program."""
        return (log.values[self.column] >= self.value) == (log.is_bound is self.is_above)


def fitted(logs: Collection[Log], columns: Collection[str]) -> Threshold:
    """Choose the column with the widest gap."""
    thresholds = []
    for column in columns:
        bound = [log.values[column] for log in logs if log.is_bound]
        others = [log.values[column] for log in logs if not log.is_bound]
        for low, high, is_above in ((others, bound, True), (bound, others, False)):
            gap = min(high) - max(low)
            thresholds.append(Threshold(gap, column, (min(high) + max(low)) / 2, is_above))
    return max(thresholds, key=lambda threshold: threshold.gap)


def evaluate(options: Options) -> Iterator[str]:
    """Lines of the tables."""
    del options
    yield _HOW
    logs = nvidia_smi_logs()
    parts: tuple[tuple[str, Callable[[Log], str]], ...] = (
        ("each program", lambda log: log.program),
        ("each board", lambda log: log.board),
    )
    choices = (tuple(COLUMNS), *((column,) for column in COLUMNS))
    rows = [_row(logs, name, part_of, columns) for name, part_of in parts for columns in choices]
    right = sum(log.is_suspected is log.is_bound for log in logs)
    limit = f"{ClassificationSettings().controller_bound_ratio:.2f}"
    rows.append(("nothing", "the product", limit, f"{right} of {len(logs)}"))
    yield table(rows, ("left out", "chosen among", "thresholds", "right"))
    yield "\nMedians of what is asked:\n"
    yield table(_program_rows(logs), ("program", "memory limits it", *COLUMNS))
    yield ""


def nvidia_smi_logs() -> Sequence[Log]:
    """Each program in each log."""
    return [
        log
        for recording in RECORDINGS
        if not recording.path.endswith(".jsonl.gz")
        for log in _logs(recording)
    ]


def _row(
    logs: Sequence[Log], name: str, part_of: Callable[[Log], str], columns: Collection[str]
) -> tuple[str, ...]:
    right = 0
    chosen = set()
    for part in sorted(set(map(part_of, logs))):
        threshold = fitted([log for log in logs if part_of(log) != part], columns)
        chosen.add(threshold.value)
        right += sum(threshold.is_right(log) for log in logs if part_of(log) == part)
    among = "all columns" if len(columns) > 1 else f"{next(iter(columns))} alone"
    thresholds = f"{min(chosen):.2f} to {max(chosen):.2f}"
    return name, among, thresholds, f"{right} of {len(logs)}"


def _program_rows(logs: Sequence[Log]) -> Iterator[tuple[str, ...]]:
    for program in sorted({log.program for log in logs}, key=lambda name: (name in _OTHERS, name)):
        own = [log for log in logs if log.program == program]
        cells = []
        for column in COLUMNS:
            values = [log.values[column] for log in own]
            cells.append(f"{min(values):.0%} to {max(values):.0%}")
        yield (program, "yes" if own[0].is_bound else "no", *cells)


def _logs(recording: Recording) -> Iterator[Log]:
    path = _FOLDER / recording.path
    board = recording.options[1] if recording.options else None
    entries: list[Entry] = []
    source = open_recording([path], catalogue=built_in(), board=board)
    replay(source, Settings(), sinks=[entries.append])
    with (path.parent / "labels.csv").open(newline="") as file:
        labels = {row["workload"]: row for row in csv.DictReader(file)}
    for program in sorted(_BOUND | _OTHERS):
        start = nanoseconds(float(labels[program]["start"]) + recording.settling_seconds)
        end = nanoseconds(float(labels[program]["end"]))
        own = [entry for entry in entries if entry.start >= start and entry.end <= end]
        yield Log(
            board=path.parent.name,
            program=program,
            values={
                column: median(entry.signals[signal] for entry in own)
                for column, signal in COLUMNS.items()
            },
            is_suspected=_is_suspected(own),
        )


def _is_suspected(entries: Sequence[Entry]) -> bool:
    suspected = sum(entry.second_cause is State.MEMORY_BANDWIDTH_BOUND for entry in entries)
    return suspected > len(entries) / 2
