"""Waste, power and harm of a workload, from its windows."""

import pytest

from cases import case, window
from readings import HOUR, workload
from rightsizer.advice.verification import measure, measure_all
from rightsizer.model.state import Cause, Condition, Resource, State

BUSY = window(
    {State.PRODUCTIVE: 3, State.HIDDEN_STALL: 1},
    waste_seconds={Cause.STALLED: 3600.0, Cause.HEADROOM: 3600.0},
    used_seconds=7200.0,
    energy_joules=4 * 3600 * 500.0,
    conditions={Condition.NEAR_OUT_OF_MEMORY: HOUR, Condition.POWER_THROTTLED: 2 * HOUR},
    pressed={Resource.MEMORY: 2 * HOUR},
)


def test_figures_are_shares_of_what_is_known() -> None:
    """Waste over waste and use, harm over known time, power of all GPUs together."""
    found = measure(case([BUSY, BUSY], workload()))
    assert found is not None

    assert (found.gpus, found.waste_ratio, found.wasted_gpus) == (2.0, 0.5, 1.0)
    assert found.watts == pytest.approx(1000.0)
    assert found.harms == {
        "near_out_of_memory": 0.25,
        "pressed": 0.5,
        "throttled": 0.5,
        "stalled": 0.25,
    }
    assert len(found.devices) == len(found.boards) == 2
    assert found.workload_class == "batch"


def test_energy_that_was_not_measured_is_no_zero() -> None:
    """One GPU without a meter is enough."""
    unmetered = window({State.PRODUCTIVE: 1}, used_seconds=3600.0)
    found = measure(case([BUSY, unmetered], workload()))
    assert found is not None
    assert found.watts is None


def test_unknown_measurement_has_no_figures() -> None:
    """Unknown is not good."""
    silent = case([window({State.UNKNOWN: 2})], workload("silent"))
    assert measure(silent) is None
    assert set(measure_all([silent, case([BUSY], workload())])) == {"slurm/llama"}
