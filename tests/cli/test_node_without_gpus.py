"""An agent that reads no GPU: commands say why, and not only that nothing is open."""

from collections.abc import Iterator
from typing import Final

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from publish_reports import node_report
from rightsizer.cli.main import main
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.web.authenticator import Authenticator, Passwords
from rightsizer.web.server import WebAccess, WebServer
from rightsizer.web.settings import PasswordSettings
from rightsizer.web.web_config import WebConfig
from sample_devices import NOW

TROUBLE: Final = "libnvidia-ml.so.1 was not found: install the NVIDIA driver"
NODE: Final = node_report()
REPORT: Final = replace(NODE, devices=(), advice=(), agent=replace(NODE.agent, trouble=TROUBLE))
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url() -> Iterator[str]:
    """The address of such an agent."""
    server = WebServer(
        ["127.0.0.1:0"],
        latest=lambda: REPORT,
        exposition=MetricsExposition(lambda: REPORT),
        wall_time=lambda: NOW,
        access=WebAccess(authenticator=Authenticator(WebConfig, Passwords(PasswordSettings()))),
    )
    with capture_logs():
        server.start()
        yield f"http://{server.addresses[0]}"
        server.stop()


def test_advise_says_why_nothing_is_open(url: str, capsys: Captured) -> None:
    """No recommendation because of no driver is no good news."""
    assert main(["advise", "--url", url]) == 0
    assert capsys.readouterr().out == f"0 recommendations are open.\nNo GPU is read: {TROUBLE}\n"


def test_top_says_why_there_is_no_gpu(url: str, capsys: Captured) -> None:
    """In place of rows."""
    assert main(["top", "--url", url]) == 0
    assert capsys.readouterr().out.endswith(f"{TROUBLE}\n")
