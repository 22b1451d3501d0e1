"""What an operator may set of how the host is read."""

from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How often and how much of the host is read."""

    shortest_seconds: float = setting(0.2, within=(0.0, 60.0))
    recheck_interval_seconds: float = setting(10.0, within=(0.0, 3600.0))
    forget_after_seconds: float = setting(60.0, within=(1.0, 3600.0))
    memory_placement_interval_seconds: float = setting(60.0, within=(1.0, 86400.0))
    numa_maps_processes_maximum: int = setting(2, within=(0, 1000))
    numa_maps_deadline_seconds: float = setting(0.01, within=(0.001, 10.0))
    numa_maps_resident_maximum_bytes: int = setting(32 * 2**30, within=(0, 2**50))


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where things lie on this machine; a container may see the host's file systems elsewhere."""

    procfs: str = setting("/proc")
    sysfs: str = setting("/sys")
    api_socket: str = setting("/run/rightsizer/api.sock")
