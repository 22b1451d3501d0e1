"""Table of many devices over one span, in arrays, for the screens of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from rightsizer.accounting.accounts_snapshot import allocator_of
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.advice.screen import Screen, Settled
from rightsizer.fleet.cache.day_frame import ColumnKind, Floats
from rightsizer.fleet.columns.distributions import DistributionTable
from rightsizer.fleet.columns.span_sums import SpanSums
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.values import (
    IDLE_STATES,
    NANOSECONDS_PER_SECOND,
    Allocator,
    Condition,
    Observation,
    Resource,
    Signal,
    State,
    Tier,
    Workload,
    WorkloadClass,
    nanoseconds,
)


class TableRow(NamedTuple):
    """A device of a case."""

    key: str
    """Key of the case."""
    workload: Workload | None
    device: FleetDevice
    place: int
    """Its row among the sums."""
    is_single: bool
    is_shared: bool


class DeviceTable:
    """Devices of the same columns, as `rightsizer.advice.screen.SubjectTable`."""

    def __init__(
        self, rows: Sequence[TableRow], sums: SpanSums, settings: ProvisioningSettings
    ) -> None:
        self.rows = rows
        self._sums = sums
        self._settings = settings
        self._places = np.array([row.place for row in rows])
        # Beyond the span only by rounding, as in `SpanSums.states`.
        states = sum(self._times(ColumnKind.STATE, state) for state in State if state in _KNOWN)
        self._known = np.minimum(states, sums.spans[self._places])
        idle = sum(self._times(ColumnKind.STATE, state) for state in IDLE_STATES)
        self.known_seconds = self._known / NANOSECONDS_PER_SECOND
        self.active_seconds = np.maximum(0.0, self._known - idle) / NANOSECONDS_PER_SECOND
        self.is_single = self._facts(lambda row: row.is_single)
        self.is_held = self._facts(lambda row: row.workload is not None)
        self.is_shared = self._facts(lambda row: row.is_shared)
        self.has_xids = self._facts(lambda row: row.device.xids is not None)

    def settled(self, screen: Screen) -> Iterator[tuple[Settled, list[TableRow]]]:
        """Yield what a screen settles, with its rows."""
        left = np.ones(len(self.rows), bool)
        for settled in screen:
            mine = left & settled.where
            left &= ~mine
            if not settled.is_left:
                yield settled, [self.rows[place] for place in np.flatnonzero(mine).tolist()]
            if not left.any():
                return

    def _facts(self, fact: Callable[[TableRow], bool]) -> Floats:
        return np.array([fact(row) for row in self.rows], bool)

    def _times(self, kind: ColumnKind, name: str) -> Floats:
        """Nanoseconds by row; 0 if unknown."""
        times = self._sums.column(kind, name)
        return np.zeros(len(self.rows)) if times is None else times[self._places]

    def _share(self, kind: ColumnKind, *names: str) -> Floats:
        times = sum(self._times(kind, name) for name in names)
        return np.asarray(times / np.where(self._known > 0, self._known, np.inf))

    def share(self, *states: State) -> Floats:
        """As in `SubjectTable`."""
        return self._share(ColumnKind.STATE, *states)

    def condition_share(self, condition: Condition) -> Floats:
        """As in `SubjectTable`."""
        return self._share(ColumnKind.CONDITION, condition)

    def second_cause_share(self, state: State) -> Floats:
        """As in `SubjectTable`."""
        return self._share(ColumnKind.SECOND_CAUSE, state)

    def saturated_share(self, resource: Resource) -> Floats:
        """As in `SubjectTable`."""
        return self._share(ColumnKind.SATURATED, resource)

    def pressed_share(self, resource: Resource) -> Floats:
        """As in `SubjectTable`."""
        return self._share(ColumnKind.PRESSED, resource)

    def of_active(self, share: Floats, minimum_active_seconds: float) -> Floats:
        """As in `SubjectTable`."""
        active = self.active_seconds
        is_enough = (active >= minimum_active_seconds) & (active > 0.0)
        of_active = share * self.known_seconds / np.where(is_enough, active, np.inf)
        return np.minimum(1.0, of_active)

    def observed_seconds(self, observation: Observation) -> Floats:
        """As in `SubjectTable`; stores lack the load of each second."""
        is_told = observation is Observation.RANKS
        return self.known_seconds if is_told else np.zeros(len(self.rows))

    @cached_property
    def _tiers(self) -> Sequence[Tier]:
        """Tier of most of the known time."""
        names, times = self._sums.columns(ColumnKind.TIER)
        if not names:
            return [Tier.NONE] * len(self.rows)
        times = times[self._places]
        return [
            names[place] if is_known else Tier.NONE
            for place, is_known in zip(times.argmax(axis=1), times.any(axis=1), strict=True)
        ]

    def is_read_on(self, tiers: AbstractSet[Tier]) -> Floats:
        """As in `SubjectTable`."""
        return np.array([tier in tiers for tier in self._tiers], bool)

    def is_of(self, *classes: WorkloadClass) -> Floats:
        """As in `SubjectTable`."""
        return self._facts(
            lambda row: (
                (row.workload.workload_class if row.workload else WorkloadClass.UNKNOWN) in classes
            )
        )

    def is_allocated_by(self, allocator: Allocator) -> Floats:
        """As in `SubjectTable`."""
        return self._facts(lambda row: allocator_of(row.workload) is allocator)

    def reads(self, *signals: Signal) -> Floats:
        """As in `SubjectTable`."""
        wanted = frozenset(signals)
        return self._facts(lambda row: not wanted.isdisjoint(row.device.readings))

    def largest(self, *signals: Signal) -> Floats:
        """As in `SubjectTable`."""
        readings = (row.device.readings for row in self.rows)
        return np.array(
            [max(abs(reading.get(signal, 0.0)) for signal in signals) for reading in readings]
        )

    @cached_property
    def _distributions(self) -> DistributionTable:
        return self._sums.distributions

    def has_demand(self, resource: Resource) -> Floats:
        """As in `SubjectTable`."""
        return self._distributions.is_known(resource)[self._places]

    @cached_property
    def is_preallocated(self) -> Floats:
        """As `accounting.provisioning.holds_without_need`."""
        table = self._distributions
        settings = self._settings
        low = table.quantile_of(Resource.MEMORY, settings.preallocated_quantile_ratio)
        high = table.maximum_of(Resource.MEMORY)
        seems = (low >= settings.preallocated_ratio) & (
            np.round(high - low, _PLACES) <= settings.preallocated_spread_ratio
        )
        unstated = self.is_allocated_by(Allocator.UNKNOWN)
        stated = self.is_allocated_by(Allocator.PREALLOCATING)
        return np.asarray(np.where(unstated, seems[self._places], stated))

    @cached_property
    def is_underprovisioned(self) -> Floats:
        """As in `accounting.provisioning.provision`."""
        is_under = np.zeros(len(self.rows), bool)
        for resource in Resource:
            pressed = self.pressed_share(resource)
            is_told = pressed > 0.0
            if resource is Resource.MEMORY:
                full = self.condition_share(Condition.NEAR_OUT_OF_MEMORY)
                pressed = np.where(self.is_preallocated, pressed - full, pressed)
                is_told = np.where(
                    self.is_preallocated, pressed > 0.0, is_told | self.has_demand(resource)
                )
            is_under |= is_told & (pressed >= self._settings.underprovisioned_ratio)
        return is_under & (self._known > 0)

    @cached_property
    def _needs(self) -> dict[Resource, Floats]:
        """Need of each resource, its margin included; `nan` if unknown."""
        settings = self._settings
        table = self._distributions
        least = nanoseconds(settings.minimum_active_seconds)
        is_active = self.active_seconds >= settings.minimum_active_seconds
        demands: dict[Resource, Floats] = {}
        for resource in Resource:
            if resource is Resource.MEMORY:
                values = table.maximum_of(resource)
            else:
                values = table.quantile_of(resource, settings.demand_quantile_ratio)
            is_enough = (table.total_of(resource) >= least)[self._places] & is_active
            demands[resource] = np.where(is_enough, values[self._places], np.nan)
        has_any = np.any([values >= 0.0 for values in demands.values()], axis=0)
        for resource, values in demands.items():
            stated = np.array([row.device.demands.get(resource, np.nan) for row in self.rows])
            counts = has_any if resource is Resource.MEDIA else values >= 0.0
            demands[resource] = np.where(counts & (stated >= 0.0), stated, values)
        memory = np.where(self.is_preallocated, np.nan, demands[Resource.MEMORY])
        needs = {
            resource: values * (1 + settings.margin_ratio) for resource, values in demands.items()
        }
        return needs | {Resource.MEMORY: memory * (1 + settings.memory_margin_ratio)}

    def need(self, resource: Resource) -> Floats:
        """As in `SubjectTable`."""
        return self._needs[resource]

    @cached_property
    def overprovisioned(self) -> Floats:
        """As in `accounting.provisioning.provision`."""
        needs = self._needs
        over = np.maximum(0.0, 1.0 - np.fmax.reduce([*needs.values()]))
        is_complete = (needs[Resource.COMPUTE] >= 0.0) & (needs[Resource.MEMORY] >= 0.0)
        return np.where(self.is_underprovisioned, 0.0, np.where(is_complete, over, np.nan))

    @cached_property
    def overprovisioned_at_most(self) -> Floats:
        """As in the rule `overprovisioned`; 0 without a bound."""
        settings = self._settings
        table = self._distributions
        demand = table.quantile_of(None, settings.demand_quantile_ratio)
        is_enough = table.total_of(None) >= nanoseconds(settings.minimum_active_seconds)
        bound = np.where(is_enough, demand * (1 + settings.margin_ratio), np.nan)[self._places]
        others = [
            need for resource, need in self._needs.items() if resource is not Resource.COMPUTE
        ]
        over = np.maximum(0.0, 1.0 - np.fmax.reduce([bound, *others]))
        return np.where(np.isnan(bound), 0.0, over)


_KNOWN: Final = frozenset(State) - {State.UNKNOWN}
_PLACES: Final = 6
"""Digits, as in `accounting.provisioning`."""
