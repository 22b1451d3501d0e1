"""The exposition: formats, content, and its cost for a scraper."""

import gzip
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.utils import floatToGoString

from prometheus_server import binary
from publish_reports import full_report, node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.families import BUCKET_EDGES, Families, SeriesCache, number_text
from rightsizer.exposition.process_metrics import process_families
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.histogram import Histogram
from rightsizer.model.metric_family import Level
from rightsizer.model.report import Report
from rightsizer.model.state import Cause, Condition, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from sample_devices import HOUR, INSTANCE, NOW, PARENT, uuid_of

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
DOWN = 5


def exposition_of(report: Report | None, now: int = NOW, **settings: int) -> MetricsExposition:
    """The exposition of one report at one time."""
    whole = MetricsSettings(level=Level.FULL, **settings)
    return MetricsExposition(lambda: report, whole, wall_time=lambda: now, hostname="n1")


def text_of(report: Report | None, now: int = NOW, **settings: int) -> str:
    """The complete text format of a report."""
    return exposition_of(report, now, **settings).render().body.decode()


def own(text: str) -> str:
    """Lines other than prometheus_client's own about the test process."""
    return "".join(line for line in text.splitlines(keepends=True) if "rightsizer_" in line)


def value(text: str, name: str, /, **labels: str) -> float | None:
    """The value of a series, or `None` if absent."""
    for family in parse_text(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


def series_of(text: str, uuid: str) -> set[str]:
    """The names of a device's samples."""
    return {
        sample.name
        for family in parse_text(text)
        for sample in family.samples
        if sample.labels.get("uuid") == uuid
    }


def test_golden_exposition(golden: Callable[[str | Path, str], None]) -> None:
    """A MIG instance, a device that is down, the node and the agent match the golden file."""
    whole = node_report()
    down = replace(whole.devices[DOWN], xids=XidLog({79: 1}, 79, NOW))
    node = full_report(2).node
    report = replace(whole, devices=(down, whole.devices[INSTANCE]), node=node)
    golden("metrics.txt", own(text_of(report)))


@pytest.mark.parametrize("report", [node_report(), full_report(), None])
def test_writer_equals_the_library(report: Report | None) -> None:
    """Both formats equal the output of prometheus_client byte for byte."""
    exposition = exposition_of(report)
    text = exposition.render().body
    open_metrics = exposition.render(OPEN_METRICS).body
    collected = list(parse_open_metrics(open_metrics.decode()))
    assert len(collected) > 6

    class Collected:
        def collect(self) -> list[Metric]:
            return collected

    ours = own(text.decode()), own(open_metrics.decode())
    library = generate_latest(Collected()), generate_open_metrics(Collected())
    assert ours == tuple(own(one.decode()) for one in library)
    assert open_metrics.endswith(b"# EOF\n")


def test_the_process_is_told_of_as_the_library_does() -> None:
    """The same metrics with the same help and order; values change meanwhile."""
    library = [
        (each.name, each.documentation, each.type, each.unit, [one.name for one in each.samples])
        for each in ProcessCollector(registry=None).collect()
    ]
    ours = [
        (head.name, head.help, head.kind, head.unit, [line.split(" ")[0] for line in family.lines])
        for family in process_families()
        for head in (family.head,)
    ]
    assert ours == library
    values = [
        (sample.value, float(family.lines[0].split(" ")[1]))
        for each, family in zip(
            ProcessCollector(registry=None).collect(), process_families(), strict=True
        )
        for sample in each.samples
    ]
    assert all(found == pytest.approx(value, rel=0.1) for value, found in values)


@given(st.floats() | st.integers(-(10**18), 10**18).map(float))
def test_a_number_is_written_as_the_library_does(value: float) -> None:
    """In Go's notation, including infinities and exponents."""
    assert number_text(value) == floatToGoString(value)  # type: ignore[no-untyped-call]


def test_both_formats_parse_to_the_same_samples() -> None:
    """prometheus_client's own parsers read the same values from either format."""
    exposition = exposition_of(node_report())
    text = exposition.render().body.decode()
    open_metrics = exposition.render(OPEN_METRICS).body.decode()
    samples = [
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }
        for families in (parse_text(text), parse_open_metrics(open_metrics))
    ]
    assert samples[0] == samples[1]
    assert len(samples[0]) > 1000


