"""How workloads are found and how many of them are named."""

from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting

SOURCE_NAMES: Final = ("kubernetes", "slurm", "container", "user", "session")
"""In order of precedence: the first that knows a process names its workload."""


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """Who is asked whose a process is."""

    sources: tuple[str, ...] = setting(("kubernetes", "slurm", "container", "session"))
    kubelet_socket: str = setting("/var/lib/kubelet/pod-resources/kubelet.sock")
    pod_log_folder: str = setting("/var/log")
    container_socket: str = setting("")
    job_map_folder: str = setting("")
    interval_seconds: float = setting(30.0, within=(1.0, 3600.0))
    floor_seconds: float = setting(5.0, within=(1.0, 3600.0))
    hold_seconds: float = setting(600.0, within=(1.0, 86400.0))
    timeout_seconds: float = setting(3.0, within=(0.1, 60.0))
    first_wait_seconds: float = setting(0.5, within=(0.0, 10.0))
    answer_maximum_bytes: int = setting(16 * 2**20, within=(65536, 2**28))
    time_to_live_seconds: float = setting(30.0, within=(1.0, 3600.0))
    workloads_maximum: int = setting(200, within=(1.0, 10000.0))

    def __post_init__(self) -> None:
        for name in self.sources:
            if name not in SOURCE_NAMES:
                raise ValueError(
                    f"sources: there is no '{name}'; choose from {', '.join(SOURCE_NAMES)}"
                )
