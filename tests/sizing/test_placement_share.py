"""Two workloads on one GPU."""

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.place import find_place
from rightsizer.sizing.projection import Sharing, shared_time_ratio
from rightsizer.sizing.workload_profile import UsageShares, WorkloadProfile


def profile(busy: float, tensor: float, gpu: str = "A30") -> WorkloadProfile:
    """A workload that computes for a share of the time."""
    shares = UsageShares(sm_active=tensor, tensor_active=tensor, dram_active=0.0, gpu_busy=busy)
    return WorkloadProfile(find_place(built_in(), gpu), shares)


def test_two_that_fill_a_gpu_take_twice_as_long() -> None:
    """This holds side by side and in turn."""
    full = profile(1.0, 0.9)
    for sharing in Sharing:
        assert shared_time_ratio(full, full, sharing).value == pytest.approx(2.0)


def test_complementary_workloads_overlap_on_a_shared_gpu() -> None:
    """Kernels that use a third of the pipes overlap side by side, but not in turn."""
    light = profile(1.0, 0.25)
    beside = shared_time_ratio(light, light, Sharing.MPS)
    assert beside.value == pytest.approx(1.0)
    assert beside.low == 1.0
    assert beside.high > 1.2
    assert shared_time_ratio(light, light, Sharing.TIME_SLICE).value == pytest.approx(2.0)


def test_an_idle_neighbor_costs_nothing() -> None:
    """An idle workload delays none."""
    full = profile(1.0, 0.9)
    idle = profile(0.0, 0.0)
    for sharing in Sharing:
        assert shared_time_ratio(full, idle, sharing).value == pytest.approx(1.0)
        assert shared_time_ratio(idle, full, sharing).value == pytest.approx(1.0)


def test_profiles_of_different_places_do_not_add_up() -> None:
    """A share refers to one place."""
    with pytest.raises(RequirementError, match="project one profile"):
        shared_time_ratio(profile(1, 0.2), profile(1, 0.2, gpu="L4"), Sharing.MPS)
