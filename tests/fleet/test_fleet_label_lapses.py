"""Time in which an exporter loses the labels of a pod is the pod's (dcgm-exporter#428)."""

from typing import Final

import numpy as np
import pytest

from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP
from rightsizer.fleet.sources.dcgm_exporter.holdings import ExporterPresence, held_runs
from rightsizer.model.workload import Workload, workload_of_pod

POD: Final = workload_of_pod("ml", "llm-svc-0")
OTHER: Final = workload_of_pod("ml", "train-0")


def runs(step: int, **counts: list[float]) -> list[tuple[str, int, int, float]]:
    """Holdings of samples by interval: `pod`, `other`, and `none` without a label."""
    names: dict[str, Workload | None] = {"pod": POD, "other": OTHER, "none": None}
    presence = ExporterPresence({names[name]: np.array(found) for name, found in counts.items()})
    workloads = {each: each for each in (POD, OTHER)}
    found = held_runs(presence, workloads, step)
    return [(run.workload.pod, run.first, run.last, run.share_ratio) for run in found]


def test_labels_that_come_and_go_leave_no_hole() -> None:
    """Twenty minutes with, twenty without, and parts of both."""
    found = runs(FINE_STEP, pod=[5, 5, 2, 0, 0, 3, 5, 5], none=[0, 0, 3, 5, 5, 2, 0, 0])
    assert found == [("llm-svc-0", 0, 7, 1.0)]


def test_the_ends_are_not_guessed() -> None:
    """Before the first and after the last sighting it may not have been there."""
    found = runs(FINE_STEP, pod=[0, 2, 0, 2, 0], none=[4, 2, 4, 2, 4])
    assert found == [
        ("llm-svc-0", 1, 1, 0.5),
        ("llm-svc-0", 2, 2, 1.0),
        ("llm-svc-0", 3, 3, 0.5),
    ]


@pytest.mark.parametrize(("hours", "is_bridged"), [(1, True), (2, False)])
def test_a_long_absence_is_one(hours: int, *, is_bridged: bool) -> None:
    """A StatefulSet's pod keeps its name when it comes back."""
    gap = [0.0] * (hours * COARSE_STEP // FINE_STEP)
    found = runs(FINE_STEP, pod=[5, *gap, 5], none=[0, *(5.0 for _ in gap), 0])
    assert len(found) == (1 if is_bridged else 2)


def test_time_of_another_holder_is_not_bridged() -> None:
    """The GPU was given away and back."""
    found = runs(FINE_STEP, pod=[5, 0, 0, 5], other=[0, 5, 0, 0], none=[0, 0, 5, 0])
    assert ("train-0", 1, 1, 1.0) in found
    assert all(pod == "llm-svc-0" for pod, first, last, _ in found if first <= 2 <= last)


def test_a_device_without_holders_has_none() -> None:
    """All of its samples are without a label."""
    assert runs(FINE_STEP, none=[5, 5]) == []
