"""One color for each word, the same as on the agent's page."""

from typing import Final

from rightsizer.model.state import Cause, Condition, State

__all__ = [
    "AMBER",
    "BLUE",
    "CAUSE_COLORS",
    "CONDITION_COLORS",
    "GRAY",
    "GREEN",
    "RED",
    "STATE_COLORS",
    "USED_COLOR",
]

BLUE: Final = "#5794F2"
GREEN: Final = "#73BF69"
AMBER: Final = "#FF9830"
RED: Final = "#E02F44"
GRAY: Final = "#8E8E8E"

STATE_COLORS: Final[dict[str, str]] = {
    State.COMPUTE_BOUND: "#159a81",
    State.MEMORY_BANDWIDTH_BOUND: "#46bfa8",
    State.PRODUCTIVE: "#93dbb9",
    State.LAUNCH_BOUND: "#e3c25d",
    State.HOST_BOUND: "#e0a338",
    State.STORAGE_BOUND: "#d3801c",
    State.PCIE_BOUND: "#b0631a",
    State.HIDDEN_STALL: "#e05252",
    State.IDLE_HELD: "#4d84c4",
    State.IDLE_EMPTY: "#2f4a6b",
    State.UNKNOWN: "#3d4653",
}
USED_COLOR: Final = STATE_COLORS[State.COMPUTE_BOUND]
"""Of the time or energy that was put to use, beside the causes of waste."""

CAUSE_COLORS: Final[dict[str, str]] = {
    Cause.LAUNCH: STATE_COLORS[State.LAUNCH_BOUND],
    Cause.HOST: STATE_COLORS[State.HOST_BOUND],
    Cause.STORAGE: STATE_COLORS[State.STORAGE_BOUND],
    Cause.PCIE: STATE_COLORS[State.PCIE_BOUND],
    Cause.STALLED: STATE_COLORS[State.HIDDEN_STALL],
    Cause.IDLE: STATE_COLORS[State.IDLE_HELD],
    # Lighter than on the page: bars of it stand on a dark ground.
    Cause.HEADROOM: "#8fa3bd",
    Cause.THROTTLED: "#e6522c",
}

CONDITION_COLORS: Final[dict[str, str]] = {
    Condition.POWER_THROTTLED: "#f0883e",
    Condition.THERMAL_THROTTLED: "#e6522c",
    Condition.HARDWARE_SLOWDOWN: "#b3261e",
    Condition.PCIE_LINK_DEGRADED: STATE_COLORS[State.PCIE_BOUND],
    Condition.NUMA_MISPLACED: "#a371f7",
    Condition.NEAR_OUT_OF_MEMORY: STATE_COLORS[State.HIDDEN_STALL],
    Condition.NO_TENSOR_CORES: "#6e7f94",
    Condition.RANK_IMBALANCE: "#d2a8ff",
    Condition.NETWORK_BOUND: "#58a6ff",
}
