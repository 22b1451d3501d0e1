"""One color for each word, the same as on the agent's page."""

from typing import Final

from rightsizer.domain.state import Cause, State

__all__ = ["CAUSE_COLORS", "STATE_COLORS"]

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

CAUSE_COLORS: Final[dict[str, str]] = {
    Cause.LAUNCH: STATE_COLORS[State.LAUNCH_BOUND],
    Cause.HOST: STATE_COLORS[State.HOST_BOUND],
    Cause.STORAGE: STATE_COLORS[State.STORAGE_BOUND],
    Cause.PCIE: STATE_COLORS[State.PCIE_BOUND],
    Cause.STALLED: STATE_COLORS[State.HIDDEN_STALL],
    Cause.IDLE: STATE_COLORS[State.IDLE_HELD],
    Cause.HEADROOM: STATE_COLORS[State.IDLE_EMPTY],
    Cause.THROTTLED: "#e6522c",
}
