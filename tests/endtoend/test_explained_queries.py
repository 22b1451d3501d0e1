"""The PromQL of an explanation, against a real Prometheus with the underlying scrapes."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest
from msgspec.structs import replace

from cases import findings
from prometheus_server import Prometheus, prometheus_server, scrape_config
from readings import HOUR, SECOND
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.policy import apply_policies
from rightsizer.advice.service import configured_rules
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.clock import FastClock
from rightsizer.model.finding import Finding
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.report.explanation import Query, queries_of
from rightsizer.simulator.source import DEFAULT_START
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.settings import SimulatedSettings

pytestmark = pytest.mark.prometheus

TICK: Final = 60 * SECOND
LIFE: Final = 3 * HOUR
NEEDED: Final = (
    "rightsizer_state_seconds_total",
    "rightsizer_condition_seconds_total",
    "rightsizer_memory_used_ratio",
    "rightsizer_need_ratio",
)


class Life:
    """A simulated node's afternoon: its scrapes, and the final verdicts of the rules."""

    def __init__(self, scenario: str) -> None:
        base = Settings()
        sources = replace(base.sources, simulated=SimulatedSettings(scenario=scenario))
        settings = replace(
            base, sources=sources, sampling=replace(base.sampling, interval=seconds(TICK))
        )
        self._clock = FastClock(DEFAULT_START + 14 * HOUR)
        self._source = live_source(settings, self._clock).source
        self._accounting = AccountingService(
            settings.accounting, partial(apply_policies, policies=settings.policies)
        )
        self._exposition = MetricsExposition(
            self._accounting.latest,
            MetricsSettings(level=Level.FULL),
            wall_time=self._clock.wall_time,
        )
        self._series: dict[str, list[tuple[str, Nanoseconds]]] = {}
        self._live()
        self.end = self._clock.wall_time()
        cases = self._accounting.snapshot(self.end).cases(2 * HOUR)
        self.findings = findings(cases, configured_rules(settings))

    @property
    def past(self) -> str:
        """All scrapes as OpenMetrics."""
        lines = []
        for name in NEEDED:
            stem = name.removesuffix("_total")
            lines.append(f"# TYPE {stem} {'gauge' if stem == name else 'counter'}")
            for series, samples in self._series.items():
                if series.startswith(f"{name}{{"):
                    lines += [f"{series} {value} {seconds(time)}" for value, time in samples]
        return "\n".join([*lines, "# EOF\n"])

    def _live(self) -> None:
        agent = AgentReport("test", "simulated", 0, seconds(TICK))
        end = self._clock.time() + LIFE
        while self._clock.time() < end:
            snapshot = self._source.read()
            assert snapshot is not None
            self._accounting.post(snapshot, (), lambda: agent)
            self._scrape()
            self._clock.wait_until(self._clock.time() + TICK, threading.Event())
        self._source.close()

    def _scrape(self) -> None:
        for line in self._exposition.render().body.decode().splitlines():
            if line.startswith(NEEDED):
                series, _, value = line.rpartition(" ")
                self._series.setdefault(series, []).append((value, self._clock.wall_time()))


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    """Eight GPUs with every kind of finding."""
    yield Life("eight-gpu-node")
    use_library(None)


@pytest.fixture(scope="module")
def prometheus(life: Life) -> Iterator[Prometheus]:
    """A Prometheus with all of its scrapes."""
    with prometheus_server(scrape_config(), past=life.past) as server:
        yield server


def every_query(life: Life) -> list[tuple[Finding, Query]]:
    """Of findings, healthy verdicts and abstentions."""
    return [
        (finding, query) for finding in life.findings for query in queries_of(finding, life.end)
    ]


def test_every_query_gives_the_number_that_it_explains(life: Life, prometheus: Prometheus) -> None:
    """Within the error of a scrape every minute and of the window's edges."""
    asked = every_query(life)
    wrong = {}
    for finding, query in asked:
        answer = prometheus.query(query.promql)
        (found,) = (value for _, value in answer) if len(answer) == 1 else (None,)
        allowed = 90.0 if query.name.endswith("_seconds") else 0.02
        if found is None or found != pytest.approx(query.value, abs=allowed):
            wrong[f"{finding.rule} {query.name} {query.resource}"] = (query.value, found)

    assert len({query.promql for _, query in asked}) > 20
    assert wrong == {}


def test_the_queries_tell_things_apart(life: Life) -> None:
    """They are of several rules and kinds, and not all of their values are 0."""
    by_name: dict[str, list[float]] = {}
    for _, query in every_query(life):
        by_name.setdefault(query.name, []).append(query.value)

    assert {"known_seconds", "coverage_ratio", "idle_ratio", "stalled_ratio"} <= set(by_name)
    assert max(by_name["idle_ratio"]) > 0.9
    assert min(by_name["idle_ratio"]) < 0.5
