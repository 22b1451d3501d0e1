"""Table of the devices of a batch, in arrays, for the screens of rules before any is judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from rightsizer.accounting.accounts_snapshot import allocator_of
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.screen import Settled
from rightsizer.fleet.cache.day_frame import ColumnKind, Floats
from rightsizer.fleet.columns.span_sums import SpanSums
from rightsizer.fleet.columns.subject import Subject, latest_span
from rightsizer.fleet.columns.subject_columns import SubjectColumns
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.values import (
    IDLE_STATES,
    NANOSECONDS_PER_SECOND,
    Allocator,
    Condition,
    Nanoseconds,
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
    subject: Subject
    since: Nanoseconds
    """When its holder took it."""
    last_step: Nanoseconds
    """Step of the case's newest day."""
    is_single: bool
    is_shared: bool


class BatchTable:
    """All devices of a batch, those of a case one after another, with their figures by span."""

    def __init__(
        self, rows: Sequence[TableRow], settings: ProvisioningSettings, now: Nanoseconds
    ) -> None:
        self._settings = settings
        self._now = now
        self.keys = list(dict.fromkeys(row.key for row in rows))
        """Keys of the cases."""
        numbers = {key: number for number, key in enumerate(self.keys)}
        self._cases = np.array([numbers[row.key] for row in rows], int)
        self._begins = np.flatnonzero(np.diff(self._cases, prepend=-1))
        self._groups = defaultdict[tuple[SubjectColumns, Nanoseconds], dict[int, TableRow]](dict)
        for number, row in enumerate(rows):
            if row.device.device.mig is None:  # Instances are judged.
                self._groups[row.subject.columns, row.last_step][number] = row
        self._tables: dict[Nanoseconds, list[DeviceTable]] = {}

    def over(self, span: Nanoseconds) -> Sequence[DeviceTable]:
        """Return the tables over the latest span, each of the devices of one kind of columns."""
        if span not in self._tables:
            self._tables[span] = []
            for (columns, last_step), alike in self._groups.items():
                start, end = latest_span(last_step, span, self._now)
                sums = columns.over(start, end, of_devices=True)
                self._tables[span].append(DeviceTable(alike, sums, start, self._settings))
        return self._tables[span]

    def settled(
        self, rules: Iterable[tuple[Sequence[int], Nanoseconds, Rule[Any]]]
    ) -> tuple[list[Settled], Floats]:
        """Return what screens settle, and the number of it by case, counted from 1; 0 for nothing.

        Each rule is one for some cases, by number, and a span. All devices of a case must agree.
        """
        kinds: dict[tuple[object, ...], int] = {}
        settled_by_number: list[Settled] = []
        codes = np.zeros(len(self._cases), int)
        for cases, span, rule in rules:
            is_asked = np.zeros(len(self.keys), bool)
            is_asked[cases] = True
            for table in self.over(span):
                for settled, rows in table.settled(rule):
                    number = kinds.setdefault(settled[1:], len(kinds) + 1)
                    settled_by_number += [settled] * (number > len(settled_by_number))
                    codes[rows[is_asked[self._cases[rows]]]] = number
        low, high = (
            ufunc.reduceat(codes, self._begins) if len(codes) else codes
            for ufunc in (np.minimum, np.maximum)
        )
        return settled_by_number, np.where(low == high, low, 0)


