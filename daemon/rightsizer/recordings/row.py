"""Rows of a recording, and their devices."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Struct

from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    BY_INDEX,
    Evidence,
    EvidenceKind,
    Holding,
    Missing,
    Nanoseconds,
    Process,
    ProcessKind,
    Signal,
)
from rightsizer.telemetry.device_description import DeviceDescription

_NOT_COUNTED: Final = "these readings are not accounted for"
NOTHING: Final[Mapping[Signal, Missing]] = {}
_SERVERS: Final = frozenset(
    {
        "x",
        "xorg",
        "xwayland",
        "gnome-shell",
        "kwin_x11",
        "kwin_wayland",
        "nvidia-cuda-mps-server",
        "nv-hostengine",
    }
)
"""Programs on all GPUs of a node that belong to no job."""
MESSAGE: Final = re.compile(
    r"NVIDIA-SMI (?:has failed|couldn't)|No devices were found|Failed to initialize NVML"
    r"|Field \".*not a valid|Unable to (?:determine|detect) the device|.*command not found"
    r"|.*nvidia-smi.*not recognized"
)
"""Output of nvidia-smi, or of a shell without it, in place of readings."""
_LOST: Final = re.compile(
    r"Unable to determine the device handle for (?:gpu )?(?:GPU)?\W*(?P<slot>[\dA-F:.]+)",
    re.IGNORECASE,
)
SUMMED: Final = -1
"""Rank of sums over processes, below any other stream."""


class RecordingRow(Struct, frozen=True):
    """Readings of one device at one time."""

    time: Nanoseconds
    device: str
    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing] = NOTHING
    stream: str = ""
    """Values read together at one cadence: a file, or for some formats a part of it."""
    rank: int = 0
    """Of two streams with the same signal and time, the higher rank wins."""
    holdings: tuple[Holding, ...] | None = None
    """Holders of the device; `None` if not recorded."""
    processes: tuple[Process, ...] | None = None


_KIND_BY_LETTERS: Final = {
    "G": ProcessKind.GRAPHICS,
    "C+G": ProcessKind.GRAPHICS,
    **dict.fromkeys(("M", "M+C"), ProcessKind.MPS),
}
"""By nvidia-smi's letters; desktop programs are of both kinds."""


def recorded_process(
    pid: str,
    memory_bytes: float | None = None,
    *,
    letters: str = "",
    program: str = "",
    gpu_busy: float | None = None,
) -> Process:
    """Return a process as logs write it; its kind by nvidia-smi's letters, else its program."""
    name = program.rpartition("/")[2].split(" ")[0]
    by_name = ProcessKind.GRAPHICS if name.lower() in _SERVERS else ProcessKind.COMPUTE
    kind = _KIND_BY_LETTERS.get(letters, by_name)
    return Process(int(pid), None if memory_bytes is None else int(memory_bytes), kind, gpu_busy)


class _Tally(NamedTuple):
    """Items of a kind, with line and text of the first."""

    times: int
    line: int
    example: str
    effect: str


@dataclass(slots=True)
class RecordingNotes:
    """Findings of one pass over one file, beside its rows."""

    file: str
    facts: dict[str, DeviceDescription] = field(default_factory=dict)
    remarks: dict[str, EvidenceKind] = field(default_factory=dict)
    tallies: dict[str, "_Tally"] = field(default_factory=dict)
    """Skipped or doubtful items by kind."""
    faults: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Number of errors in place of values by device and text, with the line of the first."""
    lost: set[str] = field(default_factory=set)
    """PCI slots of GPUs whose handle nvidia-smi could not get."""

    def of(self, device: str) -> DeviceDescription:
        """Return the facts of a device, to add more."""
        return self.facts.setdefault(device, DeviceDescription())

    def gpu(self, index: int, node: str = "") -> str:
        """Return the key of a GPU without a uuid, and note its index."""
        key = on_node(f"{BY_INDEX}{index}", node)
        self.of(key).index = index
        return key

    def remark(self, text: str, kind: EvidenceKind = EvidenceKind.ASSUMED) -> None:
        """Add a remark once."""
        self.remarks.setdefault(text, kind)

    def count(self, what: str, line: int, example: str = "", *, effect: str = _NOT_COUNTED) -> None:
        """Count a skipped or doubtful item; line and text of the first are kept."""
        tally = self.tallies.get(what) or _Tally(0, line, example, effect)
        self.tallies[what] = tally._replace(times=tally.times + 1)

    def fault(self, device: str, text: str, line: int) -> None:
        """Count an error in place of a device's values."""
        count, line = self.faults.get((device, text), (0, line))
        self.faults[device, text] = count + 1, line

    def skip(self, number: int, line: str) -> None:
        """Count a line with an unexpected number of cells."""
        if line.strip():
            what = "line of another length" if line.endswith("\n") else "torn last line"
            what = "error of nvidia-smi" if MESSAGE.match(line) else what
            if lost := _LOST.match(line):
                self.lost.add(lost["slot"].upper())
            self.count(what, number, line.strip())

    @property
    def evidence(self) -> Iterator[Evidence]:
        """All remarks, and skipped items by line."""
        for remark, kind in self.remarks.items():
            yield Evidence(kind, remark)
        for what, tally in sorted(self.tallies.items(), key=lambda item: item[1].line):
            example = f": '{tally.example[:60]}'" if tally.example else ""
            reason = f"line {tally.line}{example}"
            yield Evidence(EvidenceKind.DROPPED, what, reason, tally.times, tally.effect)

    def warnings(self, titles: Mapping[str, str]) -> tuple[str, ...]:
        """All remarks, then skipped items and faults of devices by line, one line each."""
        lined = {
            f"{self.file}:{tally.line}: {what}"
            + (f": '{tally.example[:60]}'" if tally.example else "")
            + (f", the first of {tally.times}" if tally.times > 1 else ""): tally.line
            for what, tally in self.tallies.items()
        }
        lined |= self.fault_texts(titles)
        return (
            *(f"{self.file}: {remark}" for remark in self.remarks),
            *sorted(lined, key=lined.__getitem__),
        )

    def fault_texts(self, titles: Mapping[str, str]) -> dict[str, int]:
        """Return errors in place of values with their lines; `titles` are those of devices."""
        return {
            f"{self.file}:{line}: {titles.get(uuid, uuid)} reports '{text}' in place of values, "
            f"{counted(count, 'time')}: it may need a reset": line
            for (uuid, text), (count, line) in self.faults.items()
        }


def on_node(device: str, node: str) -> str:
    """Return the key of a device: one known by its index alone is of its node."""
    index = device.removeprefix(BY_INDEX)
    return f"{node} GPU {index}" if node and index != device else device
