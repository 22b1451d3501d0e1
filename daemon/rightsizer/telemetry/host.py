"""What the host does beside its GPUs: CPU use and pressure, of the node and of one owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock

__all__ = ["Host", "ProcHost"]


class Host(Protocol):
    """Knows how the host fares; signals that it cannot tell are left out."""

    def node(self) -> Mapping[Signal, float]:
        """The whole node's signals."""

    def owner(self, pids: Sequence[int]) -> Mapping[Signal, float]:
        """The signals of the control group that the first process runs in; none for the root."""


_PRESSURES: Final = {
    Signal.CPU_PRESSURE: "cpu",
    Signal.IO_PRESSURE: "io",
    Signal.MEMORY_PRESSURE: "memory",
}
_MICROSECOND: Final = 1000
_IDLE_FIELDS: Final = (3, 4)  # idle and iowait: nobody used the CPU.
_GUEST_FIELD: Final = 8  # From here on the time is already counted as user time.


@dataclass(frozen=True, slots=True)
class _Counter:
    """Something that only grows, beside what it could have grown by."""

    used: float
    available: float
    first: float | None = None
    """The kernel's own recent mean, for when there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """The last look at one control group or the node."""

    time: Nanoseconds
    counters: Mapping[Signal, _Counter]
    ratios: Mapping[Signal, float]


class ProcHost:
    """Reads procfs and control groups of version 2; what is not there is left out."""

    def __init__(
        self,
        procfs: Path,
        cgroups: Path,
        clock: Clock,
        *,
        shortest_seconds: float = 0.2,
    ) -> None:
        """Looks closer together than `shortest_seconds` share one answer."""
        self._procfs = procfs
        self._cgroups = cgroups
        self._clock = clock
        self._shortest = nanoseconds(shortest_seconds)
        self._node: _Measured | None = None
        self._groups: dict[str, _Measured] = {}

    def node(self) -> Mapping[Signal, float]:
        """The node's CPU use and pressures since the last look."""
        now = self._clock.time()
        if self._node is None or now - self._node.time >= self._shortest:
            counters = _pressures(self._procfs / "pressure", "", now) | _node_cpu(self._procfs)
            self._node = _measure(self._node, now, counters)
        return self._node.ratios

    def owner(self, pids: Sequence[int]) -> Mapping[Signal, float]:
        """The first process's control group since the last look at it."""
        path = self._group_of(pids[0]) if pids else None
        if path is None:
            return {}
        now = self._clock.time()
        last = self._groups.get(path)
        if last is None or now - last.time >= self._shortest:
            folder = self._cgroups / path
            counters = _pressures(folder, ".pressure", now) | _group_cpu(folder, now)
            if last is None:
                self._forget(now)
            last = self._groups[path] = _measure(last, now, counters)
        return last.ratios

    def _group_of(self, pid: int) -> str | None:
        text = _text(self._procfs / str(pid) / "cgroup")
        for line in text.splitlines():
            if line.startswith("0::/"):
                path = line.removeprefix("0::").strip("/")
                # Outside of our own control group namespace, the path leads nowhere.
                return path if path and ".." not in path.split("/") else None
        return None

    def _forget(self, now: Nanoseconds) -> None:
        """Drop groups that nobody has looked at for as long as a minute."""
        since = now - nanoseconds(60)
        self._groups = {path: last for path, last in self._groups.items() if last.time >= since}


def _measure(
    last: _Measured | None, now: Nanoseconds, counters: Mapping[Signal, _Counter]
) -> _Measured:
    ratios: dict[Signal, float] = {}
    for signal, counter in counters.items():
        before = last.counters.get(signal) if last else None
        if before is None:
            if counter.first is not None:
                ratios[signal] = min(1.0, counter.first)
        elif counter.available > before.available and counter.used >= before.used:
            share = (counter.used - before.used) / (counter.available - before.available)
            ratios[signal] = min(1.0, share)
    return _Measured(now, counters, ratios)


def _pressures(folder: Path, suffix: str, now: Nanoseconds) -> dict[Signal, _Counter]:
    """Pressure stall information: for how long some task waited, in microseconds."""
    counters: dict[Signal, _Counter] = {}
    for signal, name in _PRESSURES.items():
        first_line = _text(folder / f"{name}{suffix}").partition("\n")[0]
        fields = dict(field.partition("=")[::2] for field in first_line.split()[1:])
        try:
            waited = int(fields["total"]) * _MICROSECOND
            recent = float(fields["avg10"]) / 100
        except (KeyError, ValueError):
            continue
        counters[signal] = _Counter(waited, now, recent)
    return counters


def _node_cpu(procfs: Path) -> dict[Signal, _Counter]:
    fields = _text(procfs / "stat").partition("\n")[0].split()[1:]
    try:
        ticks = [int(field) for field in fields[:_GUEST_FIELD]]
    except ValueError:
        return {}
    if len(ticks) <= max(_IDLE_FIELDS):
        return {}
    idle = sum(ticks[field] for field in _IDLE_FIELDS)
    return {Signal.CPU: _Counter(sum(ticks) - idle, sum(ticks))}


def _group_cpu(folder: Path, now: Nanoseconds) -> dict[Signal, _Counter]:
    """CPU time against the group's quota, or against the CPUs that it may run on."""
    statistics = dict(line.partition(" ")[::2] for line in _text(folder / "cpu.stat").splitlines())
    cores = _quota(_text(folder / "cpu.max")) or _count(_text(folder / "cpuset.cpus.effective"))
    try:
        used = int(statistics["usage_usec"]) * _MICROSECOND
    except (KeyError, ValueError):
        return {}
    return {Signal.CPU: _Counter(used / cores, now)} if cores else {}


def _quota(text: str) -> float | None:
    """CPUs of `cpu.max`: quota and period, or `max` where there is no limit."""
    quota, _, period = text.partition(" ")
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None


def _count(text: str) -> int:
    """CPUs of a list such as `0-3,8`."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        try:
            count += int(last or first) - int(first) + 1
        except ValueError:
            return 0
    return count


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