class DeviceTable:
    """Devices of the same columns over a span, as `rightsizer.advice.screen.SubjectTable`."""

    def __init__(
        self,
        rows: Mapping[int, TableRow],
        sums: SpanSums,
        start: Nanoseconds,
        settings: ProvisioningSettings,
    ) -> None:
        self._rows = rows
        """By number in the batch."""
        self._sums = sums
        self._settings = settings
        self._places = np.array([row.subject.row for row in rows.values()])
        """Of the rows, in the columns."""
        self._known = sums.known[self._places]
        idle = sums.time_in(*IDLE_STATES)[self._places]
        self.known_seconds = self._known / NANOSECONDS_PER_SECOND
        self.active_seconds = np.maximum(0.0, self._known - idle) / NANOSECONDS_PER_SECOND
        self.is_single = self._facts(lambda row: row.is_single)
        self.is_held = self._facts(lambda row: row.workload is not None)
        self.is_shared = self._facts(lambda row: row.is_shared)
        self.has_xids = self._facts(lambda row: row.device.xids is not None)
        self._is_whole = self._facts(lambda row: row.since <= start)
        """Whether its holder had it since the start; of others, a window begins later."""

    def settled(self, rule: Rule[Any]) -> Iterator[tuple[Settled, Floats]]:
        """Yield what a rule's screen settles, with the numbers of its rows in the batch."""
        screen = rule.screen_with
        numbers = np.array([*self._rows])
        left = self._is_whole.copy()
        for settled in () if screen is None else screen(self, rule.settings):
            mine = left & settled.where
            left &= ~mine
            if not settled.is_left:
                yield settled, numbers[mine]
            if not left.any():
                return

    def _facts(self, fact: Callable[[TableRow], bool]) -> Floats:
        return np.array([fact(row) for row in self._rows.values()], bool)

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

    def states(self, *capacities: str) -> Floats:
        """As in `SubjectTable`."""
        return self._facts(lambda row: None not in map(row.device.device.stated, capacities))

    def largest(self, *signals: Signal) -> Floats:
        """As in `SubjectTable`."""
        readings = (row.device.readings for row in self._rows.values())
        return np.array(
            [max(abs(reading.get(signal, 0.0)) for signal in signals) for reading in readings]
        )

    def _times(self, kind: ColumnKind, name: str) -> Floats:
        """Nanoseconds by row; 0 if unknown."""
        times = self._sums.column(kind, name)
        return np.zeros(len(self._places)) if times is None else times[self._places]

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
        return self.known_seconds if is_told else np.zeros(len(self._places))

    @cached_property
    def _tiers(self) -> Sequence[Tier]:
        """Tier of most of the known time."""
        names, times = self._sums.columns(ColumnKind.TIER)
        if not names:
            return [Tier.NONE] * len(self._places)
        times = times[self._places]
        return [
            names[place] if is_known else Tier.NONE
            for place, is_known in zip(times.argmax(axis=1), times.any(axis=1), strict=True)
        ]

    def is_read_on(self, tiers: AbstractSet[Tier]) -> Floats:
        """As in `SubjectTable`."""
        return np.array([tier in tiers for tier in self._tiers], bool)

    def has_demand(self, resource: Resource) -> Floats:
        """As in `SubjectTable`."""
        return self._sums.distributions(resource).is_known[self._places]

    @cached_property
    def is_preallocated(self) -> Floats:
        """As `accounting.provisioning.holds_without_need`."""
        memory = self._sums.distributions(Resource.MEMORY)
        settings = self._settings
        low = memory.quantiles(settings.preallocated_quantile_ratio)
        seems = (low >= settings.preallocated_ratio) & (
            np.round(memory.maxima - low, _PLACES) <= settings.preallocated_spread_ratio
        )
        unstated = self.is_allocated_by(Allocator.UNKNOWN)
        stated = self.is_allocated_by(Allocator.PREALLOCATING)
        return np.asarray(np.where(unstated, seems[self._places], stated))

    @cached_property
    def is_underprovisioned(self) -> Floats:
        """As in `accounting.provisioning.provision`."""
        is_under = np.zeros(len(self._places), bool)
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
        least = nanoseconds(settings.minimum_active_seconds)
        is_active = self.active_seconds >= settings.minimum_active_seconds
        demands: dict[Resource, Floats] = {}
        for resource in Resource:
            use = self._sums.distributions(resource)
            is_memory = resource is Resource.MEMORY
            values = use.maxima if is_memory else use.quantiles(settings.demand_quantile_ratio)
            is_enough = (use.totals >= least)[self._places] & is_active
            demands[resource] = np.where(is_enough, values[self._places], np.nan)
        has_any = np.any([values >= 0.0 for values in demands.values()], axis=0)
        for resource, values in demands.items():
            stated = np.array(
                [row.device.demands.get(resource, np.nan) for row in self._rows.values()]
            )
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
        at_least = self._sums.distributions(None)
        demand = at_least.quantiles(settings.demand_quantile_ratio)
        is_enough = at_least.totals >= nanoseconds(settings.minimum_active_seconds)
        bound = np.where(is_enough, demand * (1 + settings.margin_ratio), np.nan)[self._places]
        others = [
            need for resource, need in self._needs.items() if resource is not Resource.COMPUTE
        ]
        over = np.maximum(0.0, 1.0 - np.fmax.reduce([bound, *others]))
        return np.where(np.isnan(bound), 0.0, over)


_PLACES: Final = 6
"""Digits, as in `accounting.provisioning`."""
