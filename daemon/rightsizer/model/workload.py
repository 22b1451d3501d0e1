"""Workloads: who holds a device, by kind of owner, and a pod's owner by its name."""

import re
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import dataclass

# Kubernetes makes names up without vowels, and without the digits that look like letters.
_MADE_UP: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_CRON_JOB: Final = re.compile(rf"(.+?)-2\d{{7}}-{_MADE_UP}{{5}}")
_DEPLOYMENT: Final = re.compile(rf"(.+?)-{_MADE_UP}{{8,10}}-{_MADE_UP}{{5}}")
_TRAINING_JOB: Final = re.compile(r"(.+?)-(?:chief|evaluator|launcher|master|ps|worker)-\d{1,4}")
_GENERATED: Final = re.compile(rf"(.+?)-{_MADE_UP}{{5}}")


class WorkloadKind(StrEnum):
    """Where a workload's identity comes from."""

    KUBERNETES = "kubernetes"
    SLURM = "slurm"
    CONTAINER = "container"
    SYSTEMD = "systemd"
    SESSION = "session"
    USER = "user"
    OTHER = "other"
    """All that are too many to be named."""
    SIMULATED = "simulated"
    RECORDED = "recorded"


class WorkloadClass(StrEnum):
    """What kind of service is expected; it decides which advice makes sense."""

    SERVING = "serving"
    BATCH = "batch"
    NOTEBOOK = "notebook"
    STANDBY = "standby"
    UNKNOWN = "unknown"


class Allocator(StrEnum):
    """How the workload's framework takes memory."""

    PREALLOCATING = "preallocating"
    """Memory held is not memory needed (vLLM, JAX, TensorFlow)."""
    GROWING = "growing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Workload:
    """An owner of devices, by a key that survives the churn of its processes and pods."""

    key: str
    kind: WorkloadKind
    name: str
    workload_class: WorkloadClass = WorkloadClass.UNKNOWN
    allocator: Allocator = Allocator.UNKNOWN
    namespace: str = ""
    pod: str = ""
    container: str = ""
    step: str = ""
    """A Slurm job's step."""
    confidence_ratio: float = 1.0
    """How sure it is that its devices are one workload's: below 1 where that is inferred."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A workload's part of a device; the parts of one device sum to at most 1."""

    workload: Workload
    share_ratio: float
    has_process: bool = True
    """Whether any of its processes is on the device; a scheduler may have given it for nothing."""


@dataclass(frozen=True, slots=True)
class PodOwner:
    """The controller that makes the next pod when this one ends."""

    name: str
    workload_class: WorkloadClass = WorkloadClass.UNKNOWN


def cron_run_of(pod: str) -> str:
    """The job of a CronJob's pod, `<cron job>-<minute>`; empty for a pod of anything else."""
    return pod.rpartition("-")[0] if _CRON_JOB.fullmatch(pod) else ""


def is_replica(pod: str) -> bool:
    """Whether a pod is one of a Deployment's: each is whole by itself."""
    return _CRON_JOB.fullmatch(pod) is None and _DEPLOYMENT.fullmatch(pod) is not None


def owner_of_pod(pod: str) -> PodOwner:
    """The owner that a pod's name tells, or the pod itself.

    `<deployment>-<hash>-<suffix>`, `<cron job>-<minute>-<suffix>`, `<job>-worker-<number>` and
    `<job or daemon set>-<suffix>` lose what changes from pod to pod. A stateful set's
    `<name>-<number>` stays: it survives the pod, and `llama-2` is no replica of `llama`.
    """
    for pattern, workload_class in (
        (_CRON_JOB, WorkloadClass.BATCH),
        (_DEPLOYMENT, WorkloadClass.SERVING),
        (_TRAINING_JOB, WorkloadClass.BATCH),
        (_GENERATED, WorkloadClass.UNKNOWN),
    ):
        if found := pattern.fullmatch(pod):
            return PodOwner(found[1], workload_class)
    return PodOwner(pod)
