"""Checks of the host: processes of others, control groups, pressure, topology, clock, memory."""

import os
import time
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import Check, CheckContext, Verdict, failed_check
from rightsizer.host.cgroups import ControlGroupHierarchies
from rightsizer.host.files import read_file
from rightsizer.host.process_table import ProcessTable
from rightsizer.model.values import NANOSECONDS_PER_SECOND, utc_text

_LEAST_MEMORY_BYTES: Final = 128 * 2**20
"""Memory of an agent with a month of history and its page open, driver library included."""
_UNLIMITED_BYTES: Final = 2**60
"""Control groups version 1 write 'no limit' as a number near 2^63."""
_EARLIEST_SECONDS: Final = 1_735_689_600
"""2025-01-01: an earlier clock was never set."""


def check_processes(context: CheckContext) -> Check:
    """Whether processes of other users are visible, and by the driver's pids."""
    name = "processes of others"
    if not ProcessTable(context.procfs).shows_our_pids:
        observation = f"{context.procfs} has the pids of another namespace"
        return failed_check(name, Verdict.MISSING, "foreign", observation)
    try:
        text = (context.procfs / "1" / "cgroup").read_text(errors="replace")
    except OSError as error:
        observation = f"{context.procfs}/1/cgroup: {error.strerror}"
        return failed_check(name, Verdict.MISSING, "closed", observation)
    group = text.strip().rpartition("\n")[2] or "no control group"
    return Check(name, Verdict.OK, f"the first process is in {group}")


def check_memory_placement(context: CheckContext) -> Check:
    """Whether the NUMA placement of other processes' memory can be read."""
    name = "memory placement"
    nodes = (context.sysfs / "devices/system/node").glob("node[0-9]*")
    # The memory of a GPU may be a node, without CPUs.
    if sum(read_file(node / "cpulist") != "\n" for node in nodes) <= 1:
        return Check(name, Verdict.UNUSED, "there is one NUMA node with CPUs")
    try:
        with (context.procfs / "1" / "numa_maps").open("rb") as file:
            file.read(1)
    except OSError as error:
        observation = f"{context.procfs}/1/numa_maps: {error.strerror}"
        return failed_check(name, Verdict.LIMITED, "closed", observation)
    return Check(name, Verdict.OK, "numa_maps of others can be read")


def check_control_groups(context: CheckContext) -> Check:
    """Whether control groups are mounted and readable, those of others too."""
    name = "control groups"
    top = context.sysfs / "fs/cgroup"
    first = read_file(context.procfs / "1" / "cgroup") or ""
    if "/.." in first and not ControlGroupHierarchies(str(top)).membership(first).cpu_time:
        observation = f"{top} has those of this container alone"
        return failed_check(name, Verdict.MISSING, "absent", observation)
    if (top / "cgroup.controllers").exists():
        return Check(name, Verdict.OK, "version 2")
    if any((top / controller).is_dir() for controller in ("cpu", "cpu,cpuacct", "memory")):
        return failed_check(name, Verdict.LIMITED, "old", "version 1")
    return failed_check(name, Verdict.MISSING, "absent", f"there are none at {top}")


def check_pressure(context: CheckContext) -> Check:
    """Whether the kernel reports pressure stall information."""
    try:
        (context.procfs / "pressure" / "cpu").read_text()
    except OSError as error:
        observation = f"{context.procfs}/pressure/cpu: {error.strerror}"
        return failed_check("pressure", Verdict.MISSING, "absent", observation)
    return Check("pressure", Verdict.OK, "kept for CPU, memory and disk")


def check_topology(context: CheckContext) -> Check:
    """Whether sysfs shows the PCI bus."""
    name = "topology"
    bus = context.sysfs / "bus/pci/devices"
    try:
        count = len(os.listdir(bus))  # noqa: PTH208 - only the number is needed.
    except OSError as error:
        return failed_check(name, Verdict.MISSING, "absent", f"{bus}: {error.strerror}")
    return Check(name, Verdict.OK, f"devices on the bus: {count}")


def check_clock(context: CheckContext) -> Check:
    """Whether the wall clock was ever set; history and annotations depend on it."""
    if (now := context.snapshot.wall_time // NANOSECONDS_PER_SECOND) < _EARLIEST_SECONDS:
        date = time.strftime("%Y-%m-%d", time.gmtime(now))
        return failed_check("clock", Verdict.LIMITED, "unset", date)
    return Check("clock", Verdict.OK, utc_text(now, "%H:%M:%S"))


def check_memory_limit(context: CheckContext) -> Check:
    """Whether this process may use as much memory as the agent needs."""
    name = "memory limit"
    limit = _memory_limit(context)
    if limit is None or limit >= _UNLIMITED_BYTES:
        return Check(name, Verdict.OK, "none")
    observation = f"{limit // 2**20} MiB"
    if limit < _LEAST_MEMORY_BYTES:
        return failed_check(
            name, Verdict.LIMITED, "tight", observation, least=_LEAST_MEMORY_BYTES // 2**20
        )
    return Check(name, Verdict.OK, observation)


def _memory_limit(context: CheckContext) -> int | None:
    """Lowest memory limit among this process's control groups and their parents."""
    limits = []
    for line in _text(context.procfs / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = context.sysfs / "fs/cgroup" / ("memory" if controllers else "")
        group = top / path.strip("/")
        for folder in (group, *group.parents):
            limits += [
                int(text)
                for file in ("memory.max", "memory.limit_in_bytes")
                if (text := _text(folder / file).strip()).isdecimal()
            ]
            if folder == top:
                break
    return min(limits, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
