"""Objects that make pods: which one to change, and the command that frees a pod's GPUs for good."""

import re
import shlex
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from rightsizer.io.codec import convert
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import (
    Instruction,
    PodController,
    Workload,
    WorkloadClass,
    cron_run_of,
    deployment_of,
    lasting_name,
)


class ControllerKind(Struct, frozen=True):
    """Kind of object that makes pods."""

    resource: str
    """For kubectl; with its group if others have the same name."""
    title: str
    api_version: str = "apps/v1"
    """Of what has replicas."""
    workload_class: WorkloadClass | None = field(default=None, name="class")
    has_replicas: bool = False
    """Whether its number of pods can be set."""
    may_be_owned: bool = False
    """Whether another object may make it again."""
    labels: tuple[str, ...] = ()
    """Of its pods: its name, and its kind if another kind has the same label."""
    text: str = ""
    """Command that frees the GPUs and keeps them free; empty if none is known."""
    note: str = ""
    """What to do without a command."""


CONTROLLER_KINDS: Final[Mapping[str, ControllerKind]] = convert(
    load_beside(__file__, "pod_controllers.yaml"), dict[str, ControllerKind]
)
"""By the kind of an owner reference, topmost first among those that label their pods."""
POD: Final = "Pod"

_REVISION: Final = re.compile(r"(.+)-\d{5}-deployment")


def controller_of(workload: Workload) -> PodController:
    """Return what makes a workload's pods, as a store told it, or as their names suggest."""
    if workload.controller is not None:
        return workload.controller
    pod = workload.pod
    if cron_run_of(pod):
        return PodController("CronJob", workload.name)
    if deployment := deployment_of(pod):
        revision = _REVISION.fullmatch(deployment)
        if revision is not None:
            return PodController("KnativeService", revision[1], is_last=False)
        return PodController("Deployment", deployment, is_last=False)
    if pod:
        return PodController(POD, pod, is_last=False)
    of_class = {WorkloadClass.SERVING: "Deployment", WorkloadClass.BATCH: "Job"}
    kind = of_class.get(workload.workload_class, POD)
    return PodController(kind, lasting_name(workload.name), is_last=False)


def release(workload: Workload) -> tuple[Instruction, ...]:
    """Return how to free the GPUs of a workload's pods, by what makes them.

    Where something above may make it again, the command first looks for that, and ends if there is
    any.
    """
    controller = controller_of(workload)
    kind = CONTROLLER_KINDS.get(controller.kind)
    kubectl = kubectl_in(workload.namespace)
    if kind is None or not kind.text:
        return (_by_hand(controller, kind, workload),)
    if controller.kind == POD and not controller.is_last:
        return (_lookup(controller, kubectl),)
    object_name = f"{kind.resource}/{controller.name}"
    text = kind.text.format(
        kubectl=kubectl,
        object=shlex.quote(object_name),
        name=shlex.quote(controller.name),
        word=re.sub(r"[^\w.-]", "", controller.name),
    )
    if kind.may_be_owned and not controller.is_last:
        owners = f"{kubectl} get {shlex.quote(object_name)} -o jsonpath='{_OWNERS}'"
        text = f"{_IF_ALONE}\n{owners} | grep . ||\n  {text}"
    return (Instruction(kind.title, text, "sh"),)


def scaled_object_of(workload: Workload) -> tuple[PodController, ControllerKind] | None:
    """Return the object whose number of pods can be set; `None` if none is known."""
    controller = controller_of(workload)
    kind = CONTROLLER_KINDS.get(controller.kind)
    return (controller, kind) if kind is not None and kind.has_replicas else None


def kubectl_in(namespace: str) -> str:
    """Return kubectl with its namespace."""
    return f"kubectl -n {shlex.quote(namespace)}" if namespace else "kubectl"


_IF_ALONE: Final = "# If the first command prints what makes it again, change that instead."
_OWNERS: Final = "{.metadata.ownerReferences[*].kind} {.metadata.ownerReferences[*].name}"


def _by_hand(
    controller: PodController, kind: ControllerKind | None, workload: Workload
) -> Instruction:
    where = f" in the namespace {workload.namespace}" if workload.namespace else ""
    name = f"{controller.kind} {controller.name}{where}"
    if kind is not None:
        return Instruction(kind.title, f"Of the {name}. {kind.note}")
    return Instruction(
        f"Stop the {controller.kind} {controller.name}",
        f"The {name} makes the pod again when it is deleted. No command of this kind is known: "
        "suspend, scale or delete it as its operator documents.",
    )


def _lookup(controller: PodController, kubectl: str) -> Instruction:
    pod = shlex.quote(controller.name)
    return Instruction(
        "Find what makes the pod again, and stop that",
        "# Prints nothing for a pod that nothing makes again, which may be deleted.\n"
        f"{kubectl} get pod {pod} -o jsonpath='{_OWNERS}'",
        "sh",
    )
