"""Metrics over HTTP: selection by the path and headers of a scrape."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from publish_reports import full_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.web.server import WebServer
from sample_devices import NOW


@contextmanager
def served(settings: MetricsSettings | None = None, dcgm_source: str = "") -> Iterator[str]:
    """A server of one report, by its URL."""
    report = full_report(2)
    exposition = MetricsExposition(
        lambda: report, settings, wall_time=lambda: NOW, dcgm_source=dcgm_source
    )
    server = WebServer(
        ["127.0.0.1:0"], latest=lambda: report, exposition=exposition, wall_time=lambda: NOW
    )
    server.start()
    try:
        yield f"http://{server.addresses[0]}"
    finally:
        server.stop()


def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a response."""
    try:
        with urlopen(Request(url, headers=headers), timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, dict(refusal.headers), refusal.read()


def test_parameters_select() -> None:
    """Names and collectors, in node_exporter's notation."""
    with served() as url:
        _, _, chosen = get(f"{url}/metrics?collect[]=power")
        _, _, rest = get(f"{url}/metrics?exclude[]=power&exclude[]=distributions")
        _, _, named = get(f"{url}/metrics?name[]=rightsizer_device_up")

    assert b"rightsizer_power_watts" in chosen
    assert b"rightsizer_device_up" not in chosen
    assert b"rightsizer_power_watts" not in rest
    assert b"_distribution_" not in rest
    assert b"rightsizer_device_up" in rest
    assert {line.split(b"{")[0] for line in named.splitlines() if line[:1] != b"#"} == {
        b"rightsizer_device_up"
    }


@pytest.mark.parametrize(
    "query", ["collect[]=nothing", "exclude[]=fabric", "collect[]=power&exclude[]=memory"]
)
def test_a_selection_that_cannot_be_is_a_bad_request(query: str) -> None:
    """Rather than a page without the expected metrics."""
    with served() as url:
        status, _, said = get(f"{url}/metrics?{query}")

    assert status == 400
    assert b"collect" in said


def test_dcgm_is_not_found_until_it_is_switched_on() -> None:
    """The response says how to enable it."""
    with served() as url:
        status, _, said = get(f"{url}/metrics/dcgm")

    assert status == 404
    assert b"web.metrics.dcgm" in said


def test_dcgm_is_refused_while_another_is_read() -> None:
    """Every GPU would be there twice."""
    source = "http://localhost:9400/metrics"
    with served(MetricsSettings(dcgm=True), dcgm_source=source) as url:
        status, _, said = get(f"{url}/metrics/dcgm")

    assert status == 404
    assert source.encode() in said


def test_dcgm_is_text_whatever_is_asked_for() -> None:
    """Like dcgm-exporter; compressed if accepted."""
    accept = "application/openmetrics-text;version=1.0.0"
    with served(MetricsSettings(dcgm=True)) as url:
        status, headers, plain = get(f"{url}/metrics/dcgm", Accept=accept)
        _, packed_headers, packed = get(f"{url}/metrics/dcgm", **{"Accept-Encoding": "gzip"})

    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert plain.startswith(b"# HELP DCGM_FI_DEV_SM_CLOCK ")
    assert b"# EOF" not in plain
    assert packed_headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
