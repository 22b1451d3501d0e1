"""Settings for reading the host."""

from typing import Annotated

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec


class HostSettings(Struct, frozen=True):
    """Frequency and scope of host reads.

    Attributes:
        shortest_seconds: Minimum time between reads of the host; closer requests share one.
        recheck_interval_seconds: Interval between reads of facts that rarely change: control
            groups, namespaces, quotas, disks, interfaces, fabric ports.
        forget_after_seconds: How long an unused process or control group stays cached.
        memory_placement_interval_seconds: Interval between lookups of the NUMA nodes of host
            memory.
            Source: Pages that have been placed are seldom moved.
        numa_maps_processes_maximum: Maximum processes per second whose numa_maps is read where
            control groups lack memory by node.
            Source: proc_pid_numa_maps(5): the kernel walks all page tables of the process.
        numa_maps_deadline_seconds: Time limit for reading one process's numa_maps.
        numa_maps_resident_maximum_bytes: Resident memory above which a process's numa_maps is not
            read, which may block the process.
            Source: About 10 ns a page; 32 GiB in small pages are 0.1 s in which it cannot map
            memory.
    """

    shortest_seconds: Annotated[float, Spec(within=(0.0, 60.0)), CONSTANT] = 0.2
    recheck_interval_seconds: Annotated[float, Spec(within=(0.0, 3600.0)), CONSTANT] = 10.0
    forget_after_seconds: Annotated[float, Spec(within=(1.0, 3600.0)), CONSTANT] = 60.0
    memory_placement_interval_seconds: Annotated[float, Spec(within=(1.0, 86400.0)), CONSTANT] = (
        60.0
    )
    numa_maps_processes_maximum: Annotated[int, Spec(within=(0, 1000)), CONSTANT] = 2
    numa_maps_deadline_seconds: Annotated[float, Spec(within=(0.001, 10.0)), CONSTANT] = 0.01
    numa_maps_resident_maximum_bytes: Annotated[int, Spec(within=(0, 2**50)), CONSTANT] = 32 * 2**30


class PathSettings(Struct, frozen=True):
    """Paths on this machine; a container may see the host's file systems elsewhere.

    Attributes:
        procfs: Mount point of procfs.
        sysfs: Mount point of sysfs.
        api_socket: Unix socket for local commands, for the agent's user and group.
    """

    procfs: str = "/proc"
    sysfs: str = "/sys"
    api_socket: str = "/run/rightsizer/api.sock"