@pytest.mark.prometheus
def test_promtool_has_no_complaint() -> None:
    """Prometheus's own linter accepts every name, type and help text."""
    checked = subprocess.run(
        [binary("promtool"), "check", "metrics"],
        input=exposition_of(full_report()).render().body,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


@pytest.mark.parametrize(("devices", "most"), [(8, 1900), (64, 15200)])
def test_series_stay_within_the_budget(devices: int, most: int) -> None:
    """Everything that a device can export, the agent's own series and open advice."""
    lines = text_of(full_report(devices)).splitlines()
    assert devices * 200 < sum(not line.startswith("#") for line in lines) <= most


def test_every_series_is_exported_once() -> None:
    """No two lines name the same series."""
    lines = [line.rpartition(" ")[0] for line in text_of(node_report()).splitlines()]
    repeated = {
        line for line, count in Counter(lines).items() if count > 1 and not line.startswith("#")
    }
    assert not repeated


def test_counters_start_at_zero_for_all_known_children() -> None:
    """A state that never occurred reads 0, so that its first second is an increase."""
    text = text_of(node_report())
    for state in State:
        assert (
            value(text, "rightsizer_state_seconds_total", uuid=uuid_of(3), state=state) is not None
        )
    stalled = value(text, "rightsizer_waste_seconds_total", uuid=uuid_of(3), cause=Cause.STALLED)
    assert stalled == 0.0


def test_every_condition_is_counted_from_0() -> None:
    """So that `increase` counts its first second."""
    text = text_of(node_report())
    for condition in Condition:
        assert value(text, "rightsizer_condition_seconds_total", condition=condition) is not None


def test_missing_values_are_absent() -> None:
    """An unread value has no series: neither 0 nor NaN."""
    text = text_of(node_report())
    assert value(text, "rightsizer_encoder_ratio", uuid=uuid_of(0)) is None
    assert value(text, "rightsizer_underprovisioned_ratio", resource="compute") is None
    assert "NaN" not in text


def test_a_down_device_keeps_its_counters_and_loses_its_readings() -> None:
    """Its `up` is 0 with a reason; counters stay, readings disappear."""
    text = text_of(node_report())
    assert value(text, "rightsizer_device_up", uuid=uuid_of(DOWN)) == 0.0
    assert value(text, "rightsizer_device_down_info", uuid=uuid_of(DOWN), reason="lost") == 1.0
    names = series_of(text, uuid_of(DOWN))
    assert "rightsizer_state_seconds_total" in names
    assert "rightsizer_device_last_sample_timestamp_seconds" in names
    assert not names & {"rightsizer_gpu_busy_ratio", "rightsizer_need_ratio"}


@pytest.mark.parametrize(("age_seconds", "is_shown"), [(5, True), (6, False)])
def test_stale_readings_vanish(age_seconds: int, is_shown: bool) -> None:  # noqa: FBT001
    """A report that is not renewed loses readings and derived gauges, not counters."""
    text = text_of(node_report(), NOW + age_seconds * NANOSECONDS_PER_SECOND)
    names = series_of(text, uuid_of(0))
    assert ("rightsizer_gpu_busy_ratio" in names) is is_shown
    assert ("rightsizer_device_overprovisioned_ratio" in names) is is_shown
    assert "rightsizer_state_seconds_total" in names


def test_a_device_that_has_left_the_report_vanishes() -> None:
    """A removed device leaves neither series nor labels."""
    reports = [node_report(1), replace(node_report(2), devices=node_report().devices[:1])]
    exposition = MetricsExposition(lambda: reports[0], wall_time=lambda: NOW)
    assert uuid_of(3).encode() in exposition.render(names=["rightsizer_device_up"]).body
    reports.pop(0)
    assert uuid_of(3).encode() not in exposition.render(names=["rightsizer_device_up"]).body


def test_a_divided_gpu_has_no_state_of_its_own() -> None:
    """The seconds of a MIG parent are those of its instances."""
    text = text_of(node_report())
    assert "rightsizer_state_seconds_total" not in series_of(text, uuid_of(PARENT))
    assert "rightsizer_device_up" in series_of(text, uuid_of(PARENT))
    assert value(text, "rightsizer_device_capacity_ratio", uuid=uuid_of(INSTANCE)) == 3 / 7


def test_throttle_reasons_are_a_series_each() -> None:
    """Each bit of the mask becomes 0 or 1, by reason."""
    text = text_of(node_report())
    name = "rightsizer_clock_event_reason"
    assert value(text, name, uuid=uuid_of(0), reason="sw_power_cap") == 1.0
    assert value(text, name, uuid=uuid_of(0), reason="sw_thermal_slowdown") == 0.0


def test_only_open_advice_is_exported_the_surest_first() -> None:
    """Closed advice is absent, and the limit keeps the most confident."""
    text = text_of(node_report(), advice_limit=1)
    assert value(text, "rightsizer_advice_open") == 3.0
    assert value(text, "rightsizer_advice_confidence_ratio", id="a1f0c2d4e6b8") == 0.97
    assert value(text, "rightsizer_advice_confidence_ratio", id="b2e1d3c5f7a9") is None
    assert value(text_of(node_report()), "rightsizer_advice_info", id="d4c3b2a1f0e9") is None


def test_unknown_risk_and_savings_are_absent() -> None:
    """No value is better than an invented one."""
    text = text_of(node_report())
    assert value(text, "rightsizer_advice_risk_ratio", id="a1f0c2d4e6b8") == 0.05
    assert value(text, "rightsizer_advice_risk_ratio", id="b2e1d3c5f7a9") is None
    assert value(text, "rightsizer_advice_savings_gpus", id="b2e1d3c5f7a9") is None


def test_the_agents_own_numbers_are_found_by_name() -> None:
    """Untouched counters start at 0; names missing from the table are not exported."""
    report = node_report()
    metrics = {**report.agent.metrics, "rightsizer_made_up": 1.0}
    del metrics["rightsizer_history_size_bytes"]
    agent = replace(report.agent, metrics=metrics)
    text = text_of(replace(report, agent=agent))
    assert value(text, "rightsizer_samples_total") == 93600.0
    assert value(text, "rightsizer_annotations_total") == 0.0
    assert value(text, "rightsizer_history_size_bytes") is None
    assert value(text, "rightsizer_log_messages_total", level="warning") == 3.0
    assert value(text, "rightsizer_job_failures_total", name="recommend") == 1.0
    assert value(text, "rightsizer_job_last_start_timestamp_seconds", name="annotate") is None
    assert "rightsizer_made_up" not in text


def test_before_the_first_report_only_the_agent_is_told_of() -> None:
    """A scrape at start-up succeeds, and identifies the agent."""
    text = text_of(None)
    assert value(text, "rightsizer_build_info") == 1.0
    assert "rightsizer_device_up" not in text
    assert "process_resident_memory_bytes" in text


def test_format_follows_the_accept_header() -> None:
    """Prometheus gets the format that it asks for, other clients version 0.0.4."""
    exposition = exposition_of(node_report())
    prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    assert exposition.render(prometheus).content_type.startswith("application/openmetrics-text")
    assert exposition.render("*/*").content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_unusual_escapings_are_honored() -> None:
    """A scraper that asks for dots gets doubled underscores, as specified."""
    body = exposition_of(node_report()).render(f"{OPEN_METRICS}; escaping=dots").body
    assert b"rightsizer__device__up" in body


def test_gzip_holds_the_same_bytes() -> None:
    """Compression changes only the size."""
    exposition = exposition_of(node_report())
    plain = exposition.render()
    packed = exposition.render(accept_encoding="gzip, deflate")
    assert (plain.encoding, packed.encoding) == (None, "gzip")
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) * 8 < len(plain.body)


