"""What a source of an estate's metrics must give: an agent's own names, dcgm-exporter's, others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.store import MetricStore
from rightsizer.model.state import Tier
from rightsizer.model.units import Nanoseconds


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What a probe found of one source."""

    source: str
    """`rightsizer`, `dcgm-exporter`, `kube-state-metrics`, `slurm`, `serving`."""
    devices: int = 0
    """That have series now."""
    oldest: Nanoseconds | None = None
    """Of the first sample within the lookback, `None` where there is none."""
    resolution_seconds: float | None = None
    """Between two samples, as a median."""
    tier: Tier = Tier.NONE
    metrics: frozenset[str] = frozenset()
    """Names that were found, recording rules included."""
    can: tuple[str, ...] = ()
    """What can be concluded, a sentence each."""
    cannot: tuple[str, ...] = ()
    """What cannot, and why, a sentence each."""
    names_by_day: Mapping[int, frozenset[str]] = field(default_factory=dict, hash=False)
    """Names that were there when a UTC day began, by its number, where the source looks that up:
    recording rules begin later than what they record, and outlive it."""
    resolution_by_day: Mapping[int, float] = field(default_factory=dict, hash=False)
    """Seconds between two samples on a UTC day, by its number, where the source looks that up:
    older days may be downsampled, or scraped less often."""
    days_at_once: int = 1
    """Days by the hour that it can be asked for with one grid."""
    warnings: tuple[str, ...] = ()
    """Duplicate scrapers, clocks that disagree, gaps: what an operator should look at."""


class FleetSource(Protocol):
    """One way to read devices from a store."""

    @property
    def name(self) -> str:
        """As in `SourceReport.source`."""

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution; raises `StoreError` alone."""

    def estate(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """The devices that had samples within the lookback, and their holders."""

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """A day of some devices, duplicates of a scrape taken once.

        The grid has several days only where the report says that it may.
        """
