"""Where processes run: control groups, CPUs, network namespace."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.host.control_group import Seat
from rightsizer.telemetry.host.hierarchies import Hierarchies
from rightsizer.telemetry.host.kept import Kept, Recent
from rightsizer.telemetry.host.text import cpu_list, identity, read

__all__ = ["Place", "Places"]

_CPUS: Final = "Cpus_allowed_list:"
_NAMESPACED_PIDS: Final = "NSpid:"
_START_TIME: Final = 19
"""Of the fields after the command's name, which may itself hold spaces and parentheses."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process runs."""

    pid: int
    started: str
    """Ticks since the machine's start; tells the process from a later one of the same number."""
    seat: Seat
    cpus: frozenset[int]
    """Those that its first thread may run on; none where nobody says."""
    network: int | None
    """The number of its network namespace; `None` where procfs hides it."""


class Places:
    """Looks processes up, and up again when they are others than before."""

    def __init__(
        self,
        procfs: str,
        hierarchies: Hierarchies,
        *,
        interval: Nanoseconds,
        forget_after: Nanoseconds,
        shortest: Nanoseconds,
    ) -> None:
        """Reads nothing before it is asked."""
        self._procfs = procfs
        self._hierarchies = hierarchies
        self._known: Kept[tuple[int, str], Place] = Kept(interval, forget_after)
        self._started: Kept[int, str | None] = Kept(shortest, forget_after)
        self._is_ours: Recent[None, bool] = Recent(forget_after)
        self._host_network: Kept[None, int | None] = Kept(interval, forget_after)

    def of(self, pids: Iterable[int], now: Nanoseconds) -> tuple[Place, ...]:
        """The places of those processes that are there."""
        if not self._is_ours.get(None, now, self._shows_our_namespace):
            return ()
        places = (self._of(pid, now) for pid in dict.fromkeys(pids))
        return tuple(place for place in places if place is not None)

    def host_network(self, now: Nanoseconds) -> int | None:
        """The network namespace of the host's first process; `None` where procfs hides it."""
        return self._host_network.get(None, now, lambda: self._network(1))

    def _shows_our_namespace(self) -> bool:
        """Whether this procfs numbers processes as the driver does when we ask it.

        The driver answers with the numbers of the caller's own namespace. Seen through another
        one's procfs, the same number is somebody else.
        """
        for line in (read(f"{self._procfs}/self/status") or "").splitlines():
            if line.startswith(_NAMESPACED_PIDS):
                return len(line.split()) == len((_NAMESPACED_PIDS, "pid"))
        return True

    def _of(self, pid: int, now: Nanoseconds) -> Place | None:
        started = self._started.get(pid, now, lambda: self._start(pid))
        if started is None:
            return None
        return self._known.get((pid, started), now, lambda: self._place(pid, started))

    def _start(self, pid: int) -> str | None:
        fields = (read(f"{self._procfs}/{pid}/stat") or "").rpartition(")")[2].split()
        return fields[_START_TIME] if len(fields) > _START_TIME else None

    def _network(self, pid: int) -> int | None:
        # The link `ns/net` is for tracers only; the file of the interfaces is for everyone, and
        # there is one for each namespace.
        return identity(f"{self._procfs}/{pid}/net/dev")

    def _place(self, pid: int, started: str) -> Place:
        folder = f"{self._procfs}/{pid}"
        return Place(
            pid=pid,
            started=started,
            seat=self._hierarchies.seat(read(f"{folder}/cgroup") or ""),
            cpus=_cpus(read(f"{folder}/status") or ""),
            network=self._network(pid),
        )


def _cpus(status: str) -> frozenset[int]:
    _, found, rest = status.partition(f"\n{_CPUS}")
    return cpu_list(rest.partition("\n")[0].strip()) if found else frozenset()
