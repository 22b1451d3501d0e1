"""procfs, sysfs and control groups as files, for features missing on test machines."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.settings import HostSettings
from rightsizer.io.clock import Clock, FastClock
from rightsizer.model.units import nanoseconds

__all__ = ["HostTree"]

_STAT: Final = "S 1 {pid} {pid} 0 -1 4194560 1 0 0 0 {user} {system} 0 0 20 0 1 0 {started} 0 0"


class HostTree:
    """A host on disk; everything is absent until it is written."""

    def __init__(self, root: Path) -> None:
        self.procfs = root / "proc"
        self.sysfs = root / "sys"
        self.cgroups = self.sysfs / "fs" / "cgroup"
        self.networks = root / "networks"
        self.clock: Clock = FastClock(0)

    def host(self, **settings: float) -> ProcHostCollector:
        """A host that reads this tree."""
        return ProcHostCollector(
            self.procfs,
            self.cgroups,
            self.clock,
            sysfs=self.sysfs,
            settings=HostSettings(**settings),  # type: ignore[arg-type]
        )

    def tick(self, duration_seconds: float = 1.0) -> None:
        """Let time pass."""
        deadline = self.clock.time() + nanoseconds(duration_seconds)
        self.clock.wait_until(deadline, threading.Event())

    def write(self, path: Path, text: object) -> None:
        """Write a file and its folders."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def link(self, path: Path, target: str | Path) -> None:
        """Write a link and its folders, replacing existing ones."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def pressure(self, path: Path, total: int, recent: float = 0.0) -> None:
        """Write a pressure file: total microseconds waited, and recent percent."""
        line = f"avg10={recent:.2f} avg60=0.00 avg300=0.00 total={total}"
        self.write(path, f"some {line}\nfull {line}")

    def process(  # noqa: PLR0913 - what procfs tells of a process.
        self,
        pid: int,
        group: str | Mapping[str, str] = "",
        *,
        started: int = 1000,
        cpus: str = "0-3",
        network: str = "host",
        name: str = "python",
        ticks: tuple[int, int] = (0, 0),
    ) -> None:
        """Write a process of a control group, or of one group for each controller."""
        folder = self.procfs / str(pid)
        groups = {"": group} if isinstance(group, str) else group
        lines = [
            f"{number}:{controllers}:/{path}"
            for number, (controllers, path) in enumerate(groups.items())
        ]
        self.write(folder / "cgroup", "\n".join(lines))
        user, system = ticks
        stat = _STAT.format(pid=pid, started=started, user=user, system=system)
        self.write(folder / "stat", f"{pid} ({name}) {stat}")
        self.write(
            folder / "status", f"Name:\t{name}\nPid:\t{pid}\nCpus_allowed_list:\t{cpus}\nx:\t0"
        )
        # Processes of one namespace share one file.
        interfaces = self.networks / network
        interfaces.parent.mkdir(parents=True, exist_ok=True)
        interfaces.touch()
        (folder / "net").mkdir(parents=True, exist_ok=True)
        (folder / "net" / "dev").unlink(missing_ok=True)
        (folder / "net" / "dev").hardlink_to(interfaces)

    def stat(self, *ticks: int) -> None:
        """Write the node's CPU time."""
        self.write(self.procfs / "stat", f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3")

    def online(self, cpus: str) -> None:
        """Write the online CPUs."""
        self.write(self.sysfs / "devices/system/cpu/online", cpus)

    def disk(self, name: str, number: str, *, is_hardware: bool = True) -> None:
        """Write a block device."""
        folder = self.sysfs / "block" / name
        self.write(folder / "dev", number)
        if is_hardware:
            self.link(folder / "device", "../../../0000:01:00.0")

    def diskstats(self, **sectors: tuple[int, int]) -> None:
        """Write the number of sectors read and written by each device."""
        lines = [
            f" 259       0 {name} 10 0 {taken} 5 20 0 {written} 9 0 1 1 0 0 0 0"
            for name, (taken, written) in sectors.items()
        ]
        self.write(self.procfs / "diskstats", "\n".join(lines))

    def interface(self, name: str, *, is_hardware: bool = True, master: str = "") -> Path:
        """Write a network interface, below another one if it has a master."""
        folder = self.sysfs / "class" / "net" / name
        folder.mkdir(parents=True, exist_ok=True)
        if is_hardware:
            self.link(folder / "device", "../../../0000:02:00.0")
        if master:
            self.link(folder / "master", f"../{master}")
        return folder

    def traffic(self, pid: int | str, **counts: tuple[int, int]) -> None:
        """Write a process's view of bytes received and transmitted by each interface."""
        rows = [
            f"{name:>6}: {received} 1 0 0 0 0 0 0 {transmitted} 1 0 0 0 0 0 0"
            for name, (received, transmitted) in counts.items()
        ]
        head = "Inter-|   Receive  |  Transmit\n face |bytes    packets|bytes    packets"
        self.write(self.procfs / str(pid) / "net" / "dev", "\n".join([head, *rows]))

    def port(  # noqa: PLR0913 - what sysfs tells of a port.
        self,
        adapter: str,
        path: str,
        *,
        number: int = 1,
        node: int = -1,
        state: str = "4: ACTIVE",
        rate: str = "400 Gb/sec (4X NDR)",
        link_layer: str = "InfiniBand",
    ) -> Path:
        """Write a port of an adapter at a path below `/sys/devices`; return its folder."""
        device = self.sysfs / "devices" / path
        self.write(device / "numa_node", node)
        folder = self.sysfs / "class" / "infiniband" / adapter
        self.link(folder / "device", device)
        port = folder / "ports" / str(number)
        self.write(port / "state", state)
        self.write(port / "rate", rate)
        self.write(port / "link_layer", link_layer)
        return port

    def words(self, port: Path, received: int, transmitted: int) -> None:
        """Write the number of four-byte words received and transmitted by a port."""
        self.write(port / "counters" / "port_rcv_data", received)
        self.write(port / "counters" / "port_xmit_data", transmitted)
