"""Metrics of our agents, read back from a real Prometheus, equal the agents' own accounts.

Nodes live for two hours and are scraped. One Prometheus has the scrapes; another only the series of
our recording rules; a VictoriaMetrics has the scrapes too.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from msgspec import Struct

from prometheus_server import prometheus_server, scrape_config
from rightsizer.catalogue.catalogue import built_in
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, kind_of
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP, Grid
from rightsizer.fleet.model import FleetDay, FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.agent.source import AgentSource
from rightsizer.model.block import Measure
from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.window import Window
from scraped_day import LAST, NUMBER, SCRAPE, START, ScrapedDay, recorded, scraped_day
from victoria_server import victoria_server

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

SCENARIOS = ("eight-gpu-node", "l4-pair", "a100-mig")
LOOKBACK = 3 * DAY
FIVE_MINUTES = 370.0
"""Rules are evaluated some seconds after an interval ends, first when it has samples."""
SHARE = 0.02
"""Tolerance: a mean of scrapes differs from that of all seconds."""


class SourceResult(Struct, frozen=True):
    """Result of a source on a store, and the tolerance of its times."""

    report: SourceReport
    young: SourceReport
    """Of twenty minutes after the first scrape."""
    estate: FleetInventory
    days: dict[Nanoseconds, FleetDay]
    both: FleetDay
    """This day and the one before, read at once by the hour."""
    off_seconds: float
    """Scrapes miss the ends of an interval; recorded values are late by up to an interval."""

    def track(self, uuid: str, step: Nanoseconds = COARSE_STEP) -> DayFrame:
        """Track of a device's day."""
        return self.days[step].frames[uuid]


@pytest.fixture(scope="module")
def nodes() -> tuple[ScrapedDay, ...]:
    """A node of each telemetry tier."""
    return tuple(scraped_day(name, f"n{at}") for at, name in enumerate(SCENARIOS))


@pytest.fixture(scope="module")
def stores(nodes: tuple[ScrapedDay, ...]) -> dict[str, SourceResult]:
    """Stores of scrapes, and of recorded series alone."""
    scrapes = "".join(node.text for node in nodes)
    with prometheus_server(scrape_config(), past=f"{scrapes}# EOF\n") as raw:
        rules = recorded(raw)
        by_scrapes = _read(raw.url, SCRAPE)
    with prometheus_server(scrape_config(), past=f"{rules}# EOF\n") as server:
        by_rules = _read(server.url, FIVE_MINUTES)
    with victoria_server(past=f"{scrapes}# EOF\n") as server:
        by_victoria = _read(server.url, SCRAPE)
    return {"scrapes": by_scrapes, "rules": by_rules, "victoria": by_victoria}


@pytest.fixture(params=["scrapes", "rules", "victoria"])
def result(stores: dict[str, SourceResult], request: pytest.FixtureRequest) -> SourceResult:
    """Each result in turn."""
    return stores[request.param]


def _read(url: str, off_seconds: float) -> SourceResult:
    store = PrometheusStore(StoreSettings(url=url))
    source = AgentSource(built_in())
    try:
        report = source.probe(store, LAST, LOOKBACK)
        young = source.probe(store, START + 1200 * 10**9, LOOKBACK)
        estate = source.inventory(store, report, LAST, LOOKBACK)
        devices = tuple(estate.devices.values())
        days = {
            step: source.day(store, report, devices, Grid(NUMBER, step))
            for step in (COARSE_STEP, FINE_STEP)
        }
        both = source.day(store, report, devices, Grid(NUMBER - 1, COARSE_STEP, 2))
    finally:
        store.close()
    return SourceResult(report, young, estate, days, both, off_seconds)


Truths = Callable[[Nanoseconds], tuple[tuple[str, int, Window], ...]]


@pytest.fixture(scope="module")
def truths(nodes: tuple[ScrapedDay, ...]) -> Truths:
    """The agent's own accounts, by device and interval; each step is summed up once."""

    @cache
    def summed(step: Nanoseconds) -> tuple[tuple[str, int, Window], ...]:
        return tuple(_accounted(nodes, step))

    return summed


def _accounted(
    nodes: tuple[ScrapedDay, ...], step: Nanoseconds
) -> Iterator[tuple[str, int, Window]]:
    grid = Grid(NUMBER, step)
    for node in nodes:
        for uuid, query in node.windows.items():
            for start in range(START, LAST, step):
                yield uuid, (start - grid.start) // step, query.window(start, start + step)


