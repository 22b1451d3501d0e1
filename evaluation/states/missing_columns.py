"""States of logs that lack columns, against the label: nothing is claimed that is left unseen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from evaluation.options import Options
from evaluation.processes import in_processes
from evaluation.simulated_day import simulated_ticks
from measured import summarized
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State

_SMI: Final = (
    Signal.GPU_BUSY,
    Signal.MEMORY_CONTROLLER_BUSY,
    Signal.MEMORY_USED,
    Signal.MEMORY_USED_BYTES,
    Signal.MEMORY_TOTAL_BYTES,
    Signal.POWER_WATTS,
    Signal.POWER_LIMIT_WATTS,
    Signal.SM_CLOCK_HERTZ,
    Signal.SM_CLOCK_MAXIMUM_HERTZ,
    Signal.TEMPERATURE_CELSIUS,
    Signal.CLOCK_EVENT_REASONS,
)
"""What `nvidia-smi --query-gpu` has."""
_DCGM: Final = (
    *_SMI,
    Signal.SM_ACTIVE,
    Signal.SM_OCCUPANCY,
    Signal.TENSOR_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.FP16_ACTIVE,
    Signal.FP64_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.ENERGY_JOULES,
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
)
"""What `dcgmi dmon` has with profiling."""
_TOGETHER: Final = {
    "memory": (Signal.MEMORY_USED, Signal.MEMORY_USED_BYTES, Signal.MEMORY_TOTAL_BYTES),
    "power": (Signal.POWER_WATTS, Signal.ENERGY_JOULES),
    "the power limit": (Signal.POWER_LIMIT_WATTS,),
    "clocks": (Signal.SM_CLOCK_HERTZ, Signal.SM_CLOCK_MAXIMUM_HERTZ),
    "utilization": (Signal.GPU_BUSY,),
    "the memory controller": (Signal.MEMORY_CONTROLLER_BUSY,),
    "SM activity": (Signal.SM_ACTIVE,),
    "SM occupancy": (Signal.SM_OCCUPANCY,),
    "tensor pipes": (Signal.TENSOR_ACTIVE,),
    "vector pipes": (Signal.FP32_ACTIVE, Signal.FP16_ACTIVE, Signal.FP64_ACTIVE),
    "memory bandwidth": (Signal.DRAM_ACTIVE,),
    "PCIe": (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, Signal.PCIE_TRANSMIT_BYTES_PER_SECOND),
}
COLUMNS: Final[Mapping[str, tuple[Signal, ...]]] = {
    "nvidia-smi": _SMI,
    **{
        f"nvidia-smi without {name}": tuple(each for each in _SMI if each not in out)
        for name, out in _TOGETHER.items()
        if set(out) & set(_SMI)
    },
    "dcgmi dmon": _DCGM,
    **{
        f"dcgmi dmon without {name}": tuple(each for each in _DCGM if each not in out)
        for name, out in _TOGETHER.items()
    },
    "utilization alone": (Signal.GPU_BUSY,),
    "power alone": (Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS),
    "memory alone": _TOGETHER["memory"],
}
_WITHOUT: Final = " without "
_VAGUE: Final = frozenset({State.UNKNOWN, State.PRODUCTIVE})
"""`productive` claims that it is at work, and no limit."""
_HOW: Final = """\
The labeled scenarios as logs without owners that lack columns. Named: share of the time at work or
at rest with a state that says more than that the GPU is at work. Right: share of that time with the
label's state; held and empty count as one in a log without memory.
"""
_HEADINGS: Final = ("columns", "named", "right", "mostly taken for another")


@dataclass
class ColumnScore:
    """Of one set of columns; times in nanoseconds."""

    total: int = 0
    named: int = 0
    wrong: Counter[tuple[State, State]] = field(default_factory=Counter)
    """By the label and the state that was claimed."""

    def add(
        self, label: State, claimed: State, duration: int, *, may_be_held: bool = False
    ) -> None:
        """Count an interval; `may_be_held`: the log cannot tell empty from held."""
        self.total += duration
        if claimed in _VAGUE and not (claimed is State.PRODUCTIVE and _rests(label)):
            return
        self.named += duration
        if claimed is not label and not (may_be_held and _rests(claimed) and _rests(label)):
            self.wrong[label, claimed] += duration

    def merge(self, other: "ColumnScore") -> None:
        """Add another scenario's."""
        self.total += other.total
        self.named += other.named
        self.wrong.update(other.wrong)

    def row(self, name: str) -> tuple[str, ...]:
        """A line of the table."""
        wrong = sum(self.wrong.values())
        most = ", ".join(
            f"{label} for {claimed} ({time / self.total:.1%})"
            for (label, claimed), time in self.wrong.most_common(1)
            if time > 0.001 * self.total
        )
        right = 1 - wrong / self.named if self.named else None
        named = self.named / self.total if self.total else 0.0
        return name, f"{named:.1%}", "" if right is None else f"{right:.3f}", most


