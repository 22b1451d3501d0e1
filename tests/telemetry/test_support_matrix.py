"""The support matrix: source of each signal, by board."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from readings import SERVING_SIGNALS
from rightsizer.model.signal import HOST_SIGNALS, Signal
from support_matrix import DERIVED, HELD, NEAR, NOBODY, support_matrix

DOCUMENT = Path(__file__).parents[2] / "docs" / "support-matrix.md"


@pytest.fixture(scope="module")
def page() -> str:
    """The matrix of all boards."""
    return support_matrix()


@pytest.fixture(scope="module")
def lines(page: str) -> dict[str, str]:
    """The row of each signal that a board has."""
    return {
        name: line
        for line in page.partition("\n## ")[0].splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", re.sub(r" by `\w+`", "", line.split("|")[1]))
    }


def test_the_page_is_what_the_boards_answer(
    page: str, golden: Callable[[str | Path, str], None]
) -> None:
    """docs/support-matrix.md is generated from the simulated driver; `make golden` writes it."""
    golden(DOCUMENT, page)


def test_every_signal_has_its_place(page: str, lines: dict[str, str]) -> None:
    """A signal comes from a board, the host, a serving engine, or from other signals."""
    elsewhere = {*HOST_SIGNALS, *NEAR, *HELD, *SERVING_SIGNALS, *DERIVED}
    for signal in Signal:
        assert (signal in lines) is (signal not in elsewhere), signal
        assert f"`{signal}`" in page


def test_no_board_has_less_than_memory_and_who_holds_it(lines: dict[str, str]) -> None:
    """This includes A100 instances without DCGM; only a parent leaves its holders to them."""
    assert NOBODY not in lines[Signal.MEMORY_USED_BYTES]
    assert lines[Signal.PROCESS_COUNT].count(NOBODY) == 1
    assert "`dcgm`" in lines[Signal.SM_ACTIVE]
