"""Commands of owners: each kind has its own; the default is manual."""

import shlex
from typing import Final

import pytest
from msgspec.structs import replace

from rightsizer.model.finding import Action
from rightsizer.model.workload import (
    PodController,
    Workload,
    WorkloadClass,
    WorkloadKind,
    workload_of_pod,
)
from rightsizer.owners.owner import Owner
from rightsizer.owners.registry import owner_of, scheduler_of, schedulers_of

K8S = WorkloadKind.KUBERNETES
SLURM = WorkloadKind.SLURM
ALLOCATION: Final = "1b2f6f6e-0c5a-4d0a-9a50-3f3f3d7f8a11"
OTHERS: Final = [None, *(kind for kind in WorkloadKind if kind not in {K8S, SLURM})]
ODD: Final = Workload("kubernetes:a b/c;d", K8S, "c;d", WorkloadClass.SERVING, namespace="a b")


@pytest.mark.parametrize("kind", [K8S, SLURM])
def test_a_scheduler_drains_its_own_nodes(kind: WorkloadKind) -> None:
    """No other scheduler does."""
    (own,) = schedulers_of(kind)
    assert own is owner_of(kind)
    assert own is scheduler_of(kind)


@pytest.mark.parametrize("kind", OTHERS)
def test_both_schedulers_may_drain_a_node_of_other_workloads(kind: WorkloadKind | None) -> None:
    """The first of them is a fleet's default."""
    assert [type(each) for each in schedulers_of(kind)] == [
        type(owner_of(K8S)),
        type(owner_of(SLURM)),
    ]
    assert scheduler_of(kind) is owner_of(K8S)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_owners_share_gpus_by_hand(kind: WorkloadKind | None) -> None:
    """A manifest fragment would help none of them."""
    owner = owner_of(kind)
    assert isinstance(owner, Owner)
    assert owner.share_device(Action.SHARE_MPS) == ()
    assert owner.request_slice("1g.10gb") == ()
    assert owner.scale_by_hour(ODD, (), ()) == ()


@pytest.mark.parametrize("kind", OTHERS)
def test_only_pods_and_simulated_services_follow_a_queue(kind: WorkloadKind | None) -> None:
    """It must be possible to add replicas."""
    assert bool(owner_of(kind).scale_by_queue(ODD)) is (kind is WorkloadKind.SIMULATED)
    assert owner_of(K8S).scale_by_queue(ODD)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("vllm.service", "systemctl stop vllm.service"),
        ("user@1000.service/nb.scope", "systemctl --user --machine=1000@ stop nb.scope"),
        (f"{ALLOCATION}.train.scope", f"nomad alloc stop {ALLOCATION}"),
    ],
)
def test_a_unit_is_stopped_by_its_manager(name: str, command: str) -> None:
    """The host's manager does not know the units of users."""
    (found,) = owner_of(WorkloadKind.SYSTEMD).release(
        Workload(f"systemd:{name}", WorkloadKind.SYSTEMD, name)
    )
    assert found.text == command


@pytest.mark.parametrize("name", ["lxc.payload.lab/nb.service", "pbs_jobs.service/jobid/1001.srv"])
def test_what_no_manager_of_the_host_knows_has_no_command(name: str) -> None:
    """A container's unit, and a job that would end with all others of its batch system."""
    assert (
        owner_of(WorkloadKind.SYSTEMD).release(
            Workload(f"systemd:{name}", WorkloadKind.SYSTEMD, name)
        )
        == ()
    )


def test_names_are_quoted_for_a_shell() -> None:
    """This covers adding replicas and releasing all."""
    (more,), (none,) = owner_of(K8S).add_replicas(ODD, "3"), owner_of(K8S).release(ODD)

    for found, count in ((more, "3"), (none, "0")):
        command = found.text.splitlines()[-1]
        assert shlex.split(command) == [
            "kubectl",
            "-n",
            "a b",
            "scale",
            "deployment/c;d",
            f"--replicas={count}",
        ]


def test_a_name_within_quotes_cannot_end_them() -> None:
    """Names come from labels of a store; no object has such a one."""
    cron = PodController("CronJob", "a'; rm -rf / '")
    (found,) = owner_of(K8S).release(replace(ODD, controller=cron))
    suspend, delete = found.text.splitlines()
    assert shlex.split(suspend)[4] == "cronjob/a'; rm -rf / '"
    assert "rm" not in shlex.split(delete)


def test_a_revision_is_not_scaled() -> None:
    """Knative would set the replicas of its Deployment again."""
    workload = workload_of_pod("ml", "chat-00042-deployment-6b7f7c9c8d-x7k2p")
    owner = owner_of(K8S)
    assert owner.add_replicas(workload, "3") == ()
    assert owner.scale_by_hour(workload, (), ()) == ()
    (found,) = owner.release(workload)
    assert "patch services.serving.knative.dev/chat " in found.text


@pytest.mark.parametrize(
    ("controller", "target"),
    [
        (PodController("StatefulSet", "llm"), ["kind: StatefulSet", "name: llm"]),
        (
            PodController("Rollout", "llm"),
            ["apiVersion: argoproj.io/v1alpha1", "kind: Rollout", "name: llm"],
        ),
        (PodController("RayCluster", "llm"), []),
    ],
)
def test_what_has_replicas_is_scaled(controller: PodController, target: list[str]) -> None:
    """An autoscaler names the object that makes the pods, whatever its kind."""
    workload = replace(ODD, controller=controller)
    found = owner_of(K8S).scale_by_hour(workload, (), ())
    lines = [line.strip() for each in found for line in each.text.splitlines()]
    place = lines.index("scaleTargetRef:") if lines else 0
    assert lines[place + 1 : place + 1 + len(target)] == target
    assert bool(owner_of(K8S).add_replicas(workload, "2")) is bool(target)
