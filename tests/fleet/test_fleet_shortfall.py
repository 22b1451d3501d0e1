"""Waiting work without an offer: schedulers of pools, missing capacity, and the text."""

import pytest
from msgspec.structs import replace

from estate_views import pool, steady, view, work
from readings import GIBIBYTE
from rightsizer.fleet.model import FleetPool, WaitingWork
from rightsizer.fleet.pools.placement import place_waiting
from rightsizer.model.workload import WorkloadClass, WorkloadKind


def a_pool(name: str, free: int, gibibytes: float = 80) -> FleetPool:
    """Two nodes of eight GPUs, some of which are free on the first."""
    found = pool(name, steady(1.0), nodes=2, free={f"{name}-0": free})
    devices = tuple(
        replace(device, device=replace(device.device, memory_total_bytes=gibibytes * GIBIBYTE))
        for device in found.devices
    )
    return replace(found, devices=devices)


def test_a_pool_without_work_is_its_scheduler_s_too() -> None:
    """Nodes of Kubernetes do not serve a Slurm queue, even when idle."""
    empty = a_pool("empty", 4)
    devices = tuple(replace(device, scheduler=WorkloadKind.KUBERNETES) for device in empty.devices)
    waiting = [
        WaitingWork("jobs", "jobs", 4.0, 9.0, 1.0),
        WaitingWork("w", "", 1.0, 1.0, 1.0, "web"),
    ]
    queue, pod = place_waiting(view([replace(empty, devices=devices)], waiting=waiting), [])

    assert (queue.now_gpus, queue.why_left) == (0.0, "1 pool is another scheduler's.")
    assert pod.now_gpus == 1.0


@pytest.mark.parametrize(
    ("waiting", "why"),
    [
        (WaitingWork("w", "own", 1.0, gpus_each=1.0), ""),
        (
            WaitingWork("w", "own", 8.0, gpus_each=4.0),
            (
                "no node of own has 4 GPUs left, free or after any advice or move; "
                "2 pools have not the 80 GiB a GPU that it needs; 1 pool is another scheduler's."
            ),
        ),
        (
            WaitingWork("w", "own", 4.0),
            (
                "no node of own has 4 GPUs left, free or after any advice or move; "
                "2 pools have not the 80 GiB a GPU that it needs; 1 pool is another scheduler's."
            ),
        ),
        (
            WaitingWork("w", "", 16.0, gpus_each=16.0, namespace="web"),
            "3 pools have no node of 16 GPUs; 1 pool is another scheduler's.",
        ),
        (
            WaitingWork("w", "", 9.0, gpus_each=1 / 7, namespace="web"),
            (
                "no node of s, t, own has 0.1429 GPUs left, free or after any advice or move; "
                "1 pool is another scheduler's."
            ),
        ),
    ],
    ids=["served", "full", "of unknown parts", "too large", "of small parts"],
)
def test_unmet_request_has_a_reason_of_each_pool(waiting: WaitingWork, why: str) -> None:
    """The first that applies: scheduler, GPU and node size, or a full pool."""
    own = a_pool("own", 3)
    small = [a_pool(name, 1, 24) for name in "st"]
    jobs = a_pool("jobs", 8)
    workloads = [
        work("api", "own", {"own-1": 8}),
        work("job", "jobs", {"jobs-1": 8}, WorkloadClass.BATCH, kind=WorkloadKind.SLURM),
    ]
    (found,) = place_waiting(view([own, *small, jobs], workloads, [waiting]), [])

    assert found.why_left == why
    assert bool(found.left_gpus) is bool(why)


def test_without_a_pool_there_is_nothing_to_say() -> None:
    """All of the fleet's GPUs have disappeared."""
    (found,) = place_waiting(view([], waiting=[WaitingWork("w", "", 1.0)]), [])

    assert found.why_left == "No pool is known."
