"""Workloads that hold devices, by kind of owner, and the owner of a pod by its name."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# Kubernetes generates names without vowels, and without digits that resemble letters.
_MADE_UP: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_CRON_JOB: Final = re.compile(rf"(.+?)-2\d{{7}}-{_MADE_UP}{{5}}")
_DEPLOYMENT: Final = re.compile(rf"(.+?)-{_MADE_UP}{{8,10}}-{_MADE_UP}{{5}}")
_TRAINING_JOB: Final = re.compile(r"(.+?)-(?:chief|evaluator|launcher|master|ps|worker)-\d{1,4}")
# Of generated suffixes, one in a thousand is a number; of numbers of five digits, one in six could
# be generated.
_GENERATED: Final = re.compile(rf"(.+?)-(?!\d{{5}}$){_MADE_UP}{{5}}")
# Of a service, Knative makes a Deployment for each revision, and KubeRay a cluster.
_ROLLOUT: Final = re.compile(rf"(.+?)-(?:\d{{5}}-deployment|raycluster-{_MADE_UP}{{5}}(?:-.+)?)")

_NAMESPACE: Final = re.compile(r"(?:^|/)kubernetes[:/]([^/]+)/")
"""In keys: real ones have a colon after their kind, those of scenarios have slashes only."""


class WorkloadKind(StrEnum):
    """Source of a workload's identity, where the package names one; a new owner has a new word."""

    KUBERNETES = "kubernetes"
    SLURM = "slurm"
    CONTAINER = "container"
    SYSTEMD = "systemd"
    SESSION = "session"
    USER = "user"
    OTHER = "other"
    """Aggregate of workloads beyond the limit of names."""
    SIMULATED = "simulated"
    RECORDED = "recorded"


_KINDS: Final = (
    re.compile(rf"(?:^|/)({'|'.join(WorkloadKind)})[:/]"),
    re.compile(r"(?:^|/)([a-z][a-z0-9_-]*):"),
)
"""Known ones, and those of owners of other packages."""


class WorkloadClass(StrEnum):
    """Expected kind of service, which decides what advice makes sense."""

    SERVING = "serving"
    BATCH = "batch"
    NOTEBOOK = "notebook"
    STANDBY = "standby"
    UNKNOWN = "unknown"


class Allocator(StrEnum):
    """Memory allocation strategy of the workload's framework."""

    PREALLOCATING = "preallocating"
    """Memory held exceeds memory needed (vLLM, JAX, TensorFlow)."""
    GROWING = "growing"
    UNKNOWN = "unknown"


NOT_PROVEN: Final = "nothing on this node proves whose it is"


class PodController(Struct, frozen=True):
    """Topmost known object of those that make a pod again."""

    kind: str
    """As in an owner reference; `Pod` for a pod that nothing makes again."""
    name: str
    is_last: bool = True
    """Whether nothing is above it; else what is above it is not known."""


class Workload(Struct, frozen=True):
    """Holder of devices, with a key that outlives its processes and pods."""

    key: str
    kind: str
    """Of its owner; selects its commands."""
    name: str
    workload_class: WorkloadClass = WorkloadClass.UNKNOWN
    allocator: Allocator = Allocator.UNKNOWN
    namespace: str = ""
    pod: str = ""
    container: str = ""
    step: str = ""
    """Step of a Slurm job."""
    confidence_ratio: float = 1.0
    """Certainty that its devices belong to one workload; below 1 if inferred."""
    unproven: str = NOT_PROVEN
    """Why its owner may be a pretended one, so that nothing is done to it; empty if proven."""
    controller: PodController | None = None
    """What makes its pods; `None` if only their names suggest it."""
    model: str = ""
    """Model that it serves, by a policy; empty if none states it."""
    ttft: str = ""
    """Longest time to the first token, by a policy, as of a plan: `p95=2s`; empty without one."""
    tpot: str = ""
    """Longest time between tokens, likewise."""


class ProcessGeneration(Struct, frozen=True):
    """Process in its control groups, told apart from a later one with the same pid."""

    pid: int
    started_ticks: int
    """Since boot."""
    control_groups: str
    """One hierarchy a line."""