def test_all_devices_with_states_have_a_day(truths: Truths, result: SourceResult) -> None:
    """Partitioned GPUs have none; their MIG instances have."""
    expected = {uuid for uuid, _, _ in truths(COARSE_STEP)}
    assert result.days[COARSE_STEP].frames.keys() == expected
    assert any(uuid.startswith("MIG-") for uuid in expected)


@pytest.mark.parametrize("step", [COARSE_STEP, FINE_STEP])
def test_states_of_a_stretch_sum_to_its_length(result: SourceResult, step: Nanoseconds) -> None:
    """Unknown is the rest of the time the device was present; other intervals have no states."""
    for track in result.days[step].frames.values():
        states = [
            column for name, column in track.columns.items() if kind_of(name) is ColumnKind.STATE
        ]
        sums = [sum(parts) for parts in zip(*states, strict=True)]
        there = [total for total in sums if not math.isnan(total)]
        # Values recorded every five minutes begin with the second interval.
        assert len(there) in {(LAST - START) // step, (LAST - START) // step - 1}
        assert there == pytest.approx([seconds(step)] * len(there), abs=0.01)


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("scrapes", FINE_STEP),
        ("scrapes", COARSE_STEP),
        ("rules", COARSE_STEP),
        ("victoria", FINE_STEP),
        ("victoria", COARSE_STEP),
    ],
)
def test_seconds_are_the_accounts_own(
    truths: Truths, stores: dict[str, SourceResult], kind: str, step: Nanoseconds
) -> None:
    """Seconds by state, condition and cause, and used ones, agree within scrape and rule errors."""
    result = stores[kind]
    seen = set()
    for uuid, place, window in truths(step):
        for column, expected in _seconds(window).items():
            values = result.track(uuid, step).columns.get(column)
            found = 0.0 if values is None else values[place]
            assert found == pytest.approx(expected, abs=result.off_seconds), (uuid, column)
            seen |= {kind_of(column)} if expected > 0 else set()
    assert seen == {ColumnKind.STATE, ColumnKind.CONDITION, ColumnKind.WASTE, ColumnKind.USED}


def _seconds(window: Window) -> dict[str, float]:
    states = {ColumnKind.STATE.column(each): seconds(window.states.get(each, 0)) for each in State}
    conditions = {
        ColumnKind.CONDITION.column(each): seconds(window.conditions.get(each, 0))
        for each in Condition
    }
    waste = {ColumnKind.WASTE.column(each): window.waste_seconds.get(each, 0.0) for each in Cause}
    used = {ColumnKind.USED.column("seconds"): window.used_seconds}
    return states | conditions | waste | used


def test_energy_is_the_accounts_own(nodes: tuple[ScrapedDay, ...], result: SourceResult) -> None:
    """Energy drawn in all and while idle agrees within the unread time at the hours' ends."""
    for uuid, window in wholes(nodes):
        columns = result.track(uuid).columns
        slack = 2 * result.off_seconds * window.energy_joules / seconds(LAST - START) + 10
        expected = {
            ColumnKind.ENERGY.column("joules"): window.energy_joules,
            ColumnKind.WASTE_JOULES.column(Cause.IDLE.value): window.waste_joules.get(
                Cause.IDLE, 0.0
            ),
        }
        for column, joules in expected.items():
            found = sum(value for value in columns.get(column, ()) if not math.isnan(value))
            assert found == pytest.approx(joules, abs=slack), (uuid, column)


@pytest.mark.parametrize("measure", [*Measure])
def test_means_are_the_accounts_own(truths: Truths, result: SourceResult, measure: Measure) -> None:
    """Hourly means are shares of the device; a scrape a minute does not see every second."""
    compared = 0
    for uuid, place, window in truths(COARSE_STEP):
        columns = result.track(uuid).columns
        truth = _mean(window, measure)
        if measure is Measure.COMPUTE and Resource.MEDIA in window.demands:
            continue  # What counts as used is that of the media engines.
        if truth is None or ColumnKind.MEAN.column(measure) not in columns:
            # Substitutes for the compute of MIG instances, and for links of devices without any.
            continue
        unit = 80 * 2.0**30 if measure is Measure.MEMORY_BYTES else 1.0
        found = columns[ColumnKind.MEAN.column(measure)][place] / unit
        assert found == pytest.approx(truth / unit, abs=SHARE + result.off_seconds / 3600), uuid
        compared += 1
    assert compared >= 2


