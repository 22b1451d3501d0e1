"""Settings for finding and naming workloads."""

from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting

SOURCE_NAMES: Final = ("kubernetes", "slurm", "container", "user", "session")
"""In order of precedence: the first that knows a process names its workload."""


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """Who is asked whose a process is.

    Attributes:
        sources: Sources, of kubernetes, slurm, container, user and session (systemd units, and
            programs by process tree), in fixed order. user names the user of a process outside of a
            unit; off by default.
        kubelet_socket: The kubelet's pod-resources socket; empty for none.
            Source: Kubernetes' documentation of device plugins
        pod_log_folder: Where the kubelet keeps logs; file names in containers/ and pods/ give pods'
            names, no file is opened. Empty for none.
            Source: Kubernetes' documentation of its logging architecture
        container_socket: Socket of Docker or Podman for containers' names; empty: short
            identifiers.
        job_map_folder: Folder where Slurm's prolog and epilog write the jobs of GPUs: files named
            <index>, <index>.<MIG instance> or by uuid, one job a line; empty where there is none.
            Source: dcgm-exporter's --hpc-job-mapping-dir
        launchers: Programs, by patterns, whose processes are one workload; the highest counts.
        launcher_confidence_ratio: Confidence that the processes of a launcher are one workload.
            Source: assumed: a launcher may start several in turn
        process_managers: Programs, by patterns, whose processes have nothing to do with each other,
            in one unit neither; those of any other program are one workload, less surely.
            Source: names in /proc/<pid>/stat, 15 characters at most
        shells: The same, but for units, which may start by a script.
        parent_confidence_ratio: Confidence that those of any other program are.
            Source: assumed: a runner of unrelated jobs looks like torch.multiprocessing
        interval_seconds: How often kubelet and container engine are queried.
            Source: the kubelet allows 100 calls a second, all callers together
        floor_seconds: Minimum time between queries for an unknown pod or container, and between
            reads of Slurm's allocations.
        hold_seconds: How long the last answer stays valid, as while a kubelet restarts.
        timeout_seconds: How long an answer may take, on a thread of its own.
        first_wait_seconds: How long the first tick waits for names; later ones never wait.
        answer_maximum_bytes: A longer answer is refused.
            Source: four times what gRPC takes by default
        time_to_live_seconds: How long the owner of a process, or its absence, is cached.
        workloads_maximum: Workloads named at once; the rest are `other`.
            Source: 64 devices with three holders each
    """

    sources: tuple[str, ...] = setting(("kubernetes", "slurm", "container", "session"))
    kubelet_socket: str = setting("/var/lib/kubelet/pod-resources/kubelet.sock")
    pod_log_folder: str = setting("/var/log")
    container_socket: str = setting("")
    job_map_folder: str = setting("")
    launchers: tuple[str, ...] = setting(
        (
            *("torchrun", "accelerate", "deepspeed", "horovodrun", "composer"),
            *("mpirun*", "mpiexec*", "orterun", "orted", "prte*", "hydra_*", "srun", "slurmstepd"),
        )
    )
    launcher_confidence_ratio: float = setting(0.95)
    process_managers: tuple[str, ...] = setting(
        (
            *("tmux*", "screen", "SCREEN", "supervisord", "runsv*", "s6-*", "cron*", "atd"),
            *("xargs", "parallel", "pueued", "tsp", "jupyter*", "code-server", "node", "raylet"),
        )
    )
    shells: tuple[str, ...] = setting(
        (
            *("*sh", "busybox", "sshd*", "login", "su", "sudo", "make", "slurmd"),
            *("systemd", "init", "tini", "dumb-init"),
        )
    )
    parent_confidence_ratio: float = setting(0.85)
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
