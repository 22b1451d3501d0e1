"""How the report says things: groups of states, causes, actions, confidence in words."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.domain.finding import Action
from rightsizer.domain.state import Cause, Condition, Resource, State

__all__ = [
    "ACTIONS",
    "CAUSES",
    "CONDITIONS",
    "GROUPS",
    "GROUP_MEANINGS",
    "GROUP_NAMES",
    "GROUP_OF",
    "RESOURCES",
    "STATES",
    "Group",
    "confidence_word",
    "reason_words",
    "spoken",
]


class Group(StrEnum):
    """States that mean the same to whoever pays."""

    WORKING = "working"
    WAITING = "waiting"
    STALLED = "stalled"
    HELD = "held"
    FREE = "free"
    NO_DATA = "no_data"


GROUPS: Final = tuple(Group)
"""From work to nothing known; charts stack in this order."""
GROUP_NAMES: Final[Mapping[str, str]] = {
    Group.WORKING: "working",
    Group.WAITING: "waiting",
    Group.STALLED: "stalled",
    Group.HELD: "held but unused",
    Group.FREE: "free",
    Group.NO_DATA: "no data",
}
GROUP_MEANINGS: Final[Mapping[Group, str]] = {
    Group.WORKING: "kernels run and get something done",
    Group.WAITING: "for CPU, storage or transfers, or with kernels too small to fill it",
    Group.STALLED: "looks busy to nvidia-smi and computes nothing",
    Group.HELD: "somebody holds it and nothing runs; nobody else can have it",
    Group.FREE: "nobody holds it",
    Group.NO_DATA: "no agent ran, or the GPU could not be read; never counted as idle",
}
GROUP_OF: Final[Mapping[State, Group]] = {
    State.COMPUTE_BOUND: Group.WORKING,
    State.MEMORY_BANDWIDTH_BOUND: Group.WORKING,
    State.PRODUCTIVE: Group.WORKING,
    State.LAUNCH_BOUND: Group.WAITING,
    State.HOST_BOUND: Group.WAITING,
    State.STORAGE_BOUND: Group.WAITING,
    State.PCIE_BOUND: Group.WAITING,
    State.HIDDEN_STALL: Group.STALLED,
    State.IDLE_HELD: Group.HELD,
    State.IDLE_EMPTY: Group.FREE,
    State.UNKNOWN: Group.NO_DATA,
}
STATES: Final[Mapping[State, str]] = {
    State.COMPUTE_BOUND: "limited by arithmetic: well used",
    State.MEMORY_BANDWIDTH_BOUND: "limited by memory bandwidth: well used",
    State.PRODUCTIVE: "working, with room left",
    State.LAUNCH_BOUND: "kernels too small to fill it",
    State.HOST_BOUND: "waiting for the CPU",
    State.STORAGE_BOUND: "waiting for storage",
    State.PCIE_BOUND: "waiting for transfers over PCIe",
    State.HIDDEN_STALL: "looks busy, computes nothing",
    State.IDLE_HELD: "held by someone, not used",
    State.IDLE_EMPTY: "free: nobody holds it",
    State.UNKNOWN: "the agent ran and could not read it",
}
CAUSES: Final[Mapping[Cause, str]] = {
    Cause.IDLE: "while nothing ran",
    Cause.STALLED: "stalled, busy without work",
    Cause.HOST: "waiting for the CPU",
    Cause.STORAGE: "waiting for storage",
    Cause.PCIE: "waiting for transfers over PCIe",
    Cause.LAUNCH: "with kernels too small to fill it",
    Cause.THROTTLED: "held down by power or heat",
    Cause.HEADROOM: "at work with room left",
}
CONDITIONS: Final[Mapping[Condition, str]] = {
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
RESOURCES: Final[Mapping[Resource, str]] = {
    Resource.COMPUTE: "compute",
    Resource.MEMORY: "memory",
    Resource.MEMORY_BANDWIDTH: "memory bandwidth",
    Resource.PCIE: "PCIe",
    Resource.NVLINK: "NVLink",
}
ACTIONS: Final[Mapping[Action, str]] = {
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
    Action.FIX_INPUT_PIPELINE: "Mend the input pipeline",
    Action.FIX_CHECKPOINTING: "Make checkpoints cheaper",
    Action.RAISE_BATCH: "Raise the batch size",
    Action.ENABLE_CUDA_GRAPHS: "Use CUDA graphs",
    Action.ENABLE_MIXED_PRECISION: "Use mixed precision",
    Action.INVESTIGATE_STRAGGLER: "Find the rank that the others wait for",
    Action.SET_POWER_LIMIT: "Set a power limit",
    Action.MOVE_GPUS: "Move to GPUs nearer to one another",
    Action.NONE: "Nothing to do",
}
_CONFIDENCE: Final = ((0.95, "almost certain"), (0.8, "likely"), (0.6, "probable"))
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES: Final = {
    "Gpu": "GPU",
    "Pcie": "PCIe",
    "Numa": "NUMA",
    "Nvlink": "NVLink",
    "Mig": "MIG",
    "Mps": "MPS",
}


def confidence_word(confidence: float) -> str:
    """How sure, as a person says it."""
    return next((word for least, word in _CONFIDENCE if confidence >= least), "uncertain")


def reason_words(reason: str) -> str:
    """`PcieLinkDegraded` as `PCIe link degraded`."""
    first, *rest = _WORD_START.split(reason)
    words = [_NAMES.get(first, first), *(_NAMES.get(word, word.lower()) for word in rest)]
    return " ".join(words)


def spoken(name: str) -> str:
    """`power_cap` as `power cap`."""
    return name.replace("_", " ")
