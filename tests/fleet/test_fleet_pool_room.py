"""Remaining capacity of a pool while parts of it are promised."""

from estate_views import pool, steady
from rightsizer.fleet.pools.pool_room import PoolRoom


def test_parts_of_a_gpu_that_do_not_add_up_in_binary_leave_nothing_behind() -> None:
    """Sevenths of halves fill a GPU exactly."""
    part = 1 / 7
    room = PoolRoom(pool("a", steady(1.0), nodes=1, each=1, free={"a-0": 1}), (), ())

    assert room.give_now(0.5, 0.5) == [("a-0", 0.5)]
    assert room.give_now(part, 0.5) == [("a-0", 0.5)]
    assert room.give_now(part, part) == []
