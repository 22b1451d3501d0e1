"""What every format is read into: rows, the facts of devices, and notes of what was skipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple

from rightsizer.model.reading import Missing, Process
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Holding

_NOTHING: Final[Mapping[Signal, Missing]] = {}


class RecordingRow(NamedTuple):
    """What one line of a file says of one device at one time."""

    time: Nanoseconds
    device: str
    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing] = _NOTHING
    stream: str = ""
    """What is read together at one cadence; of one file, and for some formats a part of it."""
    rank: int = 0
    """Of two streams that give the same signal at the same time, the higher rank is believed."""
    holdings: tuple[Holding, ...] | None = None
    """Who holds the device; `None` where the file does not say."""
    processes: tuple[Process, ...] | None = None


@dataclass(slots=True)
class RecordingDeviceFacts:
    """What a file says of a device once and for all; the first thing said is believed."""

    index: int | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    power_limit_watts: float | None = None
    memory_total_bytes: float | None = None
    memory_free_bytes: float | None = None
    memory_used_bytes: float | None = None
    memory_reserved_bytes: float | None = None
    sm_clock_maximum_hertz: float | None = None
    pcie_generation_maximum: int | None = None
    pcie_width_maximum: int | None = None
    parent_uuid: str | None = None
    mig_profile: str | None = None
    gpu_instance_id: int | None = None

    def learn(self, other: "RecordingDeviceFacts") -> None:
        """Take over what the other says and this one does not."""
        for fact in fields(self):
            if getattr(self, fact.name) is None:
                setattr(self, fact.name, getattr(other, fact.name))


@dataclass(slots=True)
class _NoteCount:
    count: int
    line: int
    example: str


@dataclass(slots=True)
class RecordingNotes:
    """What one pass over one file finds beside its rows."""

    file: str
    facts: dict[str, RecordingDeviceFacts] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """What had to be assumed, for a person."""
    tallies: dict[str, _NoteCount] = field(default_factory=dict)

    def learn(self, device: str, facts: RecordingDeviceFacts) -> None:
        """Add to what is known of a device."""
        self.facts.setdefault(device, RecordingDeviceFacts()).learn(facts)

    def remark(self, text: str) -> None:
        """Say something once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def count(self, what: str, line: int, example: str = "") -> None:
        """Count something that was skipped; the first one's line and text are kept."""
        tally = self.tallies.setdefault(what, _NoteCount(0, line, example))
        tally.count += 1

    def skip(self, number: int, line: str) -> None:
        """Count a line that has not the cells it should have."""
        if line.strip():
            what = "line of another length" if line.endswith("\n") else "torn last line"
            self.count(what, number, line.strip())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that a person should know of this pass, one line each."""
        skipped = (
            f"{self.file}:{tally.line}: {what}{_quoted(tally.example)}"
            + (f", the first of {tally.count}" if tally.count > 1 else "")
            for what, tally in self.tallies.items()
        )
        return (*(f"{self.file}: {remark}" for remark in self.remarks), *skipped)


def _quoted(example: str) -> str:
    return f": '{example[:60]}'" if example else ""
