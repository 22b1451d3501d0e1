"""Sets of GPUs by the quality of their links."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.topology import LinkKind, Topology
from rightsizer.sizing.gpu_sets import best_set, link_score, score_of
from standing_cases import joined

KINDS = [LinkKind.NVLINK, LinkKind.PIX, LinkKind.PXB, LinkKind.PHB, LinkKind.NODE, LinkKind.SYSTEM]


def named(count: int) -> list[str]:
    """The uuids of some GPUs."""
    return [f"GPU-{index}" for index in range(count)]


@st.composite
def machines(draw: st.DrawFn) -> tuple[Topology, int, int]:
    """A topology of up to seven GPUs, their number, and the requested number."""
    count = draw(st.integers(2, 7))
    kinds = {pair: draw(st.sampled_from(KINDS)) for pair in combinations(range(count), 2)}
    return joined(kinds, count), count, draw(st.integers(1, count))


@given(machines())
def test_no_set_is_better(machine: tuple[Topology, int, int]) -> None:
    """Pruned branches lose nothing."""
    topology, count, wanted = machine
    found = best_set(named(count), wanted, topology)
    assert found is not None
    scores = [score_of(combination, topology) for combination in combinations(named(count), wanted)]
    assert found.score == max(scores) == score_of(found.uuids, topology)


def test_nearer_is_better() -> None:
    """In the order of `nvidia-smi topo`, and by the number of NVLinks."""
    found = [joined({(0, 1): kind}, 2).links[0] for kind in KINDS]
    scores = [link_score(link) for link in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 400
    assert link_score(None) == 0


def test_the_weakest_pair_decides_before_the_sum() -> None:
    """A ring is as fast as its slowest link."""
    kinds = {(0, 1): LinkKind.NVLINK, (0, 2): LinkKind.SYSTEM, (1, 2): LinkKind.SYSTEM}
    even = {(3, 4): LinkKind.PIX, (3, 5): LinkKind.PIX, (4, 5): LinkKind.PIX}
    found = best_set(named(6), 3, joined(kinds | even, 6))
    assert found is not None
    assert found.uuids == ("GPU-3", "GPU-4", "GPU-5")


def test_of_equal_sets_the_one_that_is_held_stays() -> None:
    """Nothing moves without a gain."""
    found = best_set(named(4), 2, joined({}, 4), present=("GPU-2", "GPU-3"))
    assert found is not None
    assert found.uuids == ("GPU-2", "GPU-3")


def test_sixteen_gpus_are_looked_through_and_more_are_refused() -> None:
    """The search is exact, or says that it cannot be."""
    found = best_set(named(16), 8, joined({}, 16))
    assert found is not None
    assert len(found.uuids) == 8
    with pytest.raises(ValueError, match="17 GPUs are too many"):
        best_set(named(17), 8, joined({}, 17))
    assert best_set(named(2), 3, joined({}, 2)) is None
