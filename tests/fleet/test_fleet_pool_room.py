"""Remaining capacity of a pool while parts of it are promised."""

from msgspec.structs import replace

from estate_views import pool, steady
from rightsizer.fleet.pools.pool_room import PoolRoom
from rightsizer.fleet.pools.reclaim import Reclaim
from rightsizer.model.finding import Action


def test_parts_of_a_gpu_that_do_not_add_up_in_binary_leave_nothing_behind() -> None:
    """Sevenths of halves fill a GPU exactly."""
    part = 1 / 7
    room = PoolRoom(pool("a", steady(1.0), nodes=1, each=1, free={"a-0": 1}), (), ())

    assert room.give_now(0.5, 0.5) == [("a-0", 0.5)]
    assert room.give_now(part, 0.5) == [("a-0", 0.5)]
    assert room.give_now(part, part) == []


def test_a_part_goes_to_the_shared_gpu_where_it_leaves_least() -> None:
    """Room of two shared GPUs makes no larger part."""
    shared = replace(
        pool("a", steady(1.0), nodes=2, each=2, free={"a-0": 1}),
        shared_room={"a-0": (0.5,), "a-1": (0.25, 0.3)},
    )
    room = PoolRoom(shared, (), ())

    assert shared.has_room(1.0)
    assert not replace(shared, free_by_node={}).has_room(0.55)
    assert room.give_now(0.25, 0.25) == [("a-1", 0.25)]
    assert room.give_now(0.25, 0.5) == [("a-1", 0.25), ("a-0", 0.25)]
    assert room.give_now(1.0, 1.0) == [("a-0", 1.0)]
    assert room.give_now(0.55, 0.55) == []


def test_the_rest_of_a_freed_gpu_is_given_before_more_is_freed() -> None:
    """Two halves need one GPU to be freed, not two."""
    reclaim = Reclaim("idle", Action.RELEASE, ("web/a",), "a", {"a-0": 1}, 0, 0, 9.0)
    room = PoolRoom(pool("a", steady(1.0), nodes=1, each=1, free={"a-0": 0}), [reclaim], ())
    first = room.cheapest(0.5)
    assert first is not None
    assert room.give_after(first, 0.5, 0.5)[0] == 0.5
    second = room.cheapest(0.5)
    assert second is not None
    assert second.reclaims == ()
    assert room.give_after(second, 0.5, 0.5)[0] == 0.5
    assert room.cheapest(0.5) is None