def test_peaks_are_what_scrapes_have_seen(truths: Truths, stores: dict[str, SourceResult]) -> None:
    """They are at least the mean and at most the largest reading."""
    result = stores["scrapes"]
    for uuid, place, window in truths(COARSE_STEP):
        columns = result.track(uuid).columns
        bounds = {Measure.COMPUTE_AT_LEAST, Measure.MEMORY_BYTES}
        if ColumnKind.TIER.column(Tier.PROFILING) not in columns:
            # The busiest second and the one of the highest draw are taken for the same.
            bounds.add(Measure.COMPUTE)
        if Resource.MEDIA in window.demands:
            bounds.add(Measure.COMPUTE)  # What counts as used is that of the media engines.
        for measure in set(Measure) - bounds:
            series = window.blocks.series(measure)
            if series.peaks and ColumnKind.PEAK.column(measure) in columns:
                peak = columns[ColumnKind.PEAK.column(measure)][place]
                assert (
                    columns[ColumnKind.MEAN.column(measure)][place]
                    <= peak
                    <= max(series.peaks) + SHARE
                )


def test_bounds_of_compute_hold(result: SourceResult) -> None:
    """The lower bound never exceeds the upper."""
    for track in result.days[FINE_STEP].frames.values():
        lower = track.columns.get(ColumnKind.MEAN.column(Measure.COMPUTE_AT_LEAST))
        if lower is not None:
            upper = track.columns[ColumnKind.MEAN.column(Measure.COMPUTE)]
            for low, high in zip(lower, upper, strict=True):
                assert not low > high


def _mean(window: Window, measure: Measure) -> float | None:
    series = window.blocks.series(measure)
    known = sum(series.known_seconds)
    if not known:
        return None
    return sum(map(float.__mul__, series.means, series.known_seconds)) / known


def wholes(nodes: tuple[ScrapedDay, ...]) -> Iterator[tuple[str, Window]]:
    """Both whole hours, by device."""
    for node in nodes:
        for uuid, query in node.windows.items():
            yield uuid, query.window(START, LAST)


def test_demands_are_the_accounts_own(nodes: tuple[ScrapedDay, ...], result: SourceResult) -> None:
    """Upper bounds over known seconds are below the truth by at most what a scrape misses."""
    signals = {
        Resource.COMPUTE: Signal.SM_WORK,
        Resource.MEMORY_BANDWIDTH: Signal.DRAM_ACTIVE,
        Resource.MEMORY: Signal.MEMORY_USED,
    }
    compared = set()
    for node in nodes:
        totals = {report.device.uuid: report.totals for report in node.latest.devices}
        for uuid in node.windows:
            truth = totals[uuid].distributions
            for resource, histogram in result.track(uuid).demands.items():
                signal = signals.get(resource)
                if signal is not None and signal in truth and histogram.total:
                    expected = truth[signal].quantile(0.95)
                    found = histogram.quantile(0.95)
                    assert found == pytest.approx(expected, abs=0.06), (uuid, resource)
                    compared.add(resource)
    assert compared == signals.keys()


def test_tiers_are_the_devices_own(nodes: tuple[ScrapedDay, ...], result: SourceResult) -> None:
    """The tier follows from the exported metrics, for all known time."""
    for node in nodes:
        for device in node.latest.devices:
            if device.device.uuid in result.days[COARSE_STEP].frames:
                columns = result.track(device.device.uuid).columns
                tiers = {
                    name.partition(":")[2]
                    for name, values in columns.items()
                    if kind_of(name) is ColumnKind.TIER and any(values > 0)
                }
                known = node.windows[device.device.uuid].window(START, LAST).known
                assert tiers == ({device.tier.value} if known else set())
    assert {Tier.PROFILING, Tier.POWER} <= {
        each.tier for node in nodes for each in node.latest.devices
    }


def test_days_that_are_read_at_once_are_those_that_are_read_one_by_one(
    result: SourceResult,
) -> None:
    """Hours and holders agree; a day's last values are known where the device was present."""
    day = result.days[COARSE_STEP]
    both = result.both
    assert both.frames.keys() == day.frames.keys()
    for uuid, mine in both.frames.items():
        theirs = day.frames[uuid]
        assert mine.grid == Grid(NUMBER - 1, COARSE_STEP, 2)
        assert theirs.columns.keys() >= mine.columns.keys()
        for column, values in mine.columns.items():
            expected = [math.nan] * 24 + list(theirs.columns[column])
            if not math.isnan(sum(values[:24])):  # The sum of an empty sequence is 0.
                expected[:24] = [0.0] * 24
            assert list(values) == pytest.approx(expected, rel=1e-6, nan_ok=True), column
        assert mine.demands.keys() == theirs.demands.keys()
        for resource, histogram in mine.demands.items():
            assert histogram.total == pytest.approx(theirs.demands[resource].total, rel=0.02)
    for uuid, parts in both.holdings.items():
        known = [(each.workload, each.first + 24, each.last + 24) for each in day.holdings[uuid]]
        assert [(part.workload, part.first, part.last) for part in parts] == known


