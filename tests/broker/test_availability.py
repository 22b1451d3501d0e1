"""Availability of a slot: measured use counts, and unmeasured use promises nothing."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placement_nodes import GIBIBYTE, hgx, mig_node
from rightsizer.broker.lease import GpuRequest, Lease, LeaseOwner
from rightsizer.broker.settings import FreeSettings
from rightsizer.broker.slot import (
    LeaseSlot,
    SlotHolder,
    SlotObstacle,
    SlotVerdict,
    judge_slot,
    set_aside_bytes,
)
from rightsizer.model.state import Condition, Resource, State

_SETTINGS: Final = FreeSettings()
_SLOT: Final = hgx().slots[0]
_HELD: Final = (SlotHolder("train", True),)
_GIVEN: Final = (SlotHolder("pod", False),)
_LITTLE: Final = {Resource.COMPUTE: 0.3, Resource.MEMORY_BANDWIDTH: 0.2}


def slot(**facts: Any) -> LeaseSlot:
    """An empty H100 with changed facts."""
    return replace(_SLOT, **facts)


def lease(gibibytes: float, *, is_shared: bool = True) -> Lease:
    """A lease on the slot."""
    client = LeaseOwner(1000, "ana", 42, 1)
    memory = (gibibytes * GIBIBYTE,)
    return Lease("k3", client, GpuRequest(), (_SLOT.uuid,), memory, is_shared, 0, 0, None)


def judged(of: LeaseSlot, *leases: Lease, is_reserved: bool = False, **request: Any) -> SlotVerdict:
    """The verdict under the default settings."""
    return judge_slot(of, GpuRequest(**request), _SETTINGS, leases, is_reserved=is_reserved)


@pytest.mark.parametrize(
    ("of", "obstacle", "why"),
    [
        (slot(trouble="down: GPU is lost"), SlotObstacle.DOWN, "down: GPU is lost"),
        (
            slot(conditions=frozenset({Condition.HARDWARE_SLOWDOWN})),
            SlotObstacle.UNHEALTHY,
            "the hardware slows its own clocks down",
        ),
        (slot(holders=_HELD, state=State.COMPUTE_BOUND), SlotObstacle.HELD, "held by train"),
        (slot(holders=_HELD, state=State.UNKNOWN), SlotObstacle.HELD, "held by train"),
        (
            slot(holders=_HELD, state=State.IDLE_HELD, idle_seconds=7200.0),
            SlotObstacle.HELD_IDLE,
            "held by train and idle for 2 h; could be reclaimed from it",
        ),
        (
            slot(holders=_HELD, state=State.IDLE_HELD),
            SlotObstacle.HELD_IDLE,
            "held by train and idle; could be reclaimed from it",
        ),
        (
            slot(holders=_GIVEN),
            SlotObstacle.ALLOCATED,
            "given to pod by a scheduler, with no process on it",
        ),
        (
            slot(state=State.PRODUCTIVE),
            SlotObstacle.BUSY,
            "at work (productive), and no process of it is known",
        ),
        (
            slot(state=State.IDLE_HELD),
            SlotObstacle.HELD_IDLE,
            "its memory is held by an unknown process and idle",
        ),
        (
            slot(state=State.UNKNOWN, memory_used_bytes=None),
            SlotObstacle.UNKNOWN,
            "neither its state nor its use of memory is known",
        ),
        (
            slot(state=State.UNKNOWN, memory_used_bytes=2.0 * GIBIBYTE),
            SlotObstacle.HELD,
            "2.0 GiB of its memory are in use by an unknown process",
        ),
        (
            mig_node([["1g.10gb"]]).slots[0],
            SlotObstacle.DIVIDED,
            "divided into MIG instances; ask for one of those by its profile",
        ),
        (
            slot(device=replace(_SLOT.device, facts={"mig_mode": "enabled"})),
            SlotObstacle.DIVIDED,
            (
                "in MIG mode without an instance, so that nothing can run on it; make one, or turn "
                "the mode off"
            ),
        ),
    ],
)
def test_a_seat_in_use_or_in_trouble_is_not_free(
    of: LeaseSlot, obstacle: SlotObstacle, why: str
) -> None:
    """The reason names the holder or the fault."""
    verdict = judged(of)
    assert (verdict.obstacle, verdict.why) == (obstacle, why)
    assert not verdict.is_free


def test_an_empty_seat_is_free_with_all_that_is_left_of_its_memory() -> None:
    """Minus the driver's reservation."""
    verdict = judged(slot(memory_used_bytes=0.5 * GIBIBYTE))
    assert verdict.is_free
    assert verdict.is_certain
    assert verdict.memory_left_bytes == 79.5 * GIBIBYTE


