"""Configuration of engines, and rejected values."""

import re

import pytest

from rightsizer.config.shape import shape_of
from rightsizer.config.validator import validate
from rightsizer.telemetry.serving.settings import (
    EngineName,
    ServingEndpoint,
    ServingTelemetrySettings,
)


def test_settings_are_read_from_plain_data() -> None:
    """Durations and sizes are text, endpoints a list, as in a configuration file."""
    settings = validate(
        shape_of(ServingTelemetrySettings),
        {
            "interval": "10s",
            "page_maximum": "1MiB",
            "endpoints": [
                {"url": "http://127.0.0.1:8000", "workload": "llama", "engine": "vllm"},
                {"url": "http://127.0.0.1:8002/metrics", "gpus": ["4", "5"]},
            ],
        },
    )

    assert settings == ServingTelemetrySettings(
        endpoints=(
            ServingEndpoint("http://127.0.0.1:8000", EngineName.VLLM, workload="llama"),
            ServingEndpoint("http://127.0.0.1:8002/metrics", gpus=("4", "5")),
        ),
        interval_seconds=10.0,
        page_maximum_bytes=2**20,
    )


def test_no_engine_is_asked_unless_listed() -> None:
    """Serving engines are optional."""
    assert ServingTelemetrySettings().endpoints == ()


@pytest.mark.parametrize(
    ("url", "address", "name"),
    [
        ("http://localhost:8000", "http://localhost:8000/metrics", "serving/localhost:8000"),
        ("http://[::1]:8000/", "http://[::1]:8000/metrics", "serving/[::1]:8000"),
        ("https://h/a/metrics/", "https://h/a/metrics", "serving/h/a/metrics"),
    ],
)
def test_an_address_without_a_path_has_the_usual_one(url: str, address: str, name: str) -> None:
    """All four engines answer at /metrics; a proxy's path stays."""
    endpoint = ServingEndpoint(url)

    assert (endpoint.address, endpoint.name) == (address, name)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("127.0.0.1:8000", "write it like 'http://127.0.0.1:8000/metrics'"),
        ("ftp://127.0.0.1/metrics", "is not an address"),
        ("http://127.0.0.1:99999", "is not an address"),
        ("http://[::1", "is not an address"),
        ("http://h/a\nb", "is not an address"),
        ("http://h ost/", "is not an address"),
        ("http://me:secret@127.0.0.1:8000", "the address of '127.0.0.1' has a password"),
        ("http://127.0.0.1:8000/metrics?name=x", "has a query in it"),
        ("", "is not an address"),
    ],
)
def test_an_address_that_nobody_can_use_is_refused(url: str, why: str) -> None:
    """The error comes with the configuration, not the first request; it repeats no password."""
    with pytest.raises(ValueError, match=re.escape(why)) as raised:
        ServingEndpoint(url)

    assert "secret" not in str(raised.value)


def test_an_engine_is_asked_once() -> None:
    """Two spellings of an address are one engine."""
    twice = (ServingEndpoint("http://h:1"), ServingEndpoint("http://h:1/metrics"))

    with pytest.raises(ValueError, match="'h:1' is listed 2 times; list it once"):
        ServingTelemetrySettings(endpoints=twice)
