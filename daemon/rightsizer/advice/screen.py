"""Screens: verdicts of a rule on columns of many subjects, before any is judged by itself.

A screen tells on which subjects a rule's verdict is known, and a fleet judges only the others. It
may leave more than it needs to, but never settle a subject whose verdict would be another.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from rightsizer.model.values import (
    Allocator,
    Condition,
    Observation,
    Reason,
    Resource,
    Signal,
    State,
    Tier,
    WorkloadClass,
)

Column: TypeAlias = Any
"""Array with a number or truth for each subject; an agent has no numpy."""


ROUNDING: Final = 1e-9
"""Columns may differ from windows by rounding; a share as near to its threshold is judged."""


class SubjectTable(Protocol):
    """Whole devices over one span, a row each, with the facts of the workload that holds them."""

    @property
    def known_seconds(self) -> Column:
        """Time with a known state."""

    @property
    def active_seconds(self) -> Column:
        """Time neither idle nor unknown."""

    @property
    def is_single(self) -> Column:
        """Whether the case has no other device."""

    @property
    def is_held(self) -> Column:
        """Whether it has a workload."""

    @property
    def is_shared(self) -> Column:
        """Whether several workloads hold the device."""

    @property
    def has_xids(self) -> Column:
        """Whether Xids are read."""

    @property
    def is_underprovisioned(self) -> Column:
        """As of `Provisioning`."""

    @property
    def is_preallocated(self) -> Column:
        """As `memory_is_preallocated` of `Provisioning`."""

    @property
    def overprovisioned(self) -> Column:
        """As of `Provisioning`; `nan` if unknown."""

    @property
    def overprovisioned_at_most(self) -> Column:
        """By the lower bound of the compute need; 0 without one."""

    def share(self, *states: State) -> Column:
        """Share of the known time in some states."""

    def condition_share(self, condition: Condition) -> Column:
        """Share of the known time with a condition."""

    def second_cause_share(self, state: State) -> Column:
        """Share of the known time with a state as the next most likely."""

    def saturated_share(self, resource: Resource) -> Column:
        """Share of the known time at a resource's limit."""

    def pressed_share(self, resource: Resource) -> Column:
        """Share of the known time in which an application lacked a resource."""

    def of_active(self, share: Column, minimum_active_seconds: float) -> Column:
        """Turn a share of the known into one of the active time; 0 if that is too short."""

    def observed_seconds(self, observation: Observation) -> Column:
        """Time for which an observation could be made."""

    def is_read_on(self, tiers: AbstractSet[Tier]) -> Column:
        """Whether most of the known time has telemetry of one of the tiers."""

    def has_demand(self, resource: Resource) -> Column:
        """Whether the use of a resource is known."""

    def need(self, resource: Resource) -> Column:
        """Need of a resource; `nan` if unknown."""

    def is_of(self, *classes: WorkloadClass) -> Column:
        """Whether the workload, or the lack of one, is of one of some classes."""

    def is_allocated_by(self, allocator: Allocator) -> Column:
        """Whether the workload has a stated allocator."""

    def reads(self, *signals: Signal) -> Column:
        """Whether one of some signals has a last reading."""

    def states(self, *capacities: str) -> Column:
        """Whether the device states all of some capacities."""

    def largest(self, *signals: Signal) -> Column:
        """Largest magnitude among the last readings of some signals; 0 without any."""


class Settled(NamedTuple):
    """Rows whose verdict is settled; of several the first counts."""

    where: Column
    is_left: bool = False
    """Whether these must be judged, whatever follows."""
    reason: Reason | None = None
    """Why the rule abstains; `None` if nothing is wrong."""
    why: str = ""
    """Text of the abstention for lack of telemetry; empty for other reasons."""


Screen: TypeAlias = Iterator[Settled]


def well(where: Column) -> Settled:
    """Settle that nothing is wrong."""
    return Settled(where)


def left(where: Column) -> Settled:
    """Leave rows to be judged."""
    return Settled(where, is_left=True)


def too_little(where: Column) -> Settled:
    """Settle that the rule abstains for lack of data."""
    return Settled(where, reason=Reason.INSUFFICIENT_DATA)


def unmeasured(where: Column, why: str) -> Settled:
    """Settle that the rule abstains for lack of telemetry, with its text."""
    return Settled(where, reason=Reason.UNSUPPORTED_TELEMETRY, why=why)
