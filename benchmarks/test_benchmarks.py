"""The benchmarks as a program: tables, promises, and the section that they write."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.fleet_cost import KINDS, NOON, run_fleet
from benchmarks.run import DOCUMENT as COSTS
from benchmarks.run import lists
from evaluation.run import DOCUMENT as SCORES
from measured import (
    Figure,
    as_rows,
    listed,
    quantile,
    rewrite,
    rewrite_part,
    summarized,
    table,
    with_rows,
    without_rows,
)

RUN: Final = Path(__file__).parent / "run.py"


@pytest.mark.parametrize(
    ("value", "ceiling", "is_met", "text"),
    [
        (9.0, 10.0, True, "9 ms (at most 10 ms)"),
        (10.0, 10.0, True, "10 ms (at most 10 ms)"),
        (10.1, 10.0, False, "**10.1 ms FAIL** (at most 10 ms)"),
        (None, 10.0, False, "**FAIL** (at most 10 ms)"),
        (99.0, None, True, "99 ms"),
    ],
)
def test_a_promise_is_kept_or_said_not_to_be(
    value: float | None,
    ceiling: float | None,
    is_met: bool,  # noqa: FBT001
    text: str,
) -> None:
    """A value that could not be measured does not count as kept."""
    figure = Figure("scrape", value, "ms", ceiling)

    assert (figure.is_met, str(figure)) == (is_met, text)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(1385.0, "1,385 x"), (0.583, "0.583 x"), (42.0, "42 x"), (3.666, "3.67 x")],
)
def test_figures_have_three_digits(value: float, spelled: str) -> None:
    """More digits would exceed a run's accuracy."""
    assert str(Figure("what", value, "x")) == spelled


def test_figures_of_one_thing_are_one_item() -> None:
    """Its name stands once; a note says why there is no value."""
    figures = [
        Figure("8 GPUs: p50", 1.0, "ms", 2.0),
        Figure("8 GPUs: p99", 3.0, "ms", note="cold"),
        Figure("another exporter", None, note="skipped"),
    ]
    assert listed(figures).splitlines() == [
        "- 8 GPUs: p50: 1 ms (at most 2 ms); p99: 3 ms (cold)",
        "- another exporter: (skipped)",
    ]


def test_a_table_lines_up() -> None:
    """This holds in a terminal and in Markdown."""
    assert table([("a", "1"), ("bcd", "")], ("x", "value")) == (
        "| x   | value |\n|-----|-------|\n| a   | 1     |\n| bcd |       |"
    )


def test_quantiles_are_of_the_values_themselves() -> None:
    """The largest one is the maximum."""
    assert [quantile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]


def test_a_section_is_written_between_its_marks(tmp_path: Path) -> None:
    """Writing is repeatable, and all else stays unchanged."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a: begin -->\nold\n<!-- a: end -->\nafter\n")
    rewrite("a", "new\n", page)
    rewrite("a", "newer", page)

    assert page.read_text() == "before\n<!-- a: begin -->\nnewer\n<!-- a: end -->\nafter\n"
    with pytest.raises(ValueError, match="no section 'b'"):
        rewrite("b", "new", page)
    assert list(tmp_path.iterdir()) == [page]


def test_rows_are_printed_on_request_and_never_written(tmp_path: Path) -> None:
    """The page keeps what a reader decides by, also where its rows are of a table."""
    lines = [("a.json", "right"), ("b.json", "wrong"), ("all", "1 of 2")]
    text = "\n".join(
        (summarized(lines, ("file", ""), sums_up=lambda line: line[0] == "all"), "", "End.", "")
    )
    page = tmp_path / "page.md"
    page.write_text("<!-- a: begin -->\n<!-- a: end -->\n")
    rewrite("a", text + as_rows("More."), page)

    short = table(lines[2:], ("file", ""))
    others = table(lines[:2], ("file", ""))
    assert page.read_text() == f"<!-- a: begin -->\n{short}\n\nEnd.\n<!-- a: end -->\n"
    assert with_rows(text) == f"{short}\n\n{others}\n\nEnd.\n"


def test_a_row_above_its_promise_is_on_the_page() -> None:
    """What fails is never left out."""
    figures = [
        Figure("kept", 1.0, "ms", 2.0, is_row=True),
        Figure("broken", 3.0, "ms", 2.0, is_row=True),
        Figure("plain", 4.0, "ms"),
    ]
    shown = without_rows(lists(figures))
    assert [name in shown for name in ("kept", "broken", "plain")] == [False, True, True]


@pytest.mark.parametrize("title", ["One", "Two"])
def test_a_part_is_written_below_its_title(tmp_path: Path, title: str) -> None:
    """It may be first, last or in between; a new one is appended."""
    page = tmp_path / "page.md"
    begin = "<!-- a: begin -->\n"
    end = "<!-- a: end -->\n"
    parts = {"One": "old\n\n#### Below", "Two": "old"}
    page.write_text(f"{begin}day\n\n### One\n\n{parts['One']}\n\n### Two\n\nold\n{end}")
    for changed in (title, "Three"):
        parts[changed] = "new"
        rewrite_part("a", changed, "new\n", page)

        text = "\n".join(f"### {each}\n\n{said}\n" for each, said in parts.items())
        assert page.read_text() == f"{begin}day\n\n{text}{end}"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("2026-02-03, EPYC, 2 cores, load 0.3", "2026-02-03, load 0.3"),
        ("2026-02-03, Xeon, 2 cores, load 0.3", "2026-02-03, Xeon, 2 cores, load 0.3"),
    ],
)
def test_a_part_repeats_no_machine(tmp_path: Path, place: str, shown: str) -> None:
    """Only another one than the section's is named."""
    page = tmp_path / "page.md"
    begin = "<!-- a: begin -->\n"
    end = "<!-- a: end -->\n"
    page.write_text(f"{begin}Measured on: 2026-02-01, EPYC, 2 cores, load 0.1.\n{end}")
    rewrite_part("a", "One", "new\n", page, place=place)

    assert f"### One\n\n{shown}.\n\nnew\n" in page.read_text()


@pytest.mark.parametrize(("section", "page"), [("make bench", COSTS), ("make eval", SCORES)])
def test_each_command_has_a_section_of_its_document(section: str, page: Path) -> None:
    """Otherwise an hour of measuring would end in an error."""
    text = page.read_text(encoding="utf-8")

    assert text.count(f"<!-- {section}: begin -->") == text.count(f"<!-- {section}: end -->") == 1


def test_the_program_runs_a_part_and_leaves_the_document_alone() -> None:
    """It is the fastest part; its exit status is checked."""
    before = COSTS.read_bytes()
    done = subprocess.run(
        [sys.executable, RUN, "--only", "beside", "--seconds", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "### Beside others" in done.stdout
    assert COSTS.read_bytes() == before


@pytest.mark.parametrize("size", ["1", "4"])
@pytest.mark.parametrize("metrics", KINDS)
def test_a_fleet_is_read_from_the_store_of_the_benchmark(
    metrics: str, size: str, tmp_path: Path
) -> None:
    """It keeps nothing, and answers each kind of question that a look asks."""
    flags = (*KINDS[metrics].flags, "--gpus-a-job", size)
    document = run_fleet(16, flags, NOON, tmp_path).answer.document
    assert sum(each["devices"] for each in document["sources"]) == 16
    assert document["workloads"] == 16 // int(size)
