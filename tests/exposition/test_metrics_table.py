"""The table of metrics against rules unknown to promtool."""

import re
from collections.abc import Callable
from pathlib import Path

from metrics_document import metrics_document
from rightsizer.model.metric import DISTRIBUTION_SIGNALS, METRICS, QUANTITY_SIGNALS, RATIO_GAUGES
from rightsizer.model.metric_family import MetricKind, series_key
from rightsizer.model.units import Unit

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
PLAIN = re.compile(
    r"rightsizer_(device_up|collector_success|pcie_link_(generation|width)|device_processes"
    r"|clock_event_reason|advice_open|workers_abandoned|device_slow|collector_postponed_devices"
    r"|collector_refused_items"
    r"|served_(requests|prompt_tokens|output_tokens)_per_second"
    r"|broker_(leases|queue_length)|recommender_(findings|abstentions|dropped_findings)"
    r"|(annotations|webhooks)_pending|config_last_reload_successful|requests_(running|waiting)"
    r"|nvlink_(links|links_up|up)|fabric_(state|port_up)|recovery_action|performance_state"
    r"|(retired_pages|remapped_rows)_[a-z]+|encoder_sessions|fleet_(node_advice|source_devices))"
)
"""Numbers without a unit: switches, counts, and values native to PCI."""
ABBREVIATED_UNITS = {
    "ms",
    "sec",
    "secs",
    "kb",
    "mb",
    "gb",
    "gib",
    "kib",
    "bps",
    "hz",
    "ghz",
    "w",
    "mw",
    "j",
    "mj",
    "c",
    "f",
    "pct",
    "util",
    "mem",
    "temp",
    "freq",
    "num",
    "avg",
    "cnt",
}
BASE_UNITS = {"seconds", "bytes", "watts", "joules", "hertz", "celsius", "ratio"}
FORBIDDEN_LABELS = {
    "type",
    "region",
    "zone",
    "cluster",
    "service",
    "env",
    "owner",
    "le",
    "quantile",
    "job",
    "instance",
    "hostname",
    "host",
    "node",
    "total",
}


def test_names_end_in_a_base_unit() -> None:
    """Counters end in _total, info in _info, and all others in their unit, unless unitless."""
    for metric in METRICS.values():
        assert re.fullmatch(r"rightsizer(_[a-z0-9]+)+", metric.name), metric.name
        assert not re.search(
            r"_(sum|count|bucket|percent|mib|mhz|milliseconds)(_|$)", metric.name
        ), metric.name
        assert metric.name.endswith("_total") is (metric.kind is MetricKind.COUNTER), metric.name
        assert metric.name.endswith("_info") is (metric.kind is MetricKind.INFO), metric.name
        if metric.kind in {MetricKind.GAUGE, MetricKind.HISTOGRAM}:
            assert bool(metric.unit) is not bool(PLAIN.fullmatch(metric.name)), metric.name


def test_names_say_nothing_that_labels_or_types_say() -> None:
    """No type except the suffix, no label, no abbreviation, and the base unit only at the end."""
    for metric in METRICS.values():
        stem = metric.stem.removeprefix("rightsizer_")
        parts = stem.split("_")
        first = metric.unit.partition("_")[0]
        assert not {"gauge", "counter", "histogram", "metric", "value", "by"} & set(parts), (
            metric.name
        )
        assert not ABBREVIATED_UNITS & set(parts), metric.name
        if first in BASE_UNITS:
            assert [part for part in parts if part in BASE_UNITS][-1] == first, metric.name
            assert stem.endswith(metric.unit), metric.name
        assert not any(f"_by_{label}" in metric.name for label in metric.labels), metric.name


def test_open_metrics_finds_the_unit_at_the_end_of_the_name() -> None:
    """As the specification requires; info and stateset metrics have none."""
    for metric in METRICS.values():
        if metric.unit:
            assert metric.stem.endswith(f"_{metric.unit}"), metric.name
            assert metric.kind is not MetricKind.INFO, metric.name


def test_labels_are_plain_and_named_once() -> None:
    """Lower case, no leading underscores, none twice, each documented."""
    for metric in METRICS.values():
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in metric.labels), metric.name
        assert len(set(metric.labels)) == len(metric.labels), metric.name


def test_help_is_a_sentence() -> None:
    """It starts with a capital or a digit and ends with a full stop."""
    for metric in METRICS.values():
        assert re.fullmatch(r"[A-Z0-9][^\n|]+\.", metric.help), metric.name


def test_labels_clash_with_nothing() -> None:
    """No target label or reserved word; value series have the uuid and at most two more labels."""
    for metric in METRICS.values():
        assert not FORBIDDEN_LABELS & set(metric.labels), metric.name
        if metric.kind is not MetricKind.INFO:
            assert len(metric.labels) <= 3, metric.name
            assert len(metric.labels) < 3 or metric.labels[0] == "uuid", metric.name


def test_signals_are_exported_in_their_own_kind() -> None:
    """Ratios among ratios, quantities among quantities, distributions of ratios only."""
    assert all(signal.unit is Unit.RATIO for signal in RATIO_GAUGES)
    assert all(signal.unit is not Unit.RATIO for signal in QUANTITY_SIGNALS)
    assert set(DISTRIBUTION_SIGNALS) <= set(RATIO_GAUGES)


def test_the_documentation_is_the_tables_own(golden: Callable[[str | Path, str], None]) -> None:
    """docs/metrics.md is generated from the table; `make golden` writes it."""
    golden(DOCUMENT, metrics_document())


def test_series_keys_read_like_prometheus() -> None:
    """A key without labels is the plain name."""
    assert series_key("a_total") == "a_total"
    assert series_key("a_total", level="error") == 'a_total{level="error"}'
