"""Simulated nodes over some hours: their scrapes, and their own accounts."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from prometheus_server import Prometheus
from readings import EPOCH, HOUR, SECOND
from rightsizer.accounting.rollup_store import WindowQuery
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.fleet.cache.grid import DAY
from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport, Report
from rightsizer.model.units import Nanoseconds
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

__all__ = ["LAST", "NUMBER", "SCRAPE", "START", "ScrapedDay", "recorded", "scraped_day"]

RULES: Final = Path(__file__).parents[2] / "config" / "prometheus" / "rules.yaml"
SAMPLING: Final = 30
SCRAPE: Final = 60
START: Final[Nanoseconds] = DEFAULT_START + 10 * HOUR
SPAN: Final = 2 * HOUR
LAST: Final[Nanoseconds] = START + SPAN
NUMBER: Final = START // DAY
"""Of the day."""
_AGENT: Final = AgentReport("0", "test", EPOCH, 10.0)
_LABELS: Final = 'job="rightsizer",instance="{node}:19400"'


class ScrapedDay(Struct, frozen=True):
    """A node's hours as scraped, and by its agent's accounts."""

    node: str
    windows: Mapping[str, WindowQuery]
    """Histories of the devices with states of their own."""
    latest: Report
    text: str
    """OpenMetrics with timestamps, without its end."""


def scraped_day(scenario: str, node: str = "n1") -> ScrapedDay:
    """Two hours of a scenario, scraped half past every minute."""
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario(scenario, catalogue),
        catalogue,
        start=START,
        interval=SAMPLING * SECOND,
        duration=SPAN + SAMPLING * SECOND,
    )
    accounting = AccountingService(AccountingSettings())
    reports: list[Report] = []
    exposition = MetricsExposition(
        lambda: reports[-1],
        MetricsSettings(level=Level.FULL),
        wall_time=lambda: reports[-1].wall_time,
    )
    lines: list[str] = []
    for number, snapshot in enumerate(iter(source.read, None)):
        reports.append(accounting.post(snapshot, (), lambda: _AGENT))
        if number * SAMPLING % SCRAPE == SCRAPE // 2:
            page = exposition.render().body.decode()
            lines.extend(_series(page, node, reports[-1].wall_time))
    windows = {query.uuid: query for query in accounting.device_queries()[1]}
    return ScrapedDay(node, windows, reports[-1], "".join(lines))


def _series(page: str, node: str, wall_time: Nanoseconds) -> Iterator[str]:
    labels = _LABELS.format(node=node)
    for line in page.splitlines():
        if not line.startswith("#"):
            name, brace, rest = line.partition("{")
            if not brace:
                name, _, rest = line.partition(" ")
                rest = f"}} {rest}"
            yield f"{name}{{{labels},{rest} {wall_time / SECOND:.3f}\n".replace(",}", "}")


def recorded(server: Prometheus) -> str:
    """What our recording rules for long questions would have recorded of it, as OpenMetrics."""
    groups = load_yaml(RULES.read_text("utf-8"), "rules").data["groups"]
    lines: list[str] = []
    for group in groups:
        if group["interval"] == "5m":
            for rule in group["rules"]:
                lines.extend(_samples(server, rule))
    return "".join(lines)


def _samples(server: Prometheus, rule: Mapping[str, str]) -> Iterator[str]:
    # Rules are evaluated at some second of their own, not at whole minutes.
    start = START / SECOND + 17
    end = LAST / SECOND
    for labels, samples in server.query_range(rule["expr"], start, end, 300):
        inside = ",".join(
            f"{name}={json.dumps(value)}" for name, value in labels.items() if name != "__name__"
        )
        for time, value in samples:
            yield f"{rule['record']}{{{inside}}} {value!r} {time:.3f}\n"