def test_holders_are_the_agents_own(nodes: tuple[ScrapedDay, ...], result: SourceResult) -> None:
    """At the end each device has the agent's holders, with their shares and classes."""
    for node in nodes:
        for device in node.latest.devices:
            uuid = device.device.uuid
            if uuid not in result.days[COARSE_STEP].frames:
                continue
            last = (LAST - NUMBER * DAY) // COARSE_STEP - 1
            found = {
                held.workload.key: held.workload.workload_class
                for held in result.days[COARSE_STEP].holdings.get(uuid, ())
                if held.last >= last
            }
            expected = {
                holding.workload.key: holding.workload.workload_class for holding in device.holdings
            }
            assert expected.items() <= found.items()


def test_parts_of_a_stretch_are_at_most_all(result: SourceResult) -> None:
    """They sum to at most 1, however many workloads held the device in turn."""
    for day in result.days.values():
        for parts in day.holdings.values():
            for place in range(288):
                shares = [part.share_ratio for part in parts if part.first <= place <= part.last]
                assert sum(shares) <= 1.0 + 1e-9


def test_estate_is_what_the_agents_say(
    nodes: tuple[ScrapedDay, ...], stores: dict[str, SourceResult]
) -> None:
    """Devices are as their agents see them, by node, with the demand behind their needs."""
    estate = stores["scrapes"].estate
    for node in nodes:
        for each in node.latest.devices:
            found = estate.devices[each.device.uuid]
            device = each.device
            assert found.node == node.node
            assert found.device.board == device.board == found.pool
            assert found.device.index == device.index
            assert found.device.capacity_ratio == pytest.approx(device.capacity_ratio)
            assert found.device.has_mig_instances == device.has_mig_instances
            assert found.device.memory_total_bytes == pytest.approx(device.memory_total_bytes)
            needed = {
                resource: figures.demand
                for window, provisioning in each.provisioning.items()
                for resource, figures in provisioning.resources.items()
                if window == "current" and figures.demand is not None
            }
            assert found.demands == pytest.approx(needed)
            for holding in each.holdings:
                workload = estate.workloads[holding.workload.key]
                assert workload.name == holding.workload.name
                assert workload.namespace == holding.workload.namespace
                assert workload.key not in estate.teams


def test_recorded_devices_are_found_without_scrapes(stores: dict[str, SourceResult]) -> None:
    """Recording rules still list the devices after the scrapes have expired."""
    assert stores["rules"].estate.devices.keys() == stores["scrapes"].estate.devices.keys()


def test_probe_says_what_there_is(
    nodes: tuple[ScrapedDay, ...], stores: dict[str, SourceResult]
) -> None:
    """The report has the number of devices, density, age, and what can be concluded."""
    report = stores["scrapes"].report
    assert report.source == "rightsizer"
    assert report.devices == sum(len(node.latest.devices) for node in nodes)
    assert report.resolution_seconds == pytest.approx(SCRAPE, rel=0.05)
    tiers = Counter(
        device.tier
        for node in nodes
        for device in node.latest.devices
        if not device.device.has_mig_instances
    )
    assert report.tier is tiers.most_common(1)[0][0]
    assert report.oldest == pytest.approx(START, abs=1200 * 10**9)
    assert any("where each device's time went" in each for each in report.can)
    (days,) = (each for each in report.cannot if "sizing" in each)
    assert days.startswith("samples reach back 2 h")
    poor = tiers.total() - tiers[Tier.PROFILING]
    assert any(each.startswith(f"{poor} of {tiers.total()} devices") for each in report.cannot)
    assert any("no recording rules" in each for each in report.cannot)
    assert not report.warnings


@pytest.mark.parametrize("name", ["scrapes", "victoria"])
def test_young_store_has_fewer_scrapes_not_rarer_ones(
    stores: dict[str, SourceResult], name: str
) -> None:
    """A first look, some minutes after Prometheus began, misses no peaks of an hour."""
    report = stores[name].young
    assert report.resolution_seconds == pytest.approx(SCRAPE, rel=0.05)
    assert not any("peaks of less than an hour" in each for each in report.cannot)


def test_probe_finds_recording_rules(stores: dict[str, SourceResult]) -> None:
    """Without scrapes of the present nothing is concluded about now."""
    report = stores["rules"].report
    assert any("recording rules" in each for each in report.can)
    assert any("no `rightsizer_state_seconds_total` now" in each for each in report.cannot)
    assert not any("no recording rules" in each for each in report.cannot)
