"""Content negotiation: the format for the headers of a scraper."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)

from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.negotiation import accepts_gzip, format_for
from sample_devices import NOW

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping="
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.8,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_2_TEXT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_NATIVE = f"{PROTOBUF};q=0.7,{PROMETHEUS_3}"
PROMETHEUS_3_TEXT = "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.1"
OPEN_METRICS_2 = f"application/openmetrics-text;version=2.0.0-rc0;q=0.9,{PROMETHEUS_3}"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html,application/xhtml+xml,*/*;q=0.8", PLAIN),
        ("application/json", PLAIN),
        (PROMETHEUS_2, f"{OPEN}underscores"),
        (PROMETHEUS_2_TEXT, PLAIN),
        (PROMETHEUS_3, f"{OPEN}allow-utf-8"),
        (PROMETHEUS_3_NATIVE, f"{OPEN}allow-utf-8"),
        (
            PROMETHEUS_3_TEXT,
            "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
        ),
        (OPEN_METRICS_2, f"{OPEN}allow-utf-8"),
        (f"{PROTOBUF},text/plain;version=0.0.4;q=0.3", PLAIN),
        (PROTOBUF, PLAIN),
        ("application/openmetrics-text", f"{OPEN}underscores"),
        ('application/openmetrics-text; version="1.0.0"', f"{OPEN}underscores"),
        ("application/openmetrics-text;version=0.0.1", PLAIN),
        ("application/openmetrics-text;version=2.0.0", PLAIN),
        ("application/openmetrics-text;version=1.0.0;escaping=odd", f"{OPEN}underscores"),
        ("text/plain,application/openmetrics-text;version=1.0.0;q=0.9", PLAIN),
        ("application/openmetrics-text;version=1.0.0;q=0,text/plain", PLAIN),
        ("application/openmetrics-text;version=1.0.0;q=much", PLAIN),
    ],
)
def test_the_best_offer_that_we_write_wins(accept: str, content_type: str) -> None:
    """As Prometheus 2 and 3 ask; unsupported formats are skipped, not partly fulfilled."""
    assert format_for(accept).content_type == content_type


@pytest.mark.parametrize(
    ("accept_encoding", "is_packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0, identity", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_is_an_offer_that_can_be_declined(accept_encoding: str, *, is_packed: bool) -> None:
    """A quality of 0 means never."""
    assert accepts_gzip(accept_encoding) is is_packed


def test_open_metrics_end_as_they_must() -> None:
    """With EOF, units only at the end of names, and neither creation times nor exemplars."""
    report = node_report()
    exposition = MetricsExposition(lambda: report, wall_time=lambda: NOW)
    text = exposition.render(PROMETHEUS_3).body.decode()
    families = list(parse_open_metrics(text))

    assert text.endswith("\n# EOF\n")
    assert text.count("# EOF") == 1
    assert "_created" not in text
    assert len(families) > 50
    for family in families:
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        assert all(sample.exemplar is None for sample in family.samples)


def test_prometheus_gets_it_packed() -> None:
    """Both headers of a scrape at once."""
    report = node_report()
    exposition = MetricsExposition(lambda: report, wall_time=lambda: NOW)
    rendering = exposition.render(PROMETHEUS_3, "gzip")

    assert gzip.decompress(rendering.body) == exposition.render(PROMETHEUS_3).body


@given(st.text())
def test_no_header_is_too_odd(header: str) -> None:
    """Any header gets a supported format."""
    assert format_for(header).content_type.startswith(("text/plain", "application/openmetrics"))
    assert accepts_gzip(header) in {True, False}
