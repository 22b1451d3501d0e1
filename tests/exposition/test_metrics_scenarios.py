"""Exposition of the packaged scenarios: whole pages, against golden files and promtool."""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from prometheus_server import binary
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport, Report
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

GOLDEN: Final = ("single-h100", "t4-pair", "h100-mig")
"""A node of the profiling tier, one of the power tier, and one with MIG instances."""
_INTERVAL: Final = 10 * NANOSECONDS_PER_SECOND
_SPAN: Final = 600 * NANOSECONDS_PER_SECOND


@cache
def last_report(scenario: str) -> Report:
    """The report after ten minutes of constant readings."""
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario(scenario, catalogue),
        catalogue,
        start=DEFAULT_START,
        interval=_INTERVAL,
        duration=_SPAN,
    )
    accounting = AccountingService(AccountingSettings())
    agent = AgentReport("0", f"simulated ({scenario})", DEFAULT_START, 10.0)
    for snapshot in iter(source.read, None):
        report = accounting.post(snapshot, (), lambda: agent)
    return report


def exposition_of(scenario: str, **settings: bool) -> MetricsExposition:
    """The exposition at the end of a scenario, without prometheus_client's own process."""
    report = last_report(scenario)
    chosen = MetricsSettings(level=Level.FULL, **settings).switched(off=["process"])
    return MetricsExposition(
        lambda: report, chosen, wall_time=lambda: report.wall_time, hostname="n1"
    )


def dcgm_text(scenario: str) -> str:
    """The same in dcgm-exporter's format."""
    report = last_report(scenario)
    exposition = MetricsExposition(
        lambda: report,
        settings=MetricsSettings(dcgm=True),
        freshness=FreshnessSettings(),
        wall_time=lambda: report.wall_time,
        hostname="node-7",
    )
    return exposition.render_dcgm().body.decode()


def promtool_check(text: bytes) -> "subprocess.CompletedProcess[bytes]":
    """The output of `promtool check metrics`."""
    command = [binary("promtool"), "check", "metrics"]
    return subprocess.run(command, input=text, capture_output=True, check=False)


@pytest.mark.parametrize("scenario", GOLDEN)
def test_pages_are_as_agreed(scenario: str, golden: Callable[[str | Path, str], None]) -> None:
    """Every line of a scrape; a change shows its whole effect."""
    golden(f"scenario-{scenario}.txt", exposition_of(scenario).render().body.decode())


@pytest.mark.parametrize("scenario", GOLDEN)
def test_pages_as_dcgm_exporter_are_as_agreed(
    scenario: str, golden: Callable[[str | Path, str], None]
) -> None:
    """The same node, for tools made for dcgm-exporter."""
    golden(f"scenario-{scenario}-dcgm.txt", dcgm_text(scenario))


@pytest.mark.prometheus
@pytest.mark.parametrize("scenario", packaged_scenarios())
def test_promtool_has_no_complaint_about_any_scenario(scenario: str) -> None:
    """With all collectors on."""
    body = exposition_of(scenario, details=True).render().body
    assert body.count(b"\n") > 100
    checked = promtool_check(body)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


@pytest.mark.prometheus
def test_promtool_reads_the_page_as_dcgm_exporter() -> None:
    """It parses; promtool objects to dcgm-exporter's names by design."""
    checked = promtool_check(dcgm_text("h100-mig").encode())
    complaints = checked.stderr.decode().splitlines()

    assert checked.returncode == promtool_check(b"# TYPE camelCase gauge\ncamelCase 1\n").returncode
    assert all(line.startswith("DCGM_FI_") for line in complaints)
