"""Collectors of the exposition: their metrics, switches, and selection by request."""

import argparse
from collections import Counter

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families as parse_text

from publish_reports import full_report
from readings import SERVING_SIGNALS
from rightsizer.cli.agent import add_collector_flags, with_collector_flags
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import CollectorSwitches, MetricsSettings
from rightsizer.model.errors import UsageError
from rightsizer.model.metric import DETAIL_SIGNALS, METRICS, QUANTITY_SIGNALS, RATIO_GAUGES
from rightsizer.model.metric_family import (
    COLLECTORS,
    DEFAULT_COLLECTORS,
    Collector,
    Level,
    MetricKind,
)
from rightsizer.model.report import Report
from sample_devices import NOW

SERVING_LIMIT = 1920


def exposition_of(report: Report, settings: MetricsSettings | None = None) -> MetricsExposition:
    """The exposition of one report."""
    whole = MetricsSettings(level=Level.FULL)
    return MetricsExposition(lambda: report, settings or whole, wall_time=lambda: NOW)


def names_of(body: bytes) -> set[str]:
    """The names of an exposition's families, as in the table."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in parse_text(body.decode())
    }


def collectors_of(body: bytes) -> set[Collector]:
    """The collectors with samples in an exposition."""
    return {
        METRICS[name].collector if name in METRICS else Collector.PROCESS for name in names_of(body)
    }


def flags(*given: str) -> argparse.Namespace:
    """The flags as parsed by the agent."""
    parser = argparse.ArgumentParser()
    add_collector_flags(parser)
    return parser.parse_args(given)


def serving_report() -> Report:
    """Eight GPUs with all values, each with a serving engine."""
    report = full_report()
    devices = tuple(
        replace(device, signals={**device.signals, **dict.fromkeys(SERVING_SIGNALS, 0.5)})
        for device in report.devices
    )
    return replace(report, devices=devices)


def test_every_collector_has_a_sentence_and_a_metric() -> None:
    """Each has metrics in the table, except that of prometheus_client."""
    assert set(COLLECTORS) == set(Collector)
    assert {metric.collector for metric in METRICS.values()} == {*Collector} - {Collector.PROCESS}
    assert all(sentence.endswith(".") for sentence in COLLECTORS.values())


def test_readings_of_the_default_set_are_of_a_default_collector() -> None:
    """The others are of one that is off, so that there is a single switch."""
    for signal in (*RATIO_GAUGES, *QUANTITY_SIGNALS):
        assert METRICS[signal.metric_name].collector in DEFAULT_COLLECTORS
    for signal in DETAIL_SIGNALS:
        assert METRICS[signal.metric_name].collector not in DEFAULT_COLLECTORS


def test_a_serving_node_stays_within_the_budget() -> None:
    """With everything that a device and an engine can export, on eight GPUs."""
    lines = exposition_of(serving_report()).render().body.decode().splitlines()
    series = [line for line in lines if not line.startswith("#")]

    assert sum("rightsizer_requests_running" in line for line in series) == 8
    assert 1800 < len(series) <= SERVING_LIMIT


def test_a_collector_that_is_off_has_no_sample() -> None:
    """Other collectors are unaffected."""
    everything = collectors_of(exposition_of(serving_report()).render().body)
    for collector in everything:
        settings = MetricsSettings(level=Level.FULL).switched(off=[collector])
        left = collectors_of(exposition_of(serving_report(), settings).render().body)
        assert left == everything - {collector}


def test_a_collector_that_is_on_adds_its_own() -> None:
    """Links between GPUs are off by default."""
    settings = MetricsSettings(collectors=CollectorSwitches(topology=True), level=Level.FULL)
    plain = names_of(exposition_of(full_report()).render().body)
    more = names_of(exposition_of(full_report(), settings).render().body)

    assert more - plain == {"rightsizer_topology_link_info"}


def test_details_are_all_collectors() -> None:
    """The older switch means those that are off by default."""
    assert MetricsSettings().enabled == DEFAULT_COLLECTORS
    assert MetricsSettings(details=True).enabled == frozenset(Collector)


def test_flags_go_before_the_configuration() -> None:
    """On adds, off removes, and unnamed ones are unchanged."""
    settings = MetricsSettings(collectors=CollectorSwitches(waste=False))
    given = flags("--collector.topology", "--no-collector.distributions")
    enabled = with_collector_flags(settings, given).enabled
    usual = DEFAULT_COLLECTORS - {Collector.WASTE}

    assert enabled == (usual | {Collector.TOPOLOGY}) - {Collector.DISTRIBUTIONS}
    assert with_collector_flags(settings, flags()) is settings


def test_a_flag_takes_one_from_the_details() -> None:
    """All collectors except the one that is switched off."""
    enabled = with_collector_flags(
        MetricsSettings(details=True), flags("--no-collector.fabric")
    ).enabled

    assert enabled == frozenset(Collector) - {Collector.FABRIC}


def test_a_request_selects_collectors() -> None:
    """`collect[]` gives those named, `exclude[]` the rest; together they are complete."""
    exposition = exposition_of(full_report())
    asked = ["memory", "power"]
    chosen = exposition.render(collect=asked)
    rest = exposition.render(exclude=asked)

    assert collectors_of(chosen.body) == {Collector.MEMORY, Collector.POWER}
    whole = Counter(exposition.render().body.splitlines())
    assert Counter([*chosen.body.splitlines(), *rest.body.splitlines()]) == whole


def test_names_and_collectors_select_together() -> None:
    """Their intersection is exported."""
    rendering = exposition_of(full_report()).render(
        names=["rightsizer_power_watts", "rightsizer_device_up"], collect=["power"]
    )

    assert names_of(rendering.body) == {"rightsizer_power_watts"}


@pytest.mark.parametrize(
    ("collect", "exclude", "message"),
    [
        (["memory"], ["power"], "collect[] and exclude[]"),
        (["gpus"], [], "there is no collector 'gpus'"),
        ([], ["gpus"], "there is no collector 'gpus'"),
        (["topology"], [], "--collector.topology"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(
    collect: list[str], exclude: list[str], message: str
) -> None:
    """With the error and the remedy; node_exporter answers 400 too."""
    exposition = exposition_of(full_report())
    with pytest.raises(UsageError) as refusal:
        exposition.render(collect=collect, exclude=exclude)

    assert message in str(refusal.value)


@pytest.mark.parametrize(("level", "most"), [(Level.ESSENTIAL, 40), (Level.STANDARD, 90)])
def test_a_level_bounds_the_series_of_a_gpu(level: Level, most: int) -> None:
    """In total for a node of eight GPUs with all values, including serving engines."""
    body = exposition_of(serving_report(), MetricsSettings(level=level)).render().body
    series = [line for line in body.decode().splitlines() if not line.startswith("#")]
    assert len(series) <= most * 8, len(series)


def test_collector_enabled_by_name_is_exported_at_every_level() -> None:
    """A level limits the usual collectors; an explicit one overrides it."""
    on = CollectorSwitches(topology=True, links=True)
    for level in Level:
        settings = MetricsSettings(level=level, collectors=on)
        found = names_of(exposition_of(full_report(), settings).render().body)
        assert "rightsizer_topology_link_info" in found
    assert MetricsSettings().level is Level.STANDARD


def test_each_level_has_what_the_one_below_has() -> None:
    """Each has the devices, their time accounting and the advice."""
    bodies = [
        exposition_of(serving_report(), MetricsSettings(level=level)).render().body
        for level in Level
    ]
    essential, standard, full = map(names_of, bodies)
    assert essential < standard < full
    assert full == names_of(exposition_of(serving_report()).render().body)
    assert {
        "rightsizer_device_info",
        "rightsizer_workload_info",
        "rightsizer_state_seconds_total",
        "rightsizer_waste_seconds_total",
        "rightsizer_device_underprovisioned_ratio",
        "rightsizer_advice_info",
    } <= essential
    assert not any(METRICS[name].kind is MetricKind.HISTOGRAM for name in standard & set(METRICS))
