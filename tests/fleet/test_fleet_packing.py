"""Packing small loads onto GPUs, with and without isolation, and making room for a job."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.fleet.pools.pool_room import HourlyLoad, PackingLimits, pack
from rightsizer.fleet.pools.reclaim import MovableResident, is_fragmented, room_for
from rightsizer.fleet.pools.sharing import slice_up
from rightsizer.sizing.mig import SliceNeed

LIMITS = PackingLimits()
HOURS = 6
BOARDS = [board for board in built_in().boards.values() if board.mig_profiles]

ratios = st.floats(0.0, 1.2, allow_nan=False)
columns = st.lists(ratios, min_size=HOURS, max_size=HOURS)
load_lists = st.lists(st.tuples(columns, columns), max_size=12).map(
    lambda found: [HourlyLoad(f"w{at}", *each) for at, each in enumerate(found)]
)


def load(key: str, compute: Sequence[float], memory: float = 0.1) -> HourlyLoad:
    """A load with constant memory."""
    return HourlyLoad(key, compute, [memory] * len(compute))


def test_loads_that_take_turns_fit_where_their_peaks_would_not() -> None:
    """Sums are of the same hours, not of peaks."""
    packed = pack([load("day", [0.8, 0.0]), load("night", [0.0, 0.8])], LIMITS)
    assert packed.bins == (("day", "night"),)
    together = pack([load("one", [0.8, 0.0]), load("two", [0.8, 0.0])], LIMITS)
    assert together.bins == (("one",), ("two",))
    assert together.at_least == 2


def test_memory_is_a_limit_of_its_own() -> None:
    """The loads have hardly any compute, but more memory than a GPU."""
    apart = pack([load("a", [0.1], 0.5), load("b", [0.1], 0.5)], LIMITS)
    assert apart.bins == (("a",), ("b",))
    assert pack([load("a", [0.1], 0.45), load("b", [0.1], 0.45)], LIMITS).bins == (("a", "b"),)


def test_no_more_are_put_together_than_may_fall_together() -> None:
    """A fault of one may end all workloads on a GPU."""
    packed = pack([load(f"w{at}", [0.01], 0.01) for at in range(9)], LIMITS)
    assert [len(each) for each in packed.bins] == [4, 4, 1]
    assert packed.at_least == 3


@given(load_lists)
def test_no_gpu_is_beyond_its_limits_and_nobody_is_placed_twice(loads: list[HourlyLoad]) -> None:
    """A load that exceeds the limits by itself stays alone."""
    packed = pack(loads, LIMITS)
    placed = [key for each in packed.bins for key in each]
    assert sorted(placed) == sorted(each.key for each in loads)
    by_key = {each.key: each for each in loads}
    for keys in packed.bins:
        members = [by_key[key] for key in keys]
        if len(members) > 1:
            assert len(members) <= LIMITS.most_together
            for hour in range(HOURS):
                assert sum(member.compute[hour] for member in members) <= 0.9 + 1e-9
                assert sum(member.memory[hour] for member in members) <= 0.9 + 1e-9


@given(load_lists)
def test_no_arrangement_goes_below_the_bound(loads: list[HourlyLoad]) -> None:
    """Neither does the computed one."""
    packed = pack(loads, LIMITS)
    assert packed.at_least <= len(packed.bins) <= len(loads)


@given(load_lists, st.randoms())
def test_the_order_of_loads_is_none_of_the_plan(loads: list[HourlyLoad], random: object) -> None:
    """Permuting them changes nothing."""
    shuffled = list(loads)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # A Random.
    assert pack(shuffled, LIMITS) == pack(loads, LIMITS)


@given(load_lists, st.integers(0, HOURS - 1), st.floats(0.0, 0.5))
def test_more_load_never_lowers_the_bound(loads: list[HourlyLoad], hour: int, more: float) -> None:
    """Capacity needed for less load is needed for more load too."""
    small = [each for each in loads if each.size <= 0.4]
    risen = [
        HourlyLoad(
            each.key,
            [value + more * (at == hour) for at, value in enumerate(each.compute)],
            each.memory,
        )
        for each in small
    ]
    assert pack(risen, LIMITS).at_least >= pack(small, LIMITS).at_least


@given(
    st.sampled_from(BOARDS),
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.01, 1.0)), max_size=20),
)
def test_slices_never_take_more_than_a_gpu_has(
    board: object, needs: list[tuple[float, float]]
) -> None:
    """The limits are sevenths of compute, eighths of memory, and the number of each profile."""
    wanted = {
        f"w{at}": SliceNeed(compute, memory, 0.0) for at, (compute, memory) in enumerate(needs)
    }
    found = slice_up(wanted, board)  # type: ignore[arg-type] # A board.
    profiles = {profile.name: profile for profile in board.mig_profiles}  # type: ignore[attr-defined]
    placed = [key for gpu in found for key, _ in gpu]
    assert len(placed) == len(set(placed))
    for gpu in found:
        chosen = [profiles[name] for _, name in gpu]
        assert len(chosen) > 1
        assert sum(each.compute_share for each in chosen) <= 1.01
        assert sum(each.memory_share for each in chosen) <= 1.01
        for key, name in gpu:
            assert wanted[key].compute_ratio <= profiles[name].compute_share
            assert wanted[key].memory_ratio <= profiles[name].memory_share


def test_seven_small_slices_fill_a_gpu() -> None:
    """The catalog's rounded sevenths still sum to one GPU."""
    board = built_in().boards["H100-SXM5-80GB"]
    (gpu,) = slice_up({f"w{at}": SliceNeed(0.1, 0.1, 0.05) for at in range(8)}, board)
    assert [profile for _, profile in gpu] == ["1g.10gb"] * 7