def test_a_seat_that_nobody_measured_is_free_but_not_for_certain() -> None:
    """Without a holder, and with no more memory in use than the driver's own."""
    verdict = judged(slot(state=State.UNKNOWN, memory_used_bytes=0.4 * GIBIBYTE))
    assert verdict.is_free
    assert not verdict.is_certain


@pytest.mark.parametrize("state", list(State))
def test_reserved_gpu_is_not_available(state: State) -> None:
    """Whatever runs on it."""
    assert not judged(slot(state=state), is_reserved=True).is_free
    assert judged(slot(), is_reserved=True).obstacle is SlotObstacle.RESERVED


def test_memory_must_suffice() -> None:
    """In total and of the remainder; nothing fits into an unknown size."""
    assert judged(slot(), memory_bytes=80.0 * GIBIBYTE).is_free
    large = judged(slot(), memory_bytes=81.0 * GIBIBYTE)
    assert large.why == "has 80.0 GiB of memory in all, 81.0 GiB are asked"
    used = judged(slot(memory_used_bytes=1.0 * GIBIBYTE), memory_bytes=80.0 * GIBIBYTE)
    assert used.why == "has 79.0 GiB of memory left, and 80.0 GiB are asked for"
    unknown = slot(device=replace(_SLOT.device, memory_total_bytes=None))
    assert judged(unknown, memory_bytes=1.0).obstacle is SlotObstacle.MEMORY
    assert judged(unknown).is_free


def test_instances_are_for_those_who_name_them_or_want_a_single_one() -> None:
    """Instances are neither part of a set of GPUs nor whole GPUs."""
    parent, small, large = mig_node([["1g.10gb", "3g.40gb"]]).slots
    assert judged(small, mig_profile="1G.10GB").is_free
    assert judged(large, mig_profile="1g.10gb").obstacle is SlotObstacle.PROFILE
    assert judged(_SLOT, mig_profile="1g.10gb").obstacle is SlotObstacle.PROFILE
    assert judged(small, gpus=2).obstacle is SlotObstacle.PROFILE
    assert judged(small, gpus=2, mig_profile="1g.10gb").is_free
    assert judged(small).is_free
    assert judged(parent, mig_profile="1g.10gb").obstacle is SlotObstacle.DIVIDED


def test_a_leased_seat_is_left_to_its_lease() -> None:
    """Unless both may share it; the reason does not name the holder."""
    shared = slot(demand=_LITTLE)
    assert judged(shared, lease(10)).obstacle is SlotObstacle.LEASED
    assert judged(shared, lease(10)).why == "leased (k3)"
    wants = {"may_share": True, "memory_bytes": 10.0 * GIBIBYTE}
    assert judged(shared, lease(10, is_shared=False), **wants).obstacle is SlotObstacle.LEASED
    verdict = judged(shared, lease(10), **wants)
    assert verdict.is_free
    assert verdict.is_shared
    assert verdict.memory_left_bytes == 69.0 * GIBIBYTE


