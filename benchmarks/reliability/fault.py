"""A fault as a row: what is planted, when, and how it is lifted."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from benchmarks.reliability.node import OWNER, Node

BEGIN_SECONDS: Final = 5.0
"""From an agent's start to a fault."""
LENGTH_SECONDS: Final = 8.0
"""From a fault to its end."""


class Group(StrEnum):
    """Part of the agent's surroundings that has the fault; its value is the heading."""

    DRIVER = "Driver and GPUs"
    DISK = "Disk and history"
    CALLS = "Calls of the C library"
    LOG = "Its own log"
    PROCESS = "Process and configuration"
    LIMITS = "Limits of tasks, memory and files"
    ENDING = "Ends and kills"
    CLOCK = "Clocks"
    OWNERS = "Owners"
    PAGE = "Page, API and TLS"
    SERVERS = "Servers that it speaks to"
    DCGM = "Pages of dcgm-exporter"


class Fault(Struct, frozen=True):
    """A fault that lasts for some seconds."""

    group: Group
    name: str
    gpus: tuple[int, ...] = ()
    """GPUs that cannot be read meanwhile."""
    scenario: tuple[str, ...] = ()
    """Lines of the simulated node's faults."""
    config: Mapping[str, Any] = {}
    """More of the agent's configuration; NEXT stands for the port of a server of the fault."""
    prepare: Callable[[Node], None] | None = None
    """Before the agent starts."""
    plant: Callable[[Node], None] | None = None
    lift: Callable[[Node], None] | None = None
    seconds: float = LENGTH_SECONDS
    is_at_start: bool = False
    """Whether the fault is there when the agent starts."""
    lasts: bool = False
    """Whether it stays to the end: there is nothing to recover from but its effect on others."""
    ends_agent: bool = False
    """Whether the agent is started anew when the fault is lifted, as systemd would."""
    may_act_for: frozenset[str] = frozenset({OWNER})
    """Workloads that an action may be run for; all others are strangers."""
