"""The report in a real browser: it renders without errors, fits a phone, and prints."""

import datetime as dt
import re
from pathlib import Path

import pytest

from browser import IN_A_BROWSER, browse, measured
from report_samples import report_facts
from rightsizer.agent.report_document import rendered_report
from rightsizer.report.builder import report_model

pytestmark = IN_A_BROWSER


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The story as a file."""
    file = tmp_path / "report.html"
    file.write_text(rendered_report("html", report_model(report_facts()), dt.UTC), encoding="utf-8")
    return file


def test_the_report_renders_without_a_complaint(page: Path, tmp_path: Path) -> None:
    """Neither the console nor the content security policy reports anything."""
    run = browse(tmp_path, "--dump-dom", page.as_uri())

    assert "What went unused" in run.stdout
    assert ":CONSOLE" not in run.stderr


def test_the_report_fits_its_window(page: Path, tmp_path: Path) -> None:
    """Wide tables scroll by themselves; the page does not."""
    widths = [360, 768, 1400]
    assert measured(tmp_path, page.read_text("utf-8"), widths) == widths


def test_the_report_prints(page: Path, tmp_path: Path) -> None:
    """It takes a few sheets of A4."""
    printed = tmp_path / "report.pdf"
    browse(tmp_path, f"--print-to-pdf={printed}", "--no-pdf-header-footer", page.as_uri())
    data = printed.read_bytes()

    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 8
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", data)
    assert {(round(float(wide)), round(float(tall))) for wide, tall in boxes} == {(595, 842)}
