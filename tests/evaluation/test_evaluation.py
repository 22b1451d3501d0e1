"""The evaluation as a program: its scores by hand-made cases, and a short run of each part."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest

from evaluation.confusion import Confusion, coarse
from evaluation.disturbance import disturbed, without_profiling
from measured import DOCUMENT
from readings import HOUR, TRAINING, gpu, snapshot
from rightsizer.accounting.signals import tier_of
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import State, Tier

RUN: Final = Path(__file__).parent / "run.py"


def confusion() -> Confusion:
    """Ten hours of work of which two are called idle; two idle hours of which one is."""
    found = Confusion()
    found.add(State.COMPUTE_BOUND, State.COMPUTE_BOUND, 8 * HOUR)
    found.add(State.COMPUTE_BOUND, State.IDLE_HELD, 2 * HOUR)
    found.add(State.IDLE_HELD, State.IDLE_HELD, 1 * HOUR)
    found.add(State.IDLE_HELD, State.COMPUTE_BOUND, 1 * HOUR)
    return found


def test_scores_are_those_of_the_textbook() -> None:
    """By time: a second counts for a second."""
    scores = confusion()

    assert scores.accuracy == pytest.approx(9 / 12)
    assert scores.precision("compute_bound") == pytest.approx(8 / 9)
    assert scores.recall("compute_bound") == pytest.approx(8 / 10)
    assert scores.precision("idle_held") == pytest.approx(1 / 3)
    assert scores.f1("idle_held") == pytest.approx(0.4)
    assert scores.macro_f1 == pytest.approx((16 / 19 + 0.4) / 2)


def test_false_idle_is_what_an_operator_would_lose() -> None:
    """Two hours in half a day are four hours a day; the other mistake costs nobody a job."""
    assert confusion().false_idle_seconds_per_day == pytest.approx(4 * 3600)


def test_a_state_that_is_never_called_scores_nothing() -> None:
    """And has no precision, rather than a perfect one."""
    found = Confusion()
    found.add(State.PCIE_BOUND, State.PRODUCTIVE, HOUR)

    assert (found.precision("pcie_bound"), found.f1("pcie_bound")) == (None, 0.0)
    assert list(found.mistakes(5)) == [("pcie_bound", "productive", "1.00", "100.0%")]


def test_coarse_states_keep_apart_what_every_tier_can() -> None:
    """All kinds of work are one."""
    assert {coarse(state) for state in State} == {
        *("unknown", "idle_empty", "idle_held", "hidden_stall", "at_work")
    }
    merged = confusion().coarse()
    assert (merged.states, merged.accuracy) == (("idle_held", "at_work"), pytest.approx(9 / 12))


def test_without_profiling_a_reading_is_of_the_power_tier() -> None:
    """Busy share, memory and power stay."""
    device = gpu()
    seen = snapshot(0.0, [device], {device: {**TRAINING, Signal.POWER: 0.8}})
    left = without_profiling(seen).readings[device.uuid].values

    assert tier_of(seen.readings[device.uuid].values) is Tier.PROFILING
    assert tier_of(left) is Tier.POWER
    assert {Signal.GPU_BUSY, Signal.MEMORY_USED_BYTES, Signal.POWER_WATTS} <= set(left)


def test_the_same_seed_disturbs_in_the_same_way() -> None:
    """Scores can be compared from one change of the code to the next."""
    device = gpu()
    seen = snapshot(0.0, [device], {device: TRAINING})
    once, again = (disturbed(seen, Random(7)) for _ in range(2))
    values = once.readings[device.uuid].values

    assert once == again
    assert values != TRAINING
    assert all(0.0 <= value <= 1.0 for name, value in values.items() if name.endswith("_active"))


@pytest.mark.parametrize("part", ["states", "trace", "pages"])
def test_the_program_runs_each_part_and_leaves_the_document_alone(part: str) -> None:
    """With few seeds and long ticks; recordings are said to be skipped where there are none."""
    before = DOCUMENT.read_bytes()
    done = subprocess.run(
        [sys.executable, RUN, "--only", part, "--seeds", "1", "--tick-seconds", "1200"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={"PATH": "/usr/bin:/bin"},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert ("macro-F1" if part == "states" else "Skipped: RIGHTSIZER_TRUTH") in done.stdout
    assert DOCUMENT.read_bytes() == before
