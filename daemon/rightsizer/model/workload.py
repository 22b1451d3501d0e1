"""Who holds a device: the unit that idles, stalls and is given advice."""

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Holding:
    """A workload's part of a device; the parts of one device sum to at most 1."""

    workload: Workload
    share_ratio: float
    has_process: bool = True
    """Whether any of its processes is on the device; a scheduler may have given it for nothing."""
