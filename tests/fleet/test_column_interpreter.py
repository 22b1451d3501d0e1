"""Both readers of the definitions agree: closures over one reading, and columns over many."""

import math
from typing import Any, Final, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from readings import gpu
from rightsizer.accounting.classification import classify
from rightsizer.accounting.classification_settings import (
    ClassificationSettings,
    ConditionSettings,
    UsageSettings,
)
from rightsizer.accounting.conditions import ConditionInput, conditions
from rightsizer.accounting.definitions import (
    CONDITIONS,
    LIMITS,
    LOOKS_STALLED,
    MAY_STALL,
    MEMORY_SHORT,
    SATURATED,
    USED,
    USED_RATIO,
    USERS_WAIT,
)
from rightsizer.accounting.float_interpreter import MATCH_MARGIN, FloatInterpreter, closed
from rightsizer.accounting.settings import PressureSettings
from rightsizer.accounting.signals import StateEvidence, usage, waste
from rightsizer.fleet.sources.column_interpreter import (
    ColumnInterpreter,
    facts_of,
    states_of,
    waste_of,
)
from rightsizer.model.signal import MEDIA_ENGINES, PIPES, Signal
from rightsizer.model.state import THROTTLES, State
from rightsizer.model.workload import Allocator

RATIOS: Final = (
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.SM_WORK,
    *PIPES,
    *MEDIA_ENGINES,
    Signal.OFA,
    Signal.DRAM_ACTIVE,
    Signal.MEMORY_CONTROLLER_BUSY,
    Signal.MEMORY_USED,
    Signal.PCIE_RECEIVE,
    Signal.PCIE_TRANSMIT,
    Signal.NVLINK_RECEIVE,
    Signal.NVLINK_TRANSMIT,
    Signal.INFINIBAND_RECEIVE,
    Signal.POWER,
    Signal.CPU,
    Signal.CPU_PRESSURE,
    Signal.IO_PRESSURE,
    Signal.PROCESS_CPU,
    Signal.HOST_MEMORY_LOCAL,
    Signal.CPU_AFFINITY_LOCAL,
)
OTHERS: Final = {
    Signal.PROCESS_COUNT: (0.0, 1.0, 3.0),
    Signal.MEMORY_USED_BYTES: (0.0, 2.0**25, 2.0**26, 2.0**29, 2.0**34),
    Signal.POWER_WATTS: (0.0, 300.0),
    Signal.SM_CLOCK_HERTZ: (1e9, 1.9e9),
    Signal.MEMORY_CLOCK_HERTZ: (4e8, 2.6e9),
    Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: (2.6e9,),
    Signal.PCIE_LINK_WIDTH: (8.0, 16.0),
    Signal.CLOCK_EVENT_REASONS: (0.0, 4.0, 8.0, 32.0, 64.0, 128.0),
}
SHARES: Final = st.integers(0, 200).map(lambda part: part / 200)
_Settings = TypeVar("_Settings", bound=Struct)


def drawn_settings(draw: st.DrawFn, defaults: _Settings) -> _Settings:
    """Some shares of the settings changed."""
    names = [field.name for field in fields(defaults) if field.name.endswith("_ratio")]
    least = {"link_achievable_ratio": 0.1, "working_power_ratio": 0.1}
    changes = draw(st.dictionaries(st.sampled_from(names), SHARES))
    return replace(
        defaults, **{name: max(value, least.get(name, 0.0)) for name, value in changes.items()}
    )


@st.composite
def readings(draw: st.DrawFn) -> list[dict[Signal, float]]:
    """Signals of some devices, any of them missing."""
    values: dict[Any, Any] = dict.fromkeys(RATIOS, SHARES)
    values |= {signal: st.sampled_from(levels) for signal, levels in OTHERS.items()}
    one = st.fixed_dictionaries({}, optional=values)
    return draw(st.lists(one, min_size=1, max_size=6))


def columns_of(rows: list[dict[Signal, float]], **names: float) -> dict[str, Any]:
    """The same signals as columns of one interval, and facts."""
    columns: dict[str, Any] = dict(facts_of([gpu()] * len(rows)))
    for signal in {signal for row in rows for signal in row}:
        columns[signal] = np.array([[row.get(signal, math.nan)] for row in rows])
    return columns | {name: np.full((len(rows), 1), value) for name, value in names.items()}


def evidence_of(
    signals: dict[Signal, float], clock_ratio: float, *, peer_stalls: bool
) -> StateEvidence:
    """What the signals of an H100 prove."""
    return StateEvidence(
        signals, gpu().memory_total_bytes, peer_stalls=peer_stalls, clock_ratio=clock_ratio
    )


