"""Settings of collectors of owners."""

from typing import Annotated

from msgspec import Struct

from rightsizer.model.values import CONSTANT, Spec


class OwnerCollectorSettings(Struct, frozen=True):
    """What collectors of owners need to name workloads.

    Attributes:
        kubelet_socket: The kubelet's pod-resources socket; empty to disable it.
            Source: Kubernetes' documentation of device plugins
        pod_log_folder: The kubelet's log directory, for pod names from file names; empty to disable
            it.
            Source: Kubernetes' documentation of its logging architecture
        container_socket: Docker or Podman socket for container names; empty for short IDs.
        job_map_folder: Directory where Slurm's prolog and epilog write each GPU's jobs: files named
            by index, index.MIG instance or uuid, one job a line.
            Source: dcgm-exporter's --hpc-job-mapping-dir
        launchers: Name patterns of launchers, whose processes form one workload; the outermost
            counts.
        launcher_confidence_ratio: Confidence that the processes of a launcher are one workload.
            Source: assumed: a launcher may start several in turn
        process_managers: Name patterns of programs whose children are unrelated: terminals,
            schedulers, batch systems. Children of others are one workload, with less confidence.
            Source: names in /proc/<pid>/stat, 15 characters at most
        shells: Like process_managers, but not within a unit, which may start by a script.
        servers: Name patterns of programs that use all GPUs and hold none: displays, MPS, DCGM.
            Source: names in /proc/<pid>/stat, 15 characters at most
        parent_confidence_ratio: Confidence that the children of any other program are one workload.
            Source: assumed: a runner of unrelated jobs looks like torch.multiprocessing
        interval_seconds: Interval between queries of the kubelet and the container engine.
            Source: the kubelet allows 100 calls a second, all callers together
        floor_seconds: Minimum time between queries for an unknown pod or container, and reads of
            Slurm's allocations.
        hold_seconds: How long the last answer stays valid, as while a kubelet restarts.
        timeout_seconds: Time limit for a source to answer.
        first_wait_seconds: Time the first sample waits for workload names; later samples never
            wait.
        answer_maximum_bytes: Maximum size of an answer; a larger one is rejected.
            Source: four times what gRPC takes by default
        time_to_live_seconds: How long a process's owner, or its absence, is cached.
        workloads_maximum: Maximum workloads reported by name at once; the rest are `other`.
            Source: 64 devices with three holders each
    """

    kubelet_socket: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    pod_log_folder: str = "/var/log"
    container_socket: str = ""
    job_map_folder: str = ""
    launchers: tuple[str, ...] = (
        "torchrun",
        "pt_elastic",
        "accelerate",
        "deepspeed",
        "horovodrun",
        "composer",
        "mpirun*",
        "mpiexec*",
        "orterun",
        "orted",
        "prte*",
        "hydra_*",
        "srun",
        "slurmstepd",
    )
    launcher_confidence_ratio: Annotated[float, CONSTANT] = 0.95
    process_managers: tuple[str, ...] = (
        "tmux*",
        "screen",
        "SCREEN",
        "supervisord",
        "runsv*",
        "s6-*",
        "cron*",
        "atd",
        "xargs",
        "parallel",
        "pueued",
        "tsp",
        "jupyter*",
        "code-server",
        "node",
        "raylet",
        "condor_startd",
        "condor_starter",
        "pbs_mom",
        "sge_execd",
        "sge_shepherd*",
        "sbatchd",
        "res",
    )
    shells: tuple[str, ...] = (
        "*sh",
        "busybox",
        "sshd*",
        "login",
        "su",
        "sudo",
        "make",
        "slurmd",
        "systemd",
        "init",
        "tini",
        "dumb-init",
    )
    servers: tuple[str, ...] = (
        "X",
        "Xorg",
        "Xwayland",
        "gnome-shell",
        "kwin_x11",
        "kwin_wayland",
        "nvidia-cuda-mps",
        "nv-hostengine",
    )
    parent_confidence_ratio: Annotated[float, CONSTANT] = 0.85
    interval_seconds: Annotated[float, Spec(within=(1.0, 3600.0))] = 30.0
    floor_seconds: Annotated[float, Spec(within=(1.0, 3600.0)), CONSTANT] = 5.0
    hold_seconds: Annotated[float, Spec(within=(1.0, 86400.0)), CONSTANT] = 600.0
    timeout_seconds: Annotated[float, Spec(within=(0.1, 60.0))] = 3.0
    first_wait_seconds: Annotated[float, Spec(within=(0.0, 10.0)), CONSTANT] = 0.5
    answer_maximum_bytes: Annotated[int, Spec(within=(65536, 2**28)), CONSTANT] = 16 * 2**20
    time_to_live_seconds: Annotated[float, Spec(within=(1.0, 3600.0)), CONSTANT] = 30.0
    workloads_maximum: Annotated[int, Spec(within=(1.0, 10000.0))] = 200
