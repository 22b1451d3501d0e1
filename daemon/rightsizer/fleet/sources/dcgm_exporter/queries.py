"""The questions of one day of some devices. Each names its devices and its range."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.units import NANOSECONDS_PER_SECOND
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.sources.dcgm_exporter.labels import (
    DEVICE_LABELS,
    EXPORTER,
    HOLDER_LABELS,
    SCRAPER_LABELS,
)
from rightsizer.fleet.sources.labels import one_of, selector
from rightsizer.fleet.store import Sampled, Store

__all__ = ["DayQueries", "whole_uuids"]

_DEVICE: Final = ", ".join(DEVICE_LABELS)
_SCRAPED: Final = ", ".join((*DEVICE_LABELS, *SCRAPER_LABELS))
_HELD: Final = ", ".join((*DEVICE_LABELS, *HOLDER_LABELS))
# A scrape may write the exporter's own pod where the holder's would be.
_NOBODY: Final = f'exported_pod="",pod_name="",pod=~"|.*{EXPORTER}.*"'


@dataclass(frozen=True, slots=True)
class DayQueries:
    """Asks of each metric what a stretch came to, by device.

    A device's series end and begin with its holders, so that sums and counts of all of them
    make the mean; of several scrapes of one device, the largest counts.
    """

    store: Store
    grid: Grid
    uuids: tuple[str, ...]
    """Of whole GPUs, which the series of their instances have too."""
    uuid_labels: tuple[str, ...]
    divided: frozenset[str] = frozenset()
    """Metrics of which each holder's series has its own part."""

    def mean(self, metrics: Iterable[str]) -> list[Sampled]:
        """Of a gauge, over the samples of each stretch.

        Where holders' series have parts of the value and the device's own has all of it, that
        is beside it, and larger.
        """
        asked = tuple(metrics)
        divided = [metric for metric in asked if metric in self.divided]
        return self._each(
            asked,
            f"max by ({_DEVICE}) (sum by ({_SCRAPED}) (sum_over_time({{0}}))"
            f" / sum by ({_SCRAPED}) (count_over_time({{0}})))",
        ) + self._each(divided, f"max by ({_DEVICE}) (avg_over_time({{0}}))", _NOBODY)

    def peak(self, metrics: Iterable[str]) -> list[Sampled]:
        """The largest sample of each stretch."""
        return self._each(metrics, f"max by ({_DEVICE}) (max_over_time({{0}}))")

    def lowest(self, metrics: Iterable[str]) -> list[Sampled]:
        """The smallest sample of each stretch."""
        return self._each(metrics, f"min by ({_DEVICE}) (min_over_time({{0}}))")

    def gained(self, metrics: Iterable[str]) -> list[Sampled]:
        """What a counter gained in each stretch."""
        return self._each(metrics, f"max by ({_DEVICE}) (sum by ({_SCRAPED}) (increase({{0}})))")

    def counted(self, metrics: Iterable[str]) -> list[Sampled]:
        """How many samples there are of each stretch, by holder."""
        return self._each(metrics, f"max by ({_HELD}) (count_over_time({{0}}))")

    def _each(self, metrics: Iterable[str], form: str, *matchers: str) -> list[Sampled]:
        grid = self.grid
        found: list[Sampled] = []
        span = f"[{grid.step // NANOSECONDS_PER_SECOND}s]"
        for metric in metrics:
            for label in self.uuid_labels:
                chosen = selector(metric, one_of(label, self.uuids), *matchers) + span
                query = form.format(chosen)
                found += self.store.range(query, grid.start + grid.step, grid.end, grid.step)
        return found


def whole_uuids(devices: Iterable[Device]) -> tuple[str, ...]:
    """The GPUs that some devices are, or are parts of."""
    wholes = (each.uuid if each.mig is None else each.mig.parent_uuid for each in devices)
    return tuple(sorted(set(wholes)))
