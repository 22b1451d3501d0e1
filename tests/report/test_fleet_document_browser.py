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


@pytest.mark.parametrize(
    ("fragment", "heading", "row"),
    [
        ("", "All that is held, and what is free", "web/chat"),
        ("#workload/web/chat", "Workload web/chat", "serve-0/GPU 0"),
        ("#node/serve-0", "Node serve-0", "serve-0/GPU 2"),
        ("#gpu/batch-0/GPU%201", "GPU batch-0/GPU 1", "batch-0/GPU 1"),
    ],
)
def test_a_fragment_shows_one_workload_node_or_gpu(
    document: str, tmp_path: Path, fragment: str, heading: str, row: str
) -> None:
    """Its GPUs, what they cost and waste, and the recommendations about them."""
    page = tmp_path / "fleet.html"
    page.write_text(document, encoding="utf-8")
    run = browse(tmp_path, "--virtual-time-budget=2000", "--dump-dom", f"{page.as_uri()}{fragment}")
    assert ":CONSOLE" not in run.stderr
    assert f"<h3>{heading}</h3>" in run.stdout
    assert f">{row}</a></th>" in run.stdout
    if heading.startswith("Workload"):
        assert "2 rows, 2 GPUs, $24 a day, $6 of it wasted, 50% used" in run.stdout
        assert '<a href="#5ujnqgynxwjp">Scale with the load: diurnal load' in run.stdout


def test_the_page_fits_its_window(document: str, tmp_path: Path) -> None:
    """Wide tables scroll by themselves."""
    widths = [360, 768, 1400, 2560]
    assert measured(tmp_path, document, widths) == widths


def test_no_column_is_cut_off_in_print(document: str, tmp_path: Path) -> None:
    """Tables fit between A4's margins in the print styles."""
    printed = document.replace("@media print", "@media all")
    printed = printed.replace("(max-width: 700px)", "(max-width: 1px)")
    assert measured(tmp_path, printed, [703]) == [703]
