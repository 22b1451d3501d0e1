"""Rows of a recording, and their devices."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, completed, mig_instance
from rightsizer.model.device import BY_INDEX, Device
from rightsizer.model.reading import Missing, Process, ProcessKind, count_computing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Holding

_NOTHING: Final[Mapping[Signal, Missing]] = {}
_PROFILE: Final = re.compile(r"\s+MIG\s+(\d+(?:c\.\d+)?g\.\d+gb\S*)", re.IGNORECASE)
_SERVERS: Final = frozenset(
    {
        *("x", "xorg", "xwayland", "gnome-shell", "kwin_x11", "kwin_wayland"),
        *("nvidia-cuda-mps-server", "nv-hostengine"),
    }
)
"""Programs on all GPUs of a node that belong to no job."""
_AS_RECORDED: Final = (
    *("pci_bus_id", "numa_node", "power_limit_watts", "sm_clock_maximum_hertz"),
    *("pcie_generation_maximum", "pcie_width_maximum"),
)
"""Facts that equal fields of a device."""


MESSAGE: Final = re.compile(
    r"NVIDIA-SMI (?:has failed|couldn't)|No devices were found|Failed to initialize NVML"
    r"|Field \".*not a valid|Unable to (?:determine|detect) the device|.*command not found"
    r"|.*nvidia-smi.*not recognized"
)
"""Output of nvidia-smi, or of a shell without it, in place of readings."""
SUMMED: Final = -1
"""Rank of sums over processes, below any other stream."""


class RecordingRow(NamedTuple):
    """Readings of one device at one time."""

    time: Nanoseconds
    device: str
    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing] = _NOTHING
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
    mebibytes: str = "",
    *,
    letters: str = "",
    program: str = "",
    gpu_busy: float | None = None,
) -> Process:
    """Return a process as logs write it; its kind by nvidia-smi's letters, else its program."""
    name = program.rpartition("/")[2].split(" ")[0]
    by_name = ProcessKind.GRAPHICS if name.lower() in _SERVERS else ProcessKind.COMPUTE
    size = mebibytes.removesuffix("MiB").strip()
    return Process(
        int(pid),
        int(size) << 20 if size.isdecimal() else None,
        _KIND_BY_LETTERS.get(letters, by_name),
        gpu_busy,
    )


class ProcessRowBuilder:
    """Combines lines of one process each into rows of their devices."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._key: tuple[Nanoseconds, str] | None = None
        self._processes: list[Process] = []
        self.tells_shares = False
        """Whether every process has a share of time, idle ones included."""

    def add(
        self, time: Nanoseconds, device: str, process: Process | None
    ) -> Iterator[RecordingRow]:
        """Add a line, also of a device without processes; yield the previous row if complete."""
        if (time, device) != self._key:
            yield from self.finish()
            self._key = time, device
        if process is not None:
            self._processes.append(process)

    def finish(self) -> Iterator[RecordingRow]:
        """Yield the last row."""
        if self._key is not None:
            yield self._row(*self._key)
        self._key, self._processes = None, []

    def _row(self, time: Nanoseconds, device: str) -> RecordingRow:
        found = tuple(self._processes)
        values = {Signal.PROCESS_COUNT: float(count_computing(found))}
        sizes = [each.memory_used_bytes for each in found if each.memory_used_bytes is not None]
        if self.tells_shares:
            values[Signal.GPU_BUSY] = min(1.0, sum(each.gpu_busy or 0.0 for each in found))
        if sizes and len(sizes) == len(found):
            values[Signal.MEMORY_USED_BYTES] = float(sum(sizes))
        return RecordingRow(time, device, values, stream=self._stream, rank=SUMMED, processes=found)


@dataclass(slots=True)
class RecordingDeviceFacts:
    """Constant facts of a device in a file; the first value wins."""

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
    sizes: dict[str, tuple[Nanoseconds, float]] = field(default_factory=dict)
    """Of parts of memory: negative time, and bytes."""

    def learn_size(self, part: str, size: float, time: Nanoseconds) -> None:
        """Keep the size of a part of memory at the earliest time, of several then the largest."""
        self.sizes[part] = max((-time, size), self.sizes.get(part, (-time, size)))
        setattr(self, part, self.sizes[part][1])

    def learn(self, other: "RecordingDeviceFacts") -> None:
        """Add the other's facts that are missing here."""
        for fact in fields(self):
            if getattr(self, fact.name) is None:
                setattr(self, fact.name, getattr(other, fact.name))