def _rests(label: State) -> bool:
    return label in {State.IDLE_EMPTY, State.IDLE_HELD}


def evaluate(options: Options) -> Iterator[str]:
    """A row for each set of columns."""
    total = {name: ColumnScore() for name in COLUMNS}
    files = sorted(options.scenarios.glob("*.yaml"))
    work = partial(
        _scores,
        seed=options.first_seed,
        tick_seconds=options.tick_seconds,
        is_varied=options.are_varied,
    )
    for process in in_processes(work, files):
        for name, score in process.items():
            total[name].merge(score)
    yield _HOW
    lines = together(score.row(name) for name, score in total.items())
    yield summarized(lines, _HEADINGS, sums_up=is_whole_log)
    yield ""


def is_whole_log(line: Sequence[str]) -> bool:
    """Whether a row is of a log that lacks nothing which matters."""
    return _WITHOUT not in line[0].partition(";")[0]


def together(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Rows of one log with equal results as one, which names all columns that were left out."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in rows:
        log, _, left_out = name.partition(_WITHOUT)
        groups.setdefault((log, *cells), []).append(left_out)
    for (log, *results), names in groups.items():
        first, *others = names
        name = f"{log}{_WITHOUT}{first}" if first else log
        also = f"; or{_WITHOUT}{', '.join(others)}" if others else ""
        yield name + also, *results


def _scores(
    file: Path, seed: int, tick_seconds: float, *, is_varied: bool
) -> dict[str, ColumnScore]:
    scores = {name: ColumnScore() for name in COLUMNS}
    builders = {name: EntryBuilder() for name in COLUMNS}
    for tick in simulated_ticks(file, seed, tick_seconds, is_varied=is_varied):
        for name, columns in COLUMNS.items():
            for entry in builders[name].post(log_of(tick.snapshot, columns)):
                label = tick.truths.get(entry.uuid)
                if label is not None and label[0] is not State.UNKNOWN:
                    scores[name].add(
                        label[0],
                        entry.state,
                        entry.duration,
                        may_be_held=may_be_held(columns),
                    )
    return scores


def may_be_held(columns: tuple[Signal, ...]) -> bool:
    """Whether a log of the columns cannot tell empty from held."""
    return set(columns).isdisjoint(_TOGETHER["memory"])


def log_of(
    snapshot: Snapshot, columns: tuple[Signal, ...], *, keeps_owners: bool = False
) -> Snapshot:
    """Snapshot reduced to the columns of a log."""
    readings = {
        uuid: Reading(
            uuid,
            reading.time,
            {signal: reading.values[signal] for signal in columns if signal in reading.values},
        )
        for uuid, reading in snapshot.readings.items()
    }
    holdings = snapshot.holdings if keeps_owners else {}
    return replace(snapshot, readings=readings, holdings=holdings, host={})