@pytest.mark.parametrize(
    ("of", "leases", "left"),
    [
        (slot(holders=_HELD, memory_used_bytes=20.0 * GIBIBYTE), (), 59.0),
        (slot(memory_used_bytes=5.0 * GIBIBYTE), (lease(20), lease(10)), 49.0),
        (slot(memory_used_bytes=35.0 * GIBIBYTE), (lease(20), lease(10)), 44.0),
        (slot(holders=_HELD, memory_used_bytes=20.0 * GIBIBYTE), (lease(30),), 29.0),
    ],
)
def test_the_larger_of_set_aside_and_measured_memory_is_taken(
    of: LeaseSlot, leases: tuple[Lease, ...], left: float
) -> None:
    """Plus the reserve; memory of unknown processes comes on top."""
    of = replace(of, demand=_LITTLE)
    wants = {"may_share": True, "memory_bytes": left * GIBIBYTE}
    assert judged(of, *leases, **wants).memory_left_bytes == left * GIBIBYTE
    more = judged(of, *leases, may_share=True, memory_bytes=left * GIBIBYTE + 1)
    assert more.obstacle is SlotObstacle.MEMORY


@pytest.mark.parametrize(
    ("demand", "why"),
    [
        ({}, "what is on it was not measured long enough for compute"),
        (
            {Resource.COMPUTE: 0.2},
            "what is on it was not measured long enough for memory bandwidth",
        ),
        ({**_LITTLE, Resource.COMPUTE: 0.6}, "what is on it needs 60% of its compute"),
        (
            {**_LITTLE, Resource.MEMORY_BANDWIDTH: 0.51},
            "what is on it needs 51% of its memory bandwidth",
        ),
    ],
)
def test_a_seat_is_shared_only_where_what_is_on_it_was_measured_to_need_little(
    demand: dict[Resource, float], why: str
) -> None:
    """Both compute and memory bandwidth."""
    of = slot(holders=_HELD, state=State.PRODUCTIVE, demand=demand)
    verdict = judged(of, may_share=True, memory_bytes=1.0 * GIBIBYTE)
    assert (verdict.obstacle, verdict.why) == (SlotObstacle.NEEDS, why)


@pytest.mark.parametrize(
    ("of", "obstacle"),
    [
        (slot(holders=_GIVEN, demand=_LITTLE), SlotObstacle.ALLOCATED),
        (slot(state=State.PRODUCTIVE, demand=_LITTLE), SlotObstacle.BUSY),
        (slot(holders=_HELD, memory_used_bytes=None, demand=_LITTLE), SlotObstacle.MEMORY),
    ],
)
def test_nobody_is_put_beside_what_nobody_knows(of: LeaseSlot, obstacle: SlotObstacle) -> None:
    """A pod about to start, an unseen process, unread memory."""
    assert judged(of, may_share=True, memory_bytes=1.0 * GIBIBYTE).obstacle is obstacle


def test_one_who_does_not_say_how_much_memory_shares_with_nobody() -> None:
    """Such a request needs all of a GPU's memory; an empty GPU is still given."""
    of = slot(holders=_HELD, demand=_LITTLE)
    assert judged(of, may_share=True).obstacle is SlotObstacle.MEMORY
    assert judged(slot(), may_share=True).is_free


@given(st.lists(st.floats(0, 100), max_size=4), st.floats(0, 100), st.floats(0.1, 100))
def test_shared_memory_is_never_promised_twice(
    asides: list[float], used: float, wanted: float
) -> None:
    """Grants, use, the reserve and the request fit into the GPU together."""
    leases = [lease(aside) for aside in asides]
    of = slot(demand=_LITTLE, memory_used_bytes=used * GIBIBYTE, holders=_HELD)
    verdict = judged(of, *leases, may_share=True, memory_bytes=wanted * GIBIBYTE)
    if verdict.is_free:
        taken = set_aside_bytes(of.uuid, leases) + _SETTINGS.shared_memory_reserve_bytes
        assert taken + max(used, wanted) * GIBIBYTE <= 80 * GIBIBYTE
        assert taken + (used + wanted) * GIBIBYTE <= 80 * GIBIBYTE * (1 + 1e-12)
