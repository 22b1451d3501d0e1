"""Addresses of a dcgm-exporter."""

from pathlib import Path

import pytest

from rightsizer.telemetry.dcgm.settings import DcgmSettings


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:19400/metrics/dcgm",
        "https://node-3:8443/agent/metrics/dcgm/",
    ],
)
def test_our_own_page_is_no_source(url: str) -> None:
    """Our own page in dcgm-exporter's format would count as a second source."""
    with pytest.raises(ValueError, match="name the address of a dcgm-exporter"):
        DcgmSettings(url=url)


@pytest.mark.parametrize("url", ["localhost:9400", "ftp://x/metrics", "http://a:b@x/", "http://"])
def test_invalid_address_is_refused(url: str) -> None:
    """The error precedes the start."""
    with pytest.raises(ValueError, match="address"):
        DcgmSettings(url=url)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://x:9400", "http://x:9400/metrics"),
        ("http://x:9400/", "http://x:9400/metrics"),
        ("http://x:9400/metrics", "http://x:9400/metrics"),
        ("http://x/gpu/dcgm", "http://x/gpu/dcgm"),
    ],
)
def test_the_usual_path_need_not_be_said(url: str, address: str) -> None:
    """The default is that of Prometheus."""
    assert DcgmSettings(url=url).address == address


def test_the_token_is_read_again_each_time(tmp_path: Path) -> None:
    """Service account tokens rotate."""
    file = tmp_path / "token"
    settings = DcgmSettings(url="http://x", token_file=str(file))
    file.write_text("one\n")
    first = settings.token()
    file.write_text("two")

    assert (first, settings.token(), DcgmSettings().token()) == ("one", "two", None)
