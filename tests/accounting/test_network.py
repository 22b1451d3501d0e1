"""Whether a GPU waits while the nearby fabric is saturated."""

import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import gpu
from rightsizer.accounting.classification_settings import ConditionSettings
from rightsizer.accounting.conditions import ConditionInput, conditions
from rightsizer.accounting.signals import StateEvidence
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition

BUSY: Final = Signal.GPU_BUSY
POWER: Final = Signal.POWER
TENSOR: Final = Signal.TENSOR_ACTIVE
DRAM: Final = Signal.DRAM_ACTIVE
RECEIVE: Final = Signal.INFINIBAND_RECEIVE
TRANSMIT: Final = Signal.INFINIBAND_TRANSMIT

WAITING: Final = {BUSY: 0.98, TENSOR: 0.2, DRAM: 0.2, POWER: 0.4, RECEIVE: 0.9}
"""In a collective with resident kernels, on the profiling tier."""


def is_network_bound(signals: dict[Signal, float]) -> bool:
    """Whether the condition holds."""
    around = ConditionInput(StateEvidence(signals), gpu())
    return Condition.NETWORK_BOUND in conditions(around, ConditionSettings())


def below(value: float) -> float:
    """The largest number below a threshold."""
    return math.nextafter(value, 0.0)


def without(*dropped: Signal) -> dict[Signal, float]:
    """The same with less telemetry."""
    return {signal: value for signal, value in WAITING.items() if signal not in dropped}


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        (WAITING, True),
        # One direction of the ports at its limit.
        (WAITING | {RECEIVE: 0.6}, True),
        (WAITING | {RECEIVE: below(0.6)}, False),
        (WAITING | {RECEIVE: 0.1, TRANSMIT: 0.9}, True),
        (without(RECEIVE), False),
        (without(RECEIVE) | {Signal.NETWORK_RECEIVE_BYTES_PER_SECOND: 1e12}, False),
        # A working GPU is not waiting, however saturated the ports.
        (WAITING | {TENSOR: 0.3}, False),
        (WAITING | {DRAM: 0.5}, False),
        # Without counters power decides, without power the gaps.
        (without(TENSOR, DRAM), True),
        (without(TENSOR, DRAM) | {POWER: 0.6}, False),
        (without(TENSOR, DRAM, POWER), False),
        (without(TENSOR, DRAM, POWER) | {BUSY: below(0.7)}, True),
        # An idle GPU is beside another's traffic; an unread one is unknown.
        (WAITING | {BUSY: below(0.1)}, False),
        (without(BUSY), False),
    ],
)
def test_full_ports_bind_a_gpu_that_waits(
    signals: dict[Signal, float],
    expected: bool,  # noqa: FBT001 - a case.
) -> None:
    """Both are required: a port at its rate, and a GPU that takes part and does little."""
    assert is_network_bound(signals) == expected


@given(
    st.dictionaries(st.sampled_from([BUSY, POWER, TENSOR, DRAM]), st.floats(0.0, 1.0)),
)
def test_without_ports_nothing_is_claimed(signals: dict[Signal, float]) -> None:
    """However much a GPU seems to wait."""
    assert not is_network_bound(signals)
