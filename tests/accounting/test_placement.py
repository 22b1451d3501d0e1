"""Whether processes and their memory are far from the GPU that they feed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import gpu
from rightsizer.accounting.classification_settings import ConditionSettings
from rightsizer.accounting.conditions import ConditionInput, conditions
from rightsizer.accounting.signals import StateEvidence
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition

MEMORY = Signal.HOST_MEMORY_LOCAL
CPUS = Signal.CPU_AFFINITY_LOCAL
RECEIVE = Signal.PCIE_RECEIVE
TRANSMIT = Signal.PCIE_TRANSMIT


def is_numa_misplaced(signals: dict[Signal, float]) -> bool:
    """Whether the condition holds."""
    around = ConditionInput(StateEvidence(signals), gpu())
    return Condition.NUMA_MISPLACED in conditions(around, ConditionSettings())


def below(value: float) -> float:
    """The largest number below a threshold."""
    return math.nextafter(value, 0.0)


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        # Most of the memory is on another node.
        ({RECEIVE: 0.3, MEMORY: below(0.5)}, True),
        ({RECEIVE: 0.3, MEMORY: 0.5}, False),
        ({TRANSMIT: 0.3, MEMORY: 0.1}, True),
        # Pinned to other CPUs; on eight nodes, an eighth of them is what unpinned means.
        ({RECEIVE: 0.3, CPUS: 0.0}, True),
        ({RECEIVE: 0.3, CPUS: 0.125}, False),
        ({RECEIVE: 0.3, CPUS: 0.5}, False),
        ({RECEIVE: 0.3, CPUS: 0.0, MEMORY: 0.9}, True),
        ({RECEIVE: 0.3, CPUS: 1.0, MEMORY: 0.9}, False),
        # Without host traffic it does not matter.
        ({RECEIVE: 0.02, CPUS: 0.0}, True),
        ({RECEIVE: below(0.02), CPUS: 0.0, MEMORY: 0.0}, False),
        # Without either measurement nothing is claimed.
        ({CPUS: 0.0, MEMORY: 0.0}, False),
        ({RECEIVE: 0.3}, False),
        ({}, False),
    ],
)
def test_far_processes_are_misplaced_once_data_moves(
    signals: dict[Signal, float],
    expected: bool,  # noqa: FBT001 - a case.
) -> None:
    """By memory or by CPUs, together with host traffic."""
    assert is_numa_misplaced(signals) == expected


@given(
    st.dictionaries(st.sampled_from([MEMORY, CPUS, RECEIVE, TRANSMIT]), st.floats(0.0, 1.0)),
    st.sampled_from([MEMORY, CPUS, RECEIVE, TRANSMIT]),
)
def test_less_knowledge_never_accuses(signals: dict[Signal, float], dropped: Signal) -> None:
    """Without one of its signals a misplacement may be missed, never invented."""
    less = {signal: value for signal, value in signals.items() if signal is not dropped}
    assert is_numa_misplaced(signals) or not is_numa_misplaced(less)