def test_names_filter_the_samples() -> None:
    """`name[]` gives the named samples and nothing else, also those of the process."""
    names = ["rightsizer_device_up", "process_cpu_seconds_total"]
    lines = exposition_of(node_report()).render(names=names).body.decode().splitlines()
    assert {line.split("{")[0].split(" ")[0] for line in lines if line[0] != "#"} == set(names)


def test_a_generation_is_rendered_once() -> None:
    """Replicas share one rendering; the next tick has another."""
    reports = [node_report(1)]
    exposition = MetricsExposition(lambda: reports[-1], wall_time=lambda: NOW)
    first = exposition.render(OPEN_METRICS)
    assert exposition.render(OPEN_METRICS) is first
    assert exposition.render() is not first
    reports.append(node_report(2))
    assert exposition.render(OPEN_METRICS) is not first


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 10 * HOUR)),
        max_size=40,
    )
)
def test_histograms_are_monotone_and_whole(observations: list[tuple[float, int]]) -> None:
    """Buckets never fall, count whole seconds and end in the count; the sum is exact."""
    histogram = Histogram()
    for ratio, weight in observations:
        histogram.add(ratio, weight)
    families = Families()
    families.add_histogram("rightsizer_power_distribution_ratio", histogram, 1.5, "GPU-1")
    (family,) = families
    values = [(line.split("{")[0], float(line.rpartition(" ")[2])) for line in family.lines]
    buckets = [value for name, value in values if name.endswith("_bucket")]
    count = next(value for name, value in values if name.endswith("_count"))
    total = next(value for name, value in values if name.endswith("_sum"))
    assert total == 1.5
    assert len(buckets) == len(BUCKET_EDGES) + 1 == 12
    assert buckets == sorted(buckets)
    assert buckets[-1] == count == histogram.total // NANOSECONDS_PER_SECOND
    assert all(bucket == int(bucket) for bucket in buckets)


def test_series_of_what_is_gone_are_dropped() -> None:
    """Owners and recommendations come and go; what stays is formatted once."""
    cache = SeriesCache()
    kept = set[int]()
    for number in range(100):
        families = Families(cache=cache)
        families.add("rightsizer_advice_confidence_ratio", 1.0, f"id-{number}")
        families.add("rightsizer_device_up", 1.0, "GPU-1")
        kept.add(id(cache.groups["rightsizer_device_up", ("GPU-1",)]))
    assert len(cache.groups) < 20
    assert len(kept) == 1
