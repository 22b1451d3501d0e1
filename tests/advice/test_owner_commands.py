"""Commands for an operator to release GPUs."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import gpu
from rightsizer.advice.rules.idle import release_instructions
from rightsizer.model.finding import Node
from rightsizer.model.reading import Process, Reading
from rightsizer.model.state import State
from rightsizer.model.workload import (
    Allocator,
    Holding,
    PodController,
    Workload,
    WorkloadClass,
    WorkloadKind,
)

IDLE = window({State.IDLE_HELD: 2.0})


def held(kind: WorkloadKind, name: str, workload_class: WorkloadClass, **facts: str) -> Workload:
    """An owner that holds GPU 0."""
    return Workload(f"{kind}:{name}", kind, name, workload_class, Allocator.UNKNOWN, **facts)


K8S = WorkloadKind.KUBERNETES
SERVING = WorkloadClass.SERVING
UNKNOWN = WorkloadClass.UNKNOWN


@pytest.mark.parametrize(
    ("workload", "command"),
    [
        (held(WorkloadKind.SLURM, "4711", WorkloadClass.BATCH), "scancel 4711"),
        (held(WorkloadKind.SLURM, "12_3", WorkloadClass.BATCH), "scancel 12_3"),
        (held(WorkloadKind.SLURM, "12+1", WorkloadClass.BATCH), "scancel 12+1"),
        (held(WorkloadKind.SLURM, "my job", WorkloadClass.BATCH), "scancel --name='my job'"),
        (held(WorkloadKind.CONTAINER, "vllm", UNKNOWN, container="a1b2"), "docker stop a1b2"),
        (held(WorkloadKind.SYSTEMD, "chat.service", UNKNOWN), "systemctl stop chat.service"),
    ],
)
def test_owner_decides_on_the_command(workload: Workload, command: str) -> None:
    """With its real names, quoted for the shell where needed."""
    (found,) = release_instructions(case([IDLE], workload))
    assert (found.text, found.language) == (command, "sh")


@pytest.mark.parametrize(
    ("workload", "command"),
    [
        (
            held(K8S, "chat", SERVING, namespace="web"),
            "kubectl -n web scale deployment/chat --replicas=0",
        ),
        (
            held(K8S, "train", WorkloadClass.BATCH, namespace="lab"),
            "kubectl -n lab delete job/train",
        ),
    ],
)
def test_what_is_only_guessed_is_looked_up_before_it_is_changed(
    workload: Workload, command: str
) -> None:
    """An operator that made the object would undo the change."""
    (found,) = release_instructions(case([IDLE], workload))
    _, look, change = found.text.splitlines()
    assert look.endswith(" | grep . ||")
    assert ".metadata.ownerReferences" in look
    assert change.strip() == command


def test_a_pod_that_something_may_make_again_is_not_deleted() -> None:
    """Its name does not tell, and a StatefulSet or a Job would make it again."""
    pod = held(K8S, "ana", WorkloadClass.NOTEBOOK, namespace="lab", pod="ana-0")
    (found,) = release_instructions(case([IDLE], pod))
    assert "delete" not in found.text.splitlines()[-1]
    assert found.text.splitlines()[-1].startswith("kubectl -n lab get pod ana-0 -o jsonpath=")


def test_a_cron_job_is_suspended_and_all_its_jobs_deleted() -> None:
    """Their names are not its own, and the next hour would start another."""
    facts = {"namespace": "quality", "pod": "nightly-29384720-x5k2m"}
    cron = held(K8S, "nightly", WorkloadClass.BATCH, **facts)
    (found,) = release_instructions(case([IDLE], cron))
    suspend, delete = found.text.splitlines()
    assert suspend == (
        """kubectl -n quality patch cronjob/nightly -p '{"spec":{"suspend":true}}'"""
    )
    assert '.metadata.ownerReferences[0].name=="nightly"' in delete
    assert delete.endswith("| xargs -r kubectl -n quality delete")


def test_all_who_share_an_idle_gpu_are_named_together() -> None:
    """The GPU is free once the last of them has gone."""
    pods = [
        replace(
            held(K8S, name, UNKNOWN, namespace="lab", pod=name),
            controller=PodController("Pod", name),
        )
        for name in ("ana", "bo")
    ]
    node = Node(holdings={"GPU-0": tuple(Holding(pod, 0.5) for pod in pods)})
    found = release_instructions(replace(case([IDLE], pods[0]), node=node))
    assert [each.text for each in found] == [
        "kubectl -n lab delete pod/ana",
        "kubectl -n lab delete pod/bo",
    ]


def test_processes_of_a_user_are_named() -> None:
    """Processes on its own GPUs, and only if no other user has any there."""
    user = held(WorkloadKind.USER, "ana", UNKNOWN)
    processes = (Process(812), Process(77))
    reading = Reading(gpu().uuid, 0, {}, processes=processes)
    node = Node(readings={"GPU-0": reading}, holdings={"GPU-0": (Holding(user, 1.0),)})
    (found,) = release_instructions(replace(case([IDLE], user), node=node))
    assert found.text == "kill 77 812"
    others = (Holding(user, 0.5), Holding(held(WorkloadKind.USER, "bo", UNKNOWN), 0.5))
    shared = replace(node, holdings={"GPU-0": others})
    assert release_instructions(replace(case([IDLE], user), node=shared)) == ()


def test_holder_that_is_not_known_is_asked_of_nvidia_smi() -> None:
    """A log has no processes, and names GPUs by their indices."""
    unnamed = replace(case([IDLE]), devices=(replace(gpu(), uuid="index:3"),))
    (found,) = release_instructions(unnamed)
    assert found.text.startswith("nvidia-smi --id=3 --query-compute-apps=pid,name")


def test_nobody_to_ask_is_nothing_to_type() -> None:
    """A history has no processes; for an empty GPU the other possible users are named."""
    (empty,) = release_instructions(case([IDLE]), is_held=False)
    assert (empty.title, empty.language) == ("Let others use it, or return the machine", "text")
    assert release_instructions(case([IDLE], held(WorkloadKind.USER, "ana", UNKNOWN))) == ()
