"""The report in a real browser: it renders without errors, fits a phone, and prints."""

import datetime as dt
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from report_samples import report_facts
from rightsizer.report.builder import report_model
from rightsizer.report.documents import html_document

CHROMIUM: Final = shutil.which("chromium")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-quic", "--enable-logging=stderr", "--log-level=0"),
    "--allow-file-access-from-files",
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The story as a file."""
    file = tmp_path / "report.html"
    file.write_text(html_document(report_model(report_facts()), dt.UTC), encoding="utf-8")
    return file


def browse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Chromium with a profile of its own."""
    return subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_the_report_renders_without_a_complaint(page: Path, tmp_path: Path) -> None:
    """Neither the console nor the content security policy reports anything."""
    run = browse(tmp_path, "--dump-dom", page.as_uri())

    assert "What went unused" in run.stdout
    assert ":CONSOLE" not in run.stderr


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_the_report_fits_its_window(page: Path, tmp_path: Path, width: int) -> None:
    """Wide tables scroll by themselves; the page does not."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><iframe id='page' sandbox='allow-same-origin' src='report.html' "
        f"style='border:0;width:{width}px;height:900px'></iframe><output></output>"
        "<script>page.onload = () => document.querySelector('output').textContent = "
        "'width=' + page.contentDocument.documentElement.scrollWidth;</script>"
    )
    run = browse(tmp_path, "--dump-dom", frame.as_uri())

    assert f"width={width}<" in run.stdout


def test_the_report_prints(page: Path, tmp_path: Path) -> None:
    """It takes a few sheets of A4."""
    printed = tmp_path / "report.pdf"
    browse(tmp_path, f"--print-to-pdf={printed}", "--no-pdf-header-footer", page.as_uri())
    data = printed.read_bytes()

    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 8
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", data)
    assert {(round(float(wide)), round(float(tall))) for wide, tall in boxes} == {(595, 842)}
