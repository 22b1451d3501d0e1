"""The PCIe generation reached by a GPU under load."""

from collections.abc import Sequence

import pytest

from readings import SECOND
from rightsizer.accounting.device_state import PcieLinkMonitor
from rightsizer.accounting.settings import PcieLinkSettings

LinkSample = tuple[float, bool]
"""A generation, and whether the GPU was active."""


def reached(samples: Sequence[LinkSample], every_seconds: int = 1) -> float | None:
    """The highest generation after samples at equal intervals."""
    watch = PcieLinkMonitor()
    found = None
    for number, (generation, is_loaded) in enumerate(samples, start=1):
        found = watch.update(
            number * every_seconds * SECOND, every_seconds * SECOND, generation, is_loaded=is_loaded
        )
    return found


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], None),
        # At rest it is never judged.
        ([(1, False)] * 600, None),
        # Nor before five seconds of load, continuous or in bursts.
        ([(1, True)] * 4, None),
        ([(1, True)] * 5, 1),
        ([(1, True), (1, False)] * 5, 1),
        # The link trains up with the load: the highest counts.
        ([(1, True)] * 3 + [(5, True)] * 2, 5),
        ([(1, True)] * 30 + [(5, True)], 5),
        # A generation reached more than a minute ago no longer counts.
        ([(5, True)] * 60 + [(3, True)] * 30, 5),
        ([(5, True)] * 60 + [(3, True)] * 75, 3),
        # A long rest discards the evidence.
        ([(3, True)] * 60 + [(1, False)] * 75, None),
    ],
)
def test_highest_generation_under_load_of_late(
    samples: Sequence[LinkSample], expected: int | None
) -> None:
    """Over the last minute, once it has enough load."""
    assert reached(samples) == expected


@pytest.mark.parametrize("every_seconds", [10, 57, 100])
def test_rare_readings_are_judged_too(every_seconds: int) -> None:
    """A reading covers the time since the previous one."""
    assert reached([(3, True)] * 5, every_seconds) == 3


def test_generation_that_nobody_says_is_not_judged() -> None:
    """A missing generation stays missing."""
    watch = PcieLinkMonitor(PcieLinkSettings(loaded_seconds=0))
    assert watch.update(SECOND, SECOND, None, is_loaded=True) is None
    assert watch.update(2 * SECOND, SECOND, 4, is_loaded=True) == 4
