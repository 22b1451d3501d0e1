"""MIG slices that satisfy a need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.mig import SliceNeed, fitting_slices

A100 = built_in().get("A100-SXM4-80GB")
T4 = built_in().get("T4")
RATIOS = st.floats(0.0, 1.2)


def names(need: SliceNeed) -> list[str]:
    """The profiles of an A100 that satisfy a need."""
    return [profile.name for profile in fitting_slices(A100, need)]


def test_small_need_fits_every_slice_smallest_first() -> None:
    """The cheapest option is first."""
    found = fitting_slices(A100, SliceNeed(0.1, 0.1, 0.1))
    sizes = [(profile.compute_share, profile.memory_share) for profile in found]
    assert found[0].name == "1g.10gb"
    assert sizes == sorted(sizes)


def test_whole_board_is_no_slice_of_it() -> None:
    """`7g` saves nothing."""
    assert all(not name.startswith("7g") for name in names(SliceNeed(0.0, 0.0, 0.0)))


@pytest.mark.parametrize(
    ("need", "smallest"),
    [
        (SliceNeed(1 / 7, 1 / 8, 1 / 8), "1g.10gb"),
        (SliceNeed(0.15, 0.1, 0.1), "2g.20gb"),
        (SliceNeed(0.1, 0.2, 0.0), "1g.20gb"),
        (SliceNeed(0.1, 0.0, 0.2), "1g.20gb"),
        (SliceNeed(0.4, 0.45, 0.1), "3g.40gb"),
    ],
)
def test_each_resource_must_fit(need: SliceNeed, smallest: str) -> None:
    """Compute scales with SMs, memory and bandwidth with memory slices."""
    assert names(need)[0] == smallest


@pytest.mark.parametrize(
    "need", [SliceNeed(0.6, 0.1, 0.1), SliceNeed(0.1, 0.6, 0.1), SliceNeed(0.1, 0.1, 0.6)]
)
def test_need_beyond_every_slice_fits_none(need: SliceNeed) -> None:
    """More than half of any resource needs the whole board."""
    assert names(need) == []


def test_nvlink_and_boards_without_mig_have_no_slices() -> None:
    """There is no NVLink inside MIG, and a T4 has no MIG."""
    assert names(SliceNeed(0.1, 0.1, 0.1, uses_nvlink=True)) == []
    assert fitting_slices(T4, SliceNeed(0.1, 0.1, 0.1)) == ()


@given(RATIOS, RATIOS, RATIOS, st.floats(0.0, 0.5))
def test_larger_need_never_gains_a_slice(
    compute: float, memory: float, bandwidth: float, more: float
) -> None:
    """Any slice that holds the larger need holds the smaller."""
    larger = names(SliceNeed(compute + more, memory + more, bandwidth + more))
    assert set(larger) <= set(names(SliceNeed(compute, memory, bandwidth)))