@given(readings(), st.booleans(), SHARES, st.data())
@settings(max_examples=100, deadline=None)
def test_states_agree(
    rows: list[dict[Signal, float]],
    peer_stalls: bool,  # noqa: FBT001 - drawn.
    clock_ratio: float,
    data: st.DataObject,
) -> None:
    """Each reading has the state of its column, and each limit holds by its margin."""
    thresholds = data.draw(st.composite(drawn_settings)(ClassificationSettings()))
    columns = columns_of(rows, clock_ratio=clock_ratio, peer_stalls=peer_stalls)
    over = ColumnInterpreter(columns, thresholds)
    states = states_of(over, (len(rows), 1))
    for place, signals in enumerate(rows):
        evidence = evidence_of(signals, clock_ratio, peer_stalls=peer_stalls)
        state = classify(evidence, thresholds).state
        present = [each for each, holds in states.items() if holds[place, 0]]
        assert present == ([] if state is State.UNKNOWN else [state])
        compiler = evidence.layout.compiler(thresholds)
        for claim in (*(row.claim for row in LIMITS), MAY_STALL, LOOKS_STALLED):
            holds = np.broadcast_to(over.holds(claim), (len(rows), 1))[place, 0]
            assert (closed(compiler.margin(claim))(evidence.values) >= MATCH_MARGIN) == holds
            assert bool(closed(compiler.test(claim))(evidence.values)) == holds


@given(readings(), st.booleans(), SHARES, st.data())
@settings(max_examples=60, deadline=None)
def test_conditions_use_and_waste_agree(
    rows: list[dict[Signal, float]],
    is_preallocated: bool,  # noqa: FBT001 - drawn.
    clock_ratio: float,
    data: st.DataObject,
) -> None:
    """For each reading and column."""
    limits = data.draw(st.composite(drawn_settings)(ConditionSettings()))
    full = data.draw(st.composite(drawn_settings)(UsageSettings()))
    device = gpu()
    facts = {
        "clock_ratio": clock_ratio,
        "is_preallocated": is_preallocated,
        "pcie_width_stated": device.stated("pcie_width_maximum") or math.nan,
        "achievable_compute_ratio": device.achievable_compute_ratio,
        "achievable_bandwidth_ratio": device.achievable_bandwidth_ratio,
    }
    columns = columns_of(rows, **facts)
    shape = len(rows), 1
    use = ColumnInterpreter(columns, full)
    around = ColumnInterpreter(columns, limits)
    states = states_of(ColumnInterpreter(columns, ClassificationSettings()), shape)
    present = {each: np.broadcast_to(around.holds(claim), shape) for each, claim in CONDITIONS}
    throttled = np.any([present[throttle] for throttle in THROTTLES], axis=0)
    lost = ColumnInterpreter({**columns, "is_throttled": throttled}, None)
    parts = waste_of(lost, states, np.broadcast_to(use.term(USED_RATIO), shape))
    for place, signals in enumerate(rows):
        evidence = evidence_of(signals, clock_ratio, peer_stalls=False)
        state = classify(evidence, ClassificationSettings()).state
        allocator = Allocator.PREALLOCATING if is_preallocated else Allocator.UNKNOWN
        holding = conditions(ConditionInput(evidence, device, allocator), limits)
        assert holding == {each for each, holds in present.items() if holds[place, 0]}
        used = usage(evidence, device, full)
        for resource, term in USED:
            share = np.broadcast_to(use.term(term), shape)[place, 0]
            assert share == pytest.approx(used.shares.get(resource, math.nan), nan_ok=True)
        for resource, claim in SATURATED:
            is_limited = np.broadcast_to(use.holds(claim), shape)[place, 0]
            assert is_limited == (resource in used.saturated)
        ratio = np.broadcast_to(use.term(USED_RATIO), shape)[place, 0]
        expected = math.nan if used.used_ratio is None else used.used_ratio
        assert ratio == pytest.approx(expected, nan_ok=True)
        causes = waste(state, holding, used.used_ratio, clock_ratio, evidence.busy)
        for cause, part in parts.items():
            there = np.broadcast_to(part, shape)[place, 0]
            assert np.nan_to_num(there) == pytest.approx(causes.get(cause, 0.0), abs=1e-12)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "requests_waiting": st.floats(0.0, 5.0),
            "kv_cache_used": SHARES,
            "has_preempted": st.booleans(),
            "is_late": st.booleans(),
            "is_out_of_memory": st.booleans(),
            "is_near_out_of_memory": st.booleans(),
        },
    )
)
def test_pressure_agrees(values: dict[str, float]) -> None:
    """Whatever is known of an engine."""
    thresholds = PressureSettings()
    over = ColumnInterpreter(
        {name: np.array([[value]]) for name, value in values.items()}, thresholds
    )
    for claim in (USERS_WAIT, MEMORY_SHORT):
        test = closed(FloatInterpreter(thresholds, values).test(claim))
        assert bool(test(values)) == over.holds(claim).all()
