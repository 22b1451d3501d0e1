"""Our own page in dcgm-exporter's format, in a store, is read like any dcgm-exporter's."""

import math
import re
from collections.abc import Iterator
from typing import Final

import pytest

from dcgm_estate import NOW, YESTERDAY, EstatePast, stored
from publish_reports import full_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import DcgmLabels, MetricsSettings
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetDay, FleetInventory
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.state import State, Tier
from rightsizer.model.workload import workload_of_pod
from rightsizer.report.freshness import FreshnessSettings
from sample_devices import NOW as REPORTED

pytestmark = pytest.mark.prometheus

GPUS: Final = 4
LINE: Final = re.compile(r"(\w+)\{(.*)\} (\S+)")


def page(labels: DcgmLabels) -> str:
    """Page exported by a node of some GPUs."""
    report = full_report(GPUS)
    exposition = MetricsExposition(
        lambda: report,
        MetricsSettings(dcgm=True, dcgm_labels=labels),
        FreshnessSettings(),
        lambda: REPORTED,
        hostname="node-7",
    )
    return exposition.render_dcgm().body.decode()


@pytest.fixture(scope="module", params=DcgmLabels)
def looked(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[SourceReport, FleetInventory, FleetDay]]:
    """Six hours of such a page, as the source reads them."""
    past = EstatePast()
    for name, inside, value in LINE.findall(page(request.param)):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', inside))
        past.series(name, labels, float(value), 18, 24)
    with stored(past) as store:
        source = DcgmExporterSource()
        report = source.probe(store, NOW, DAY)
        estate = source.inventory(store, report, NOW, DAY)
        yield report, estate, source.day(store, report, list(estate.devices.values()), YESTERDAY)


def test_every_device_is_found(looked: tuple[SourceReport, FleetInventory, FleetDay]) -> None:
    """Devices have their board and node, for each generation of labels."""
    report, estate, day = looked
    uuids = {device.device.uuid for device in full_report(GPUS).devices}
    assert set(estate.devices) == set(day.frames) == uuids
    assert {device.node for device in estate.devices.values()} == {"node-7"}
    assert None not in {device.device.board for device in estate.devices.values()}
    assert report.tier is Tier.PROFILING


def test_holders_have_the_agent_s_own_keys(
    looked: tuple[SourceReport, FleetInventory, FleetDay],
) -> None:
    """Pods and jobs have the same keys as with an agent."""
    holders = (
        holding.workload for device in full_report(GPUS).devices for holding in device.holdings
    )
    expected = {
        workload_of_pod(holder.namespace, holder.pod, holder.container).key
        for holder in holders
        if holder.pod
    }
    found = {run.workload.key for runs in looked[2].holdings.values() for run in runs}
    assert found == expected
    assert set(looked[1].workloads) == expected


def test_every_second_has_a_state(looked: tuple[SourceReport, FleetInventory, FleetDay]) -> None:
    """States sum to at most six hours, and have energy where power is exported."""
    for track in looked[2].frames.values():
        states = [
            track.columns[ColumnKind.STATE.column(state)] for state in State if state != "unknown"
        ]
        for at in range(YESTERDAY.count):
            length = sum(column[at] for column in states)
            assert (length == 300.0) if at >= 216 else math.isnan(length)
        assert sum(
            value for value in track.columns[ColumnKind.ENERGY.column("joules")] if value > 0
        )