def test_nothing_that_talks_over_nvlink_is_cut() -> None:
    """MIG instances have no NVLink."""
    board = built_in().boards["H100-SXM5-80GB"]
    needs = {f"w{at}": SliceNeed(0.1, 0.1, 0.05, uses_nvlink=True) for at in range(2)}
    assert slice_up(needs, board) == ()


def test_the_fewest_moves_make_room() -> None:
    """One piece of two GPUs is moved rather than two of one."""
    residents = {
        "a": [MovableResident(1, "a1"), MovableResident(1, "a2")],
        "b": [MovableResident(2, "b1")],
        "c": [MovableResident(6, "c1")],
    }
    found = room_for(4, {"a": 2, "b": 2, "c": 2}, residents)
    assert found is not None
    assert found.node == "b"
    assert [(each.key, each.target) for each in found.moves] == [("b1", "a")]


def test_workload_larger_than_any_hole_is_not_moved() -> None:
    """All workloads on the nodes are larger than any hole."""
    residents = {"a": [MovableResident(4, "a1")], "b": [MovableResident(4, "b1")]}
    assert room_for(4, {"a": 2, "b": 2}, residents) is None
    assert room_for(4, {"a": 2, "b": 2}, {}) is None


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 7), min_size=2),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 4)), max_size=10),
    st.integers(2, 8),
)
def test_moves_leave_room_and_overfill_nobody(
    free: dict[str, int], placed: list[tuple[str, int]], wanted: int
) -> None:
    """Afterward the node has the requested room, and no node is overfull."""
    residents: dict[str, list[MovableResident]] = {}
    for at, (node, gpus) in enumerate(placed):
        residents.setdefault(node, []).append(MovableResident(gpus, f"w{at}"))
    if not is_fragmented(free, wanted):
        return
    found = room_for(wanted, free, residents)
    if found is None:
        return
    left = dict(free)
    for move in found.moves:
        left[move.source] += move.gpus
        left[move.target] -= move.gpus
    assert left[found.node] >= wanted
    assert min(left.values()) >= 0
    assert len({each.key for each in found.moves}) == len(found.moves)


@pytest.mark.parametrize(
    ("free", "expected"), [({"a": 4, "b": 0}, False), ({"a": 2, "b": 2}, True), ({"a": 1}, False)]
)
def test_scattered_is_enough_in_all_and_not_on_one(free: dict[str, int], *, expected: bool) -> None:
    """Too few free GPUs in total are not fragmentation."""
    assert is_fragmented(free, 4) is expected
