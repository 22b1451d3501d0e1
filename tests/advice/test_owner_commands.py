"""Commands for an operator to release GPUs."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import gpu
from rightsizer.advice.rules.idle import release_instructions
from rightsizer.model.finding import Node
from rightsizer.model.reading import Process, Reading
from rightsizer.model.state import State
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind

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
        (
            held(K8S, "chat", SERVING, namespace="web"),
            "kubectl -n web scale deployment/chat --replicas=0",
        ),
        (
            held(K8S, "train", WorkloadClass.BATCH, namespace="lab"),
            "kubectl -n lab delete job train",
        ),
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


def test_what_made_a_pod_is_looked_up_before_it_is_deleted() -> None:
    """Its name does not tell, and a StatefulSet or a Job would make it again."""
    pod = held(K8S, "ana", WorkloadClass.NOTEBOOK, namespace="lab", pod="ana-0")
    (found,) = release_instructions(case([IDLE], pod))
    assert found.text.splitlines()[1:] == [
        "kubectl -n lab get pod ana-0 -o jsonpath='{.metadata.ownerReferences[*].kind}'",
        "kubectl -n lab delete pod ana-0",
    ]


def test_a_cron_job_is_suspended_and_its_run_deleted() -> None:
    """The run's job has another name, and the next hour would start another."""
    facts = {"namespace": "quality", "pod": "nightly-29384720-x5k2m"}
    cron = held(K8S, "nightly", WorkloadClass.BATCH, **facts)
    (found,) = release_instructions(case([IDLE], cron))
    assert found.text == (
        """kubectl -n quality patch cronjob nightly -p '{"spec":{"suspend":true}}'\n"""
        "kubectl -n quality delete job nightly-29384720 --ignore-not-found"
    )


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
