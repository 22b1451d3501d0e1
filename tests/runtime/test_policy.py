"""What operators say of their workloads, applied to what telemetry found."""

from dataclasses import replace

import pytest

from readings import TRAINING, gpu, snapshot, workload
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.workload import Allocator, Holding, Workload, WorkloadClass
from rightsizer.runtime.policy import Match, Policy, apply

SERVING = Policy(class_=WorkloadClass.SERVING)


def held_by(holder: Workload, uuid: str = "GPU-0") -> Snapshot:
    """A GPU that somebody trains on."""
    device = gpu(uuid=uuid)
    return snapshot(1.0, [device], {device: TRAINING}, holders={device: holder})


def told(holder: Workload, *policies: Policy, uuid: str = "GPU-0") -> Workload:
    """The holder after the policies."""
    return apply(held_by(holder, uuid), policies).holdings[uuid][0].workload


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(), True),
        (Match(owner="llama"), True),
        (Match(owner="ll*"), True),
        (Match(owner="LL*"), False),
        (Match(owner="llama", namespace="prod"), True),
        (Match(owner="llama", namespace="dev"), False),
        (Match(namespace="pr??"), True),
        (Match(gpu="GPU-*"), True),
        (Match(gpu="GPU-1"), False),
    ],
)
def test_every_pattern_that_is_given_must_fit(match: Match, fits: bool) -> None:  # noqa: FBT001
    """Patterns are the shell's, and letters count as they are written."""
    holder = replace(workload("llama"), namespace="prod")
    found = told(holder, replace(SERVING, match=match))

    assert (found.workload_class is WorkloadClass.SERVING) is fits


def test_the_first_policy_that_fits_is_the_one() -> None:
    """A general policy can follow a special one."""
    special = Policy(Match(owner="llama"), class_=WorkloadClass.STANDBY)

    assert told(workload("llama"), special, SERVING).workload_class is WorkloadClass.STANDBY
    assert told(workload("other"), special, SERVING).workload_class is WorkloadClass.SERVING


def test_what_a_policy_leaves_open_stays_as_it_was_found() -> None:
    """A policy on the allocator says nothing of the class."""
    holder = workload("llama", WorkloadClass.BATCH, Allocator.GROWING)
    found = told(holder, Policy(allocator=Allocator.PREALLOCATING))

    assert found == replace(holder, allocator=Allocator.PREALLOCATING)


def test_a_policy_can_be_about_one_gpu() -> None:
    """The pattern is matched against the uuid of the GPU that is held."""
    only_second = Policy(Match(gpu="GPU-1"), class_=WorkloadClass.SERVING)

    assert told(workload(), only_second).workload_class is WorkloadClass.BATCH
    assert told(workload(), only_second, uuid="GPU-1").workload_class is WorkloadClass.SERVING


def test_shares_stay_and_the_rest_of_the_snapshot_too() -> None:
    """Only the holders' facts change."""
    before = held_by(workload())
    halves = replace(before, holdings={"GPU-0": (Holding(workload(), 0.5),)})
    after = apply(halves, [SERVING])

    assert after.holdings["GPU-0"][0].share_ratio == 0.5
    assert replace(after, holdings=halves.holdings) == halves


def test_without_policies_the_snapshot_is_the_same_object() -> None:
    """What is not asked for costs nothing, once a second."""
    before = held_by(workload())

    assert apply(before, ()) is before
