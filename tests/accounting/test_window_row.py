"""Rows of a history: unusable ones are skipped."""

import json
from typing import Any, Final

import pytest

from readings import EPOCH, HOUR
from rightsizer.accounting.window_codec import encode_window, parse_window_row
from rightsizer.model.state import State
from rightsizer.model.window import Window

ROW: Final[dict[str, Any]] = {"v": 1, "start": EPOCH, "end": EPOCH + HOUR}


def test_a_window_that_was_written_is_understood() -> None:
    """All fields are restored."""
    window = Window("GPU-0", EPOCH, EPOCH + HOUR, states={State.PRODUCTIVE: HOUR}, used_joules=1.5)
    assert parse_window_row("GPU-0", encode_window(window)) == window


@pytest.mark.parametrize(
    "odd",
    [
        {"start": None},
        {"start": "yesterday"},
        {"start": 1.5},
        {"start": -1},
        {"end": EPOCH - 1},
        {"end": 2**63},
        {"states": {"productive": None}},
        {"states": {"productive": -1}},
        {"tiers": {"profiling": True}},
        {"used_seconds": None},
        {"used_joules": float("nan")},
        {"energy_joules": float("inf")},
        {"waste_seconds": {"idle": -1.0}},
        {"compute_at_least": [[0.5, 1.0]]},
        {"compute_at_least": [[5, float("nan")]]},
        {"demands": {"compute": [[5, -1.0]]}},
        {"demands": 7},
    ],
    ids=str,
)
def test_uncountable_row_is_skipped(odd: dict[str, Any]) -> None:
    """Whatever a disk or another program made of it."""
    assert parse_window_row("GPU-0", json.dumps(ROW).encode()) is not None
    assert parse_window_row("GPU-0", json.dumps({**ROW, **odd}).encode()) is None


def test_deeply_nested_row_is_skipped() -> None:
    """It is refused before it exhausts the stack."""
    assert parse_window_row("GPU-0", b'{"v":1,"start":' + b"[" * 100_000) is None
