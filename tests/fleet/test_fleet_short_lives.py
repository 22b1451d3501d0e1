"""Devices that are there for hours are found at moments that are close enough."""

from array import array
from collections.abc import Sequence
from typing import Final, Self

import pytest

from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.series import instance_of, names_of, seen_over

HOUR: Final = 3600 * 10**9
SPAN: Final = (0, 72 * HOUR)


class ShortLives:
    """A store with devices, or metrics, that are there one after the other."""

    def __init__(self, hours: float, label: str = "uuid") -> None:
        self.label = label
        count = round(72 / hours)
        self.lives = {f"GPU-{n}": (n * hours * HOUR, (n + 1) * hours * HOUR) for n in range(count)}
        self.steps: list[float] = []

    def within(self, _: str) -> Self:
        """Itself."""
        return self

    def range(self, _: str, start: int, end: int, step: int) -> Sequence[SampledSeries]:
        """The devices at the moments of a query."""
        self.steps.append(step / HOUR)
        moments = range(start, end + 1, step)
        there = {
            uuid: [at for at in moments if first < at <= last]
            for uuid, (first, last) in self.lives.items()
        }
        return [
            SampledSeries({self.label: uuid}, times, array("d", [1.0] * len(times)))
            for uuid, times in there.items()
            if times
        ]


@pytest.mark.parametrize(
    ("hours", "steps"),
    [(72, [6]), (12, [6]), (4, [6, 1]), (1, [6, 1, 1 / 6]), (0.2, [6, 1, 1 / 6])],
)
def test_moments_are_as_close_as_lives_are_short(hours: float, steps: list[float]) -> None:
    """Every device is found; those that stay need no second query."""
    store = ShortLives(hours)
    found = seen_over(store, "up", SPAN, 6 * HOUR)

    assert {each.labels["uuid"] for each in found} == store.lives.keys()
    assert store.steps == pytest.approx(steps)


def test_metrics_that_were_there_for_15_minutes_are_found() -> None:
    """An engine may serve for less than an hour of the days that are read at once."""
    store = ShortLives(0.25, "__name__")
    assert names_of(store, [*store.lives], SPAN[1], over=SPAN[1]) == store.lives.keys()


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("10.0.0.1:9400", "10.0.0.1"),
        ("gpu-1.example.org", "gpu-1.example.org"),
        ("gke-pool-1-abcd:metrics", "gke-pool-1-abcd"),
        ("http://gpu-3:9400/metrics", "gpu-3"),
        ("[2001:db8::1]:9400", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
    ],
)
def test_host_of_a_target_has_no_port(instance: str, host: str) -> None:
    """Google's collectors write the port's name; others keep the address of the page."""
    assert instance_of({"instance": instance}) == host