class Holding(Struct, frozen=True):
    """Workload's share of a device; the shares of one device add up to at most 1."""

    workload: Workload
    share_ratio: float
    has_process: bool = True
    """Whether it has a process on the device; an allocation may be unused."""
    processes: tuple[ProcessGeneration, ...] = ()
    """Its processes on the device; empty where the host's processes are not seen."""


def merge_workloads(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """One workload per key; conflicting details are left empty, and one doubt is enough."""
    by_key: dict[str, Workload] = {}
    for workload in workloads:
        first = by_key.setdefault(workload.key, workload)
        if first is not workload:
            by_key[workload.key] = _merged(first, workload)
    return tuple(by_key.values())


def _merged(first: Workload, workload: Workload) -> Workload:
    """Copied only if something changes: a workload may have hundreds of processes."""
    pod = first.pod if first.pod == workload.pod else ""
    container = first.container if first.container == workload.container else ""
    step = first.step if first.step == workload.step else ""
    unproven = first.unproven or workload.unproven
    controller = first.controller if first.controller == workload.controller else None
    details = pod, container, step, unproven, controller
    if details == (first.pod, first.container, first.step, first.unproven, first.controller):
        return first
    return replace(
        first,
        pod=pod,
        container=container,
        step=step,
        unproven=unproven,
        controller=controller,
    )


class PodOwner(Struct, frozen=True):
    """Controller that recreates pods."""

    name: str
    workload_class: WorkloadClass = WorkloadClass.UNKNOWN
    controller: PodController | None = None
    """What to change; `None` if only the pod's name suggests it."""


def cron_run_of(pod: str) -> str:
    """Job of a CronJob's pod, `<cron job>-<minute>`; empty for other pods."""
    return pod.rpartition("-")[0] if _CRON_JOB.fullmatch(pod) else ""


def deployment_of(pod: str) -> str:
    """Deployment of a pod, which is a replica complete in itself; empty for other pods."""
    match = None if _CRON_JOB.fullmatch(pod) else _DEPLOYMENT.fullmatch(pod)
    return match[1] if match else ""


def lasting_name(controller: str) -> str:
    """Name of the service that makes a controller at each rollout, else of the controller."""
    match = _ROLLOUT.fullmatch(controller)
    return match[1] if match else controller


def owner_of_pod(pod: str) -> PodOwner:
    """Owner of a pod inferred from its name, or the pod itself.

    Strips what changes from pod to pod: `<deployment>-<hash>-<suffix>`,
    `<cron job>-<minute>-<suffix>`, `<job>-worker-<number>` and `<job or daemon set>-<suffix>`.
    Keeps a stateful set's `<name>-<number>`: it outlives the pod, and `llama-2` is no replica.
    """
    for pattern, workload_class in (
        (_CRON_JOB, WorkloadClass.BATCH),
        (_DEPLOYMENT, WorkloadClass.SERVING),
        (_TRAINING_JOB, WorkloadClass.BATCH),
        (_GENERATED, WorkloadClass.UNKNOWN),
    ):
        if match := pattern.fullmatch(pod):
            return PodOwner(lasting_name(match[1]), workload_class)
    return PodOwner(lasting_name(pod))


def workload_of_pod(
    namespace: str, pod: str, container: str = "", unproven: str = NOT_PROVEN
) -> Workload:
    """Workload of a pod, with a key shared by its successors."""
    owner = owner_of_pod(pod)
    return Workload(
        f"kubernetes:{namespace}/{owner.name}",
        WorkloadKind.KUBERNETES,
        owner.name,
        owner.workload_class,
        namespace=namespace,
        pod=pod,
        container=container,
        unproven=unproven,
    )


def namespace_of(key: str) -> str:
    """Return the namespace that a key names behind `kubernetes`, whatever cluster is before it."""
    match = _NAMESPACE.search(key)
    return "" if match is None else match[1]


def kind_of(key: str) -> str:
    """Return the kind that a key begins with, behind the name of a cluster; or nothing."""
    matches = (kind.search(key) for kind in _KINDS)
    return next((match[1] for match in matches if match is not None), "")


def workload_of_job(job: str, step: str = "", unproven: str = NOT_PROVEN) -> Workload:
    """Workload of a Slurm job; all its steps are the same workload."""
    return Workload(
        f"slurm:{job}",
        WorkloadKind.SLURM,
        job,
        WorkloadClass.BATCH,
        step=step,
        unproven=unproven,
    )
