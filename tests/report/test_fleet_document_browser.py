"""The fleet's page in a real browser: no errors, and it fits a phone."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from fleet_answers import fleet_answer
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.page import fleet_document

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
    """The page as a file."""
    file = tmp_path / "fleet.html"
    file.write_text(fleet_document(encode_answer(fleet_answer())), encoding="utf-8")
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


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_fits_its_window_without_a_complaint(
    page: Path, tmp_path: Path, width: int
) -> None:
    """Wide tables scroll by themselves; neither console nor policy reports anything."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><iframe id='page' sandbox='allow-same-origin' src='fleet.html' "
        f"style='border:0;width:{width}px;height:900px'></iframe><output></output>"
        "<script>page.onload = () => document.querySelector('output').textContent = "
        "'width=' + page.contentDocument.documentElement.scrollWidth;</script>"
    )
    run = browse(tmp_path, "--dump-dom", frame.as_uri())

    assert f"width={width}<" in run.stdout
    assert ":CONSOLE" not in run.stderr


def test_no_column_is_cut_off_in_print(page: Path, tmp_path: Path) -> None:
    """Tables fit between A4's margins in the print styles."""
    text = page.read_text(encoding="utf-8").replace("@media print", "@media all")
    page.write_text(text.replace("(max-width: 700px)", "(max-width: 1px)"), encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><iframe id='page' sandbox='allow-same-origin' src='fleet.html' "
        "style='border:0;width:703px;height:900px'></iframe><output></output>"
        "<script>page.onload = () => document.querySelector('output').textContent = "
        "'width=' + page.contentDocument.documentElement.scrollWidth;</script>"
    )
    assert "width=703<" in browse(tmp_path, "--dump-dom", frame.as_uri()).stdout
