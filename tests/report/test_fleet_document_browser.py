"""The fleet's page in a real browser: no errors, and it fits a phone."""

from pathlib import Path

import pytest

from browser import IN_A_BROWSER, browse, measured
from fleet_answers import fleet_answer
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.page import fleet_document

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def document() -> str:
    """The page."""
    return fleet_document(encode_answer(fleet_answer()))


def test_the_page_renders_without_a_complaint(document: str, tmp_path: Path) -> None:
    """Neither the console nor the content security policy reports anything."""
    page = tmp_path / "fleet.html"
    page.write_text(document, encoding="utf-8")
    run = browse(tmp_path, "--dump-dom", page.as_uri())
    assert "</html>" in run.stdout
    assert ":CONSOLE" not in run.stderr


def test_the_page_fits_its_window(document: str, tmp_path: Path) -> None:
    """Wide tables scroll by themselves."""
    widths = [360, 1400]
    assert measured(tmp_path, document, widths) == widths


def test_no_column_is_cut_off_in_print(document: str, tmp_path: Path) -> None:
    """Tables fit between A4's margins in the print styles."""
    printed = document.replace("@media print", "@media all")
    printed = printed.replace("(max-width: 700px)", "(max-width: 1px)")
    assert measured(tmp_path, printed, [703]) == [703]
