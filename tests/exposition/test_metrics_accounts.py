"""Exported accounts: a simulated span, scraped at its end."""

from functools import cache
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from readings import EPOCH, HOUR, SECOND
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.codec import plain
from rightsizer.model.metric import DISTRIBUTION_SIGNALS
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport, Report
from rightsizer.model.state import Cause, State
from rightsizer.report.node_document import report_document
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import SimulatedSource

AGENT: Final = AgentReport("0", "test", EPOCH, 1.0)
SPANS: Final = ((0.25, 600), (1.0, 3600), (10.0, 3600), (100.0, 7200))
"""Sampling intervals and lengths in seconds; the second one is the usual one."""

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@cache
def last_report(interval_seconds: float, span_seconds: int) -> Report:
    """The report of the last tick of an active T4 and an idle one."""
    catalogue = built_in()
    interval = round(interval_seconds * SECOND)
    source = SimulatedSource(
        load_scenario("t4-pair", catalogue),
        catalogue,
        start=EPOCH + 9 * HOUR,
        interval=interval,
        duration=span_seconds * SECOND + interval,
    )
    accounting = AccountingService(AccountingSettings())
    for each in iter(source.read, None):
        report = accounting.post(each, (), lambda: AGENT)
    return report


@cache
def scraped(interval_seconds: float, span_seconds: int) -> Series:
    """Its samples by name and labels."""
    report = last_report(interval_seconds, span_seconds)
    text = (
        MetricsExposition(
            lambda: report, MetricsSettings(level=Level.FULL), wall_time=lambda: report.wall_time
        )
        .render()
        .body.decode()
    )
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def value(samples: Series, name: str, **labels: str) -> float | None:
    """The value of a series."""
    return samples.get((name, frozenset(labels.items())))


def total(samples: Series, name: str, uuid: str, label: str, values: type[State | Cause]) -> float:
    """The sum of a device's series, all of which must exist."""
    return sum(samples[name, frozenset({("uuid", uuid), (label, each)})] for each in values)


@pytest.mark.parametrize(("interval", "span"), SPANS)
def test_states_sum_to_wall_time(interval: float, span: int) -> None:
    """All of the seconds since the first sample, at any sampling interval."""
    samples = scraped(interval, span)
    for report in last_report(interval, span).devices:
        uuid = report.device.uuid
        found = total(samples, "rightsizer_state_seconds_total", uuid, "state", State)
        assert found == pytest.approx(span)


@pytest.mark.parametrize(("interval", "span"), SPANS)
def test_used_and_waste_are_all_known_time_and_energy(interval: float, span: int) -> None:
    """By sums that anyone can compute in Prometheus."""
    samples = scraped(interval, span)
    for report in last_report(interval, span).devices:
        uuid = report.device.uuid
        states = total(samples, "rightsizer_state_seconds_total", uuid, "state", State)
        unknown = value(samples, "rightsizer_state_seconds_total", uuid=uuid, state="unknown")
        used = value(samples, "rightsizer_used_seconds_total", uuid=uuid)
        waste = total(samples, "rightsizer_waste_seconds_total", uuid, "cause", Cause)
        assert unknown is not None
        assert used is not None
        assert used + waste == pytest.approx(states - unknown)
        joules = value(samples, "rightsizer_used_joules_total", uuid=uuid)
        wasted = total(samples, "rightsizer_waste_joules_total", uuid, "cause", Cause)
        assert joules is not None
        assert joules + wasted == pytest.approx(sum(report.totals.energy_joules.values()))


@pytest.mark.parametrize(("interval", "span"), SPANS)
def test_histograms_have_one_observation_a_second(interval: float, span: int) -> None:
    """At any sampling interval, so that devices with different intervals can be merged."""
    samples = scraped(interval, span)
    exported = 0
    for report in last_report(interval, span).devices:
        uuid = report.device.uuid
        for signal in DISTRIBUTION_SIGNALS:
            count = value(samples, f"{signal.distribution_metric_name}_count", uuid=uuid)
            if count is not None:
                exported += 1
                assert span - 1 <= count <= span
    assert exported == 2 * 3


def test_coverage_is_of_the_whole_window() -> None:
    """An agent of one hour knows 1/24 of a day; the decaying window has no length."""
    samples = scraped(1.0, 3600)
    for report in last_report(1.0, 3600).devices:
        uuid = report.device.uuid
        day = value(samples, "rightsizer_coverage_ratio", uuid=uuid, window="24h")
        week = value(samples, "rightsizer_coverage_ratio", uuid=uuid, window="7d")
        assert day == pytest.approx(1 / 24, rel=0.02)
        assert week == pytest.approx(1 / 168, rel=0.02)
        assert value(samples, "rightsizer_coverage_ratio", uuid=uuid, window="current") is None


def test_json_has_the_tier_and_the_coverage_of_every_window() -> None:
    """And the source of the energy."""
    for device in plain(report_document(last_report(1.0, 3600)))["devices"]:
        windows = device["provisioning"]
        assert windows.keys() == {"24h", "7d", "current"}
        assert {window["tier"] for window in windows.values()} == {"power"}
        assert windows["24h"]["coverage_ratio"] == pytest.approx(1 / 24, rel=0.02)
        assert windows["current"]["coverage_ratio"] == 1.0
        assert windows["7d"]["known_seconds"] == pytest.approx(3600, rel=0.02)
        assert device["totals"]["energy_joules"].keys() == {"counter"}
