"""The source of an estate that is our own agents."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rightsizer.accounting.provisioning import ProvisioningSettings
from rightsizer.accounting.usage import UsageSettings
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.estate import Day, Estate, EstateDevice
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.agent.day import DayReader
from rightsizer.fleet.sources.agent.estate import EstateReader
from rightsizer.fleet.sources.agent.probe import NAME, STATES, probe
from rightsizer.fleet.sources.agent.settings import AgentSourceSettings
from rightsizer.fleet.store import Store

__all__ = ["AgentSource"]


@dataclass(frozen=True, slots=True)
class AgentSource:
    """A `Source` of the metrics that docs/metrics.md lists."""

    catalogue: Catalogue
    fleet: FleetSettings = field(default_factory=FleetSettings)
    settings: AgentSourceSettings = field(default_factory=AgentSourceSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    """As the agents have it: what they need has its margins in it."""

    @property
    def name(self) -> str:
        """As in `SourceReport.source`."""
        return NAME

    def probe(self, store: Store, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution."""
        return probe(store, now, lookback, self.settings)

    def estate(
        self, store: Store, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> Estate:
        """What is there now, and devices that were when one of the days before ended."""
        if report.oldest is not None:
            lookback = min(lookback, now - report.oldest)
        reader = EstateReader(store, self.fleet, self.catalogue, self.provisioning)
        return reader.read(now, lookback)

    def day(
        self, store: Store, report: SourceReport, devices: Sequence[EstateDevice], grid: Grid
    ) -> Day:
        """One day of some devices, from recording rules that were there when it began."""
        names = report.names_by_day.get(grid.day)
        if names is None:
            # Whatever came in the middle of a day has all of it as scrapes, if these were kept.
            scraped = frozenset(name for name in report.metrics if ":" not in name)
            names = scraped if STATES in scraped else report.metrics
        return DayReader(store, names, devices, grid, self.usage).read()