@dataclass(slots=True)
class RecordingNotes:
    """Findings of one pass over one file, beside its rows."""

    file: str
    facts: dict[str, RecordingDeviceFacts] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    tallies: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Number of skipped items by kind, with line and text of the first."""

    def learn(self, device: str, facts: RecordingDeviceFacts) -> None:
        """Add facts of a device."""
        self.of(device).learn(facts)

    def of(self, device: str) -> RecordingDeviceFacts:
        """Return the facts of a device, to add more."""
        return self.facts.setdefault(device, RecordingDeviceFacts())

    def gpu(self, index: int, node: str = "") -> str:
        """Return the key of a GPU without a uuid, and note its index."""
        key = on_node(f"{BY_INDEX}{index}", node)
        self.of(key).index = index
        return key

    def remark(self, text: str) -> None:
        """Add a remark once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def count(self, what: str, line: int, example: str = "") -> None:
        """Count a skipped item; line and text of the first are kept."""
        count, line, example = self.tallies.get(what, (0, line, example))
        self.tallies[what] = count + 1, line, example

    def skip(self, number: int, line: str) -> None:
        """Count a line with an unexpected number of cells."""
        if line.strip():
            what = "line of another length" if line.endswith("\n") else "torn last line"
            what = "error of nvidia-smi" if MESSAGE.match(line) else what
            self.count(what, number, line.strip())

    @property
    def warnings(self) -> tuple[str, ...]:
        """All remarks and skipped items, one line each."""
        skipped = (
            f"{self.file}:{line}: {what}"
            + (f": '{example[:60]}'" if example else "")
            + (f", the first of {count}" if count > 1 else "")
            for what, (count, line, example) in self.tallies.items()
        )
        return (*(f"{self.file}: {remark}" for remark in self.remarks), *skipped)


def on_node(device: str, node: str) -> str:
    """Return the key of a device: one known by its index alone is of its node."""
    index = device.removeprefix(BY_INDEX)
    return f"{node} GPU {index}" if node and index != device else device


def mig_profile(name: str | None) -> str | None:
    """Return the profile in a name like `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""
    found = _PROFILE.search(name or "")
    return found[1] if found else None


def build_devices(
    facts: Mapping[str, RecordingDeviceFacts], catalogue: Catalogue, board: str | None = None
) -> tuple[Device, ...]:
    """Return the devices by index, then by appearance.

    `board` is for devices whose name is unknown or not recorded.

    Raises:
        UsageError: the catalogue has no such board.
    """
    given = None if board is None else catalogue.get(board)
    _adopt(facts)
    parents = {fact.parent_uuid for fact in facts.values() if fact.parent_uuid}
    order = {uuid: at for at, uuid in enumerate(facts)}
    used = {fact.index for fact in facts.values() if fact.index is not None}
    free = (index for index in range(2 * len(facts) + 1) if index not in used)
    built = []
    for uuid, fact in facts.items():
        index = next(free) if fact.index is None else fact.index
        # Remove the instance's part of the name.
        whole = None if fact.name is None else _PROFILE.sub("", fact.name)
        found = None if whole is None else catalogue.find(whole)
        device = _build(uuid, index, fact, found or given)
        built.append(replace(device, has_mig_instances=uuid in parents))
    return tuple(sorted(built, key=lambda device: (device.index, order[device.uuid])))


def _adopt(facts: Mapping[str, RecordingDeviceFacts]) -> None:
    """Assign instances to the GPU in the same slot."""
    wholes = {
        fact.pci_bus_id: uuid
        for uuid, fact in facts.items()
        if fact.mig_profile is None and fact.pci_bus_id is not None
    }
    for fact in facts.values():
        if fact.mig_profile is not None and fact.parent_uuid is None and fact.pci_bus_id:
            fact.parent_uuid = wholes.get(fact.pci_bus_id)


def _build(uuid: str, index: int, facts: RecordingDeviceFacts, board: Board | None) -> Device:
    memory, profile = facts.memory_total_bytes, facts.mig_profile or mig_profile(facts.name)
    free, used = facts.memory_free_bytes, facts.memory_used_bytes
    if memory is None and free is not None and used is not None:
        memory = free + used + (facts.memory_reserved_bytes or 0.0) or None
    mig, is_part = None, profile is not None or facts.gpu_instance_id is not None
    if profile is not None and board is not None:
        mig = mig_instance(board, profile, facts.parent_uuid or "", facts.gpu_instance_id or 0)
    device = Device(
        uuid=uuid,
        index=index,
        has_index=facts.index is not None,
        name=facts.name or ("" if board is None else board.usual_name),
        mig=mig,
        memory_total_bytes=memory,
        **{name: getattr(facts, name) for name in _AS_RECORDED},
    )
    # Of a part of unknown size, the board's figures are not its own.
    return device if board is None or (is_part and mig is None) else completed(device, board)
