"""A simulated node's last hour: its scrapes, and its agent's own values."""

import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from readings import EPOCH, SECOND
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport, Report, Totals
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

__all__ = ["HOUR", "SCRAPE", "Scraped", "scraped_node"]

AGENT: Final = AgentReport("0", "test", EPOCH, 1.0)
SPAN: Final = 4200
SAMPLING: Final = 15
SCRAPE: Final = 15
HOUR: Final = 3600


class Scraped(Struct, frozen=True):
    """A node's last hour as scraped, and by the agent itself."""

    uuids: tuple[str, ...]
    times: list[float]
    totals: list[dict[str, Totals]]
    text: str

    def grown(self, uuid: str, until: float) -> tuple[Totals, Totals]:
        """The agent's totals at the first and the last scrape of the hour before a time."""
        first = bisect_right(self.times, until - HOUR)
        last = bisect_right(self.times, until) - 1
        return self.totals[first][uuid], self.totals[last][uuid]


def _scrapes() -> Iterator[Report]:
    """The reports of a node of eight GPUs at every scrape of more than an hour."""
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario("eight-gpu-node", catalogue),
        catalogue,
        start=DEFAULT_START + 10 * HOUR * SECOND,
        interval=SAMPLING * SECOND,
        duration=SPAN * SECOND,
    )
    accounting = AccountingService(AccountingSettings())
    for number, snapshot in enumerate(iter(source.read, None)):
        report = accounting.post(snapshot, (), lambda: AGENT)
        if number * SAMPLING % SCRAPE == 0:
            yield report


def scraped_node(names: tuple[str, ...]) -> Scraped:
    """A node's last hour; of the page only the families with these names are kept."""
    reports: list[Report] = []
    exposition = MetricsExposition(
        lambda: reports[-1],
        MetricsSettings(level=Level.FULL),
        wall_time=lambda: reports[-1].wall_time,
    )
    pages = []
    for report in _scrapes():
        reports.append(report)
        pages.append(exposition.render(names=names).body.decode())
    lines = []
    times = []
    totals = []
    moved = int(time.time()) - reports[-1].wall_time / SECOND
    for report, page in zip(reports, pages, strict=True):
        times.append(report.wall_time / SECOND + moved)
        totals.append({device.device.uuid: device.totals for device in report.devices})
        for line in page.splitlines():
            if not line.startswith("#"):
                named = line.replace("{", '{job="rightsizer",instance="n1:19400",', 1)
                lines.append(f"{named} {times[-1]:.3f}\n")
    return Scraped(tuple(totals[0]), times, totals, "".join([*lines, "# EOF\n"]))
