"""Labels of states, causes, conditions, resources, actions, shares and times for people."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from rightsizer.model.finding import Action, Severity
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import Cause, Condition, Resource, State
from rightsizer.model.units import Nanoseconds, format_duration, seconds


class StateGroup(StrEnum):
    """States that are equal to the one who pays."""

    WORKING = "working"
    WAITING = "waiting"
    STALLED = "stalled"
    HELD = "held"
    FREE = "free"
    NO_DATA = "no_data"


GROUPS: Final = tuple(StateGroup)
"""From work to nothing known; charts stack in this order."""
GROUP_MEANINGS: Final[Mapping[StateGroup, str]] = {
    StateGroup.WORKING: "kernels run and get something done",
    StateGroup.WAITING: "for CPU, storage or transfers, or with kernels too small to fill it",
    StateGroup.STALLED: "looks busy to nvidia-smi and computes nothing",
    StateGroup.HELD: "somebody holds it and nothing runs; nobody else can have it",
    StateGroup.FREE: "nobody holds it",
    StateGroup.NO_DATA: "no agent ran, or the GPU could not be read; never counted as idle",
}
_STATES: Final = (
    (State.COMPUTE_BOUND, StateGroup.WORKING, "limited by arithmetic: well used"),
    (State.MEMORY_BANDWIDTH_BOUND, StateGroup.WORKING, "limited by memory bandwidth: well used"),
    (State.PRODUCTIVE, StateGroup.WORKING, "working, with room left"),
    (State.LAUNCH_BOUND, StateGroup.WAITING, "kernels too small to fill it"),
    (State.HOST_BOUND, StateGroup.WAITING, "waiting for the CPU"),
    (State.STORAGE_BOUND, StateGroup.WAITING, "waiting for storage"),
    (State.PCIE_BOUND, StateGroup.WAITING, "waiting for transfers over PCIe"),
    (State.HIDDEN_STALL, StateGroup.STALLED, "looks busy, computes nothing"),
    (State.IDLE_HELD, StateGroup.HELD, "held by someone, not used"),
    (State.IDLE_EMPTY, StateGroup.FREE, "free: nobody holds it"),
    (State.UNKNOWN, StateGroup.NO_DATA, "the agent ran and could not read it"),
)
GROUP_OF: Final[Mapping[State, StateGroup]] = {state: group for state, group, _ in _STATES}
STATE_LABELS: Final[Mapping[State, str]] = {state: label for state, _, label in _STATES}
PAGE_STATE_LABELS: Final[Mapping[State, str]] = {
    **STATE_LABELS,
    State.PCIE_BOUND: "waiting for transfers",
    State.IDLE_HELD: "held by someone, unused",
    State.IDLE_EMPTY: "free",
    State.UNKNOWN: "no telemetry: nobody knows",
}
STATE_ORDER: Final = tuple(STATE_LABELS)
"""From work over waiting to idleness; strips stack and legends list in this order."""
CAUSE_LABELS: Final[Mapping[Cause, str]] = {
    Cause.IDLE: "while nothing ran",
    Cause.STALLED: "stalled, busy without work",
    Cause.HOST: "waiting for the CPU",
    Cause.STORAGE: "waiting for storage",
    Cause.PCIE: "waiting for transfers over PCIe",
    Cause.LAUNCH: "with kernels too small to fill it",
    Cause.THROTTLED: "held down by power or heat",
    Cause.HEADROOM: "at work with room left",
}
PAGE_CAUSE_LABELS: Final[Mapping[Cause, str]] = {
    Cause.IDLE: "Idle",
    Cause.STALLED: "Stalled",
    Cause.HOST: "Waiting for the CPU",
    Cause.STORAGE: "Waiting for storage",
    Cause.PCIE: "Waiting for transfers",
    Cause.LAUNCH: "Small kernels",
    Cause.THROTTLED: "Throttled",
    Cause.HEADROOM: "Headroom",
}
CONDITION_LABELS: Final[Mapping[Condition, str]] = {
    Condition.POWER_THROTTLED: "power throttled",
    Condition.THERMAL_THROTTLED: "thermally throttled",
    Condition.HARDWARE_SLOWDOWN: "hardware slowdown",
    Condition.PCIE_LINK_DEGRADED: "PCIe link degraded",
    Condition.NUMA_MISPLACED: "on the wrong NUMA node",
    Condition.NEAR_OUT_OF_MEMORY: "nearly out of memory",
    Condition.NO_TENSOR_CORES: "tensor cores not used",
    Condition.RANK_IMBALANCE: "ranks out of balance",
    Condition.NETWORK_BOUND: "waiting for the network",
}
ACTION_LABELS: Final[Mapping[Action, str]] = {
    Action.RELEASE: "Release the GPU",
    Action.SCALE_TO_ZERO: "Scale to zero when unused",
    Action.AUTOSCALE: "Scale with the load",
    Action.REDUCE_REPLICAS: "Run fewer replicas",
    Action.REDUCE_GPU_COUNT: "Use fewer GPUs",
    Action.SHARE_MIG: "Share the GPU by MIG",
    Action.SHARE_MPS: "Share the GPU by MPS",
    Action.SHARE_TIMESLICE: "Share the GPU by time slices",
    Action.CHANGE_GPU_TYPE: "Change the type of GPU",
    Action.REBIND_NUMA: "Bind to the GPU's own NUMA node",
    Action.RESEAT_OR_DRAIN: "Drain the node and reseat the GPU",
    Action.FIX_INPUT_PIPELINE: "Fix the input pipeline",
    Action.FIX_CHECKPOINTING: "Make checkpoints cheaper",
    Action.RAISE_BATCH: "Raise the batch size",
    Action.ENABLE_CUDA_GRAPHS: "Use CUDA graphs",
    Action.ENABLE_MIXED_PRECISION: "Use mixed precision",
    Action.INVESTIGATE_STRAGGLER: "Find the rank that the others wait for",
    Action.SET_POWER_LIMIT: "Set a power limit",
    Action.MOVE_GPUS: "Move to GPUs nearer to one another",
    Action.NONE: "Nothing to do",
}
PAGE_ACTION_LABELS: Final[Mapping[Action, str]] = {
    **ACTION_LABELS,
    Action.MOVE_GPUS: "Move to GPUs that are nearer to one another",
}
SEVERITY_COLORS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "act",
    Severity.HIGH: "act",
    Severity.MEDIUM: "tight",
    Severity.LOW: "headroom",
}
"""Most urgent first; each has its word beside it, so that none is told by color alone."""
ABSENT: Final = "\u2013"
"""Stands for what is not known: a dash."""
TIMES: Final = "\u00d7"
"""The multiplication sign."""
_CONFIDENCE: Final = ((0.95, "almost certain"), (0.8, "likely"), (0.6, "probable"))
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ABBREVIATIONS: Final = {
    "pcie": "PCIe",
    "nvlink": "NVLink",
    **{word: word.upper() for word in ("numa", "gpu", "mig", "cuda", "sm", "nvml", "dram", "mps")},
}


def confidence_label(confidence: float) -> str:
    """How sure, as a person says it."""
    return next((word for least, word in _CONFIDENCE if confidence >= least), "uncertain")


def _spelled(words: Iterable[str]) -> str:
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


def reason_label(reason: str) -> str:
    """`PcieLinkDegraded` as `PCIe link degraded`."""
    text = _spelled(map(str.lower, _WORD_START.split(reason)))
    return text[:1].upper() + text[1:]


def display_name(word: str) -> str:
    """A word of the vocabulary as a person writes it: `pcie_bound` is `PCIe bound`."""
    text = _spelled(word.split("_"))
    return text[:1].upper() + text[1:]


def readable_name(name: str) -> str:
    """`power_cap` as `power cap`."""
    return name.replace("_", " ")


GROUP_NAMES: Final[Mapping[str, str]] = {
    **{group: readable_name(group) for group in GROUPS},
    StateGroup.HELD: "held but unused",
}
RESOURCE_LABELS: Final[Mapping[Resource, str]] = {
    resource: _spelled(resource.split("_")) for resource in Resource
}


def first_names(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class MomentLabel:
    """A point in time, for people and for `<time datetime>`."""

    text: str
    machine: str
    age: str


def percent_text(share: float) -> str:
    """A share in whole percent; a little is never shown as nothing, nor nearly all as all."""
    if 0 < share < 0.005:  # noqa: PLR2004 - what would round to 0.
        return "<1 %"
    if 0.995 <= share < 1:  # noqa: PLR2004 - what would round to 100.
        return ">99 %"
    return f"{100 * share:.0f} %"


def percent_label(share: float) -> str:
    """A share in whole percent that a page does not break."""
    return percent_text(share).replace(" ", "\u00a0")


def moment_label(time: Nanoseconds, now: Nanoseconds) -> MomentLabel:
    """A wall time in UTC, and how long ago it was."""
    utc = datetime.fromtimestamp(seconds(time), UTC)
    age = format_duration(max(0.0, seconds(now - time)))
    return MomentLabel(utc.strftime("%Y-%m-%d %H:%M UTC"), utc.strftime("%Y-%m-%dT%H:%M:%SZ"), age)
