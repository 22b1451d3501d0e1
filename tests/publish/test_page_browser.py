"""The page in a real browser: it renders, complains of nothing, and fits a phone."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from publish_reports import node_report
from publish_stories import NOW
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web import WebServer

CHROMIUM: Final = shutil.which("chromium")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-quic", "--enable-logging=stderr", "--log-level=0"),
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture
def url() -> Iterator[str]:
    """A served page of the whole node."""
    report = node_report()
    server = WebServer(
        ["127.0.0.1:0"],
        latest=lambda: report,
        exposition=Exposition(lambda: report, wall_time=lambda: NOW),
        wall_time=lambda: NOW,
    )
    server.start()
    yield f"http://{server.addresses[0]}/?refresh=off"
    server.stop()


def browse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Chromium with a profile of its own."""
    return subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_the_page_renders_without_a_complaint(url: str, tmp_path: Path) -> None:
    """Neither the console nor the content security policy has anything to say."""
    run = browse(tmp_path, "--dump-dom", url)
    assert "idle or stalled" in run.stdout
    assert run.stdout.rstrip().endswith("</html>")
    assert ":CONSOLE" not in run.stderr


@pytest.mark.parametrize("width", [360, 390, 768, 1400])
def test_the_page_fits_its_window(url: str, tmp_path: Path, width: int) -> None:
    """Nothing reaches beyond the right edge, on a phone or on a desk."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><iframe id='page' sandbox='allow-same-origin' src='page.html' "
        f"style='border:0;width:{width}px;height:900px'></iframe><output></output>"
        "<script>page.onload = () => document.querySelector('output').textContent = "
        "'width=' + page.contentDocument.documentElement.scrollWidth;</script>"
    )
    document = browse(tmp_path, "--dump-dom", url).stdout
    (tmp_path / "page.html").write_text(f"<!doctype html>{document}")
    run = browse(tmp_path, "--allow-file-access-from-files", "--dump-dom", frame.as_uri())
    assert f"width={width}<" in run.stdout
