"""A simulated node with advice, as scraped each 15 and each 60 s at `standard` and at `full`."""

from collections.abc import Iterator
from itertools import product
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cases import finding
from readings import EPOCH, SECOND
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Savings
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport, Report, Totals
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import HOUR, Nanoseconds
from rightsizer.report.facts import PriceRate
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

__all__ = ["END", "NODES", "PRICE", "SPAN", "ScrapedLevels", "scraped_levels"]

SAMPLING: Final = 15
SPAN: Final = 2400
START: Final = DEFAULT_START + 10 * HOUR
END: Final = (START + SPAN * SECOND) / SECOND
_LEVELS: Final = (Level.STANDARD, Level.FULL)
NODES: Final = {
    f"{level}-{interval}": (level, interval) for level, interval in product(_LEVELS, (15, 60))
}
"""Level and scrape interval in seconds, by the label `instance`."""
PRICE: Final = PriceRate(1.0, 4.0, 2.0, "on demand", "test", "2026-01", "list prices")
_AGENT: Final = AgentReport("0", "test", EPOCH, 15.0)


class ScrapedLevels(Struct, frozen=True):
    """The same node by all four, and by itself."""

    text: str
    """OpenMetrics with timestamps, without its end."""
    first: dict[str, Totals]
    last: dict[str, Totals]
    """By uuid, at the first and the last scrape."""
    capacities: dict[str, float]


def scraped_levels() -> ScrapedLevels:
    """Forty minutes of eight GPUs, two of them with a recommendation."""
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario("eight-gpu-node", catalogue),
        catalogue,
        start=START,
        interval=SAMPLING * SECOND,
        duration=(SPAN + SAMPLING) * SECOND,
    )
    accounting = AccountingService(AccountingSettings())
    lines: list[str] = []
    reports: list[Report] = []
    expositions = {
        node: MetricsExposition(
            lambda: reports[-1],
            MetricsSettings(level=level),
            wall_time=lambda: reports[-1].wall_time,
            hostname=node,
            rate_of=lambda _: PRICE,
        )
        for node, (level, _) in NODES.items()
    }
    for number, snapshot in enumerate(iter(source.read, None)):
        report = accounting.post(snapshot, _advice(snapshot), lambda: _AGENT)
        reports.append(report)
        for node, (_, interval) in NODES.items():
            if number * SAMPLING % interval == 0:
                page = expositions[node].render().body.decode()
                lines.extend(_series(page, node, report.wall_time))
    totals = [
        {device.device.uuid: device.totals for device in report.devices} for report in reports
    ]
    devices = {device.device.uuid: device.device.capacity_ratio for device in reports[-1].devices}
    return ScrapedLevels("".join(lines), totals[0], totals[-1], devices)


def _advice(snapshot: Snapshot) -> tuple[Advice, ...]:
    devices = [device.uuid for device in snapshot.devices]
    savings = Savings(0.0, 2.0, 0.0, 20.0, dollars_per_hour_typical=4.0)
    stall = finding(id="stall", devices=tuple(devices[2:4]), savings=savings)
    idle = replace(stall, id="idle", devices=(devices[0],), savings=Savings(1.0, 1.0))
    claimed = Advice(idle, AdviceState.CLAIMED, START, START)
    return Advice(stall, AdviceState.ACTIVE, START, START), claimed


def _series(page: str, node: str, wall_time: Nanoseconds) -> Iterator[str]:
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        name, _, labels = name.partition("{")
        inside = ",".join(filter(None, (f'job="rightsizer",instance="{node}"', labels.rstrip("}"))))
        yield f"{name}{{{inside}}} {value} {wall_time / SECOND:.3f}\n"
