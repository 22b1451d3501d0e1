"""A day of some devices, or several by the hour, read from what their agents export."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rightsizer.accounting.usage import UsageSettings
from rightsizer.domain.block import Measure
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload
from rightsizer.fleet.column import Column
from rightsizer.fleet.estate import Day, EstateDevice, Held
from rightsizer.fleet.grid import DAY, Grid
from rightsizer.fleet.sources.agent import figures
from rightsizer.fleet.sources.agent.demand_histograms import Buckets, buckets_of, demands_of
from rightsizer.fleet.sources.agent.form import FIGURE, Figure, Labels, grouped
from rightsizer.fleet.sources.agent.holdings import held, shares_query
from rightsizer.fleet.sources.agent.measure_columns import (
    Columns,
    Figures,
    measure_columns,
    needs_power,
)
from rightsizer.fleet.sources.agent.pressure_columns import limits_query, pressure_columns
from rightsizer.fleet.sources.agent.time_columns import (
    Presence,
    energy_columns,
    presence_of,
    seconds_columns,
    state_columns,
)
from rightsizer.fleet.sources.agent.workloads import workload_by_key, workload_query, workloads_of
from rightsizer.fleet.sources.placing import by_label, placed
from rightsizer.fleet.store import Sampled, Store
from rightsizer.fleet.track import Track

__all__ = ["DayReader"]

ByDevice: TypeAlias = "Mapping[str, Mapping[str, array[float]]]"

_PEAKS: Final = {
    measure: Column.peak(measure)
    for measure in (Measure.COMPUTE, Measure.MEMORY_BANDWIDTH, Measure.MEMORY)
}
"""Of what has a distribution."""
_NOTHING: Final[Columns] = {}
_ZERO: Final = 0.0


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the store said of all the devices, by uuid and label."""

    states: ByDevice
    conditions: ByDevice
    waste: ByDevice
    waste_joules: ByDevice
    totals: ByDevice
    means: ByDevice
    peaks: ByDevice
    links: ByDevice
    power: ByDevice
    buckets: Mapping[str, Buckets]
    limits: Mapping[str, Mapping[str, list[Sampled]]] = field(default_factory=dict)

    def figures(self, uuid: str) -> Figures:
        """What was said of one device's use."""
        found = (self.means, self.peaks, self.links, self.power, self.totals)
        return Figures(*(each.get(uuid, _NOTHING) for each in found))


class DayReader:
    """Asks for the days of a grid, of some devices.

    What is kept of a whole day is asked for by the day.

    Args:
        store: Who is asked.
        names: Metrics and recording rules that the store has of these days.
        devices: Of which they are read.
        grid: The days.
        usage: What counts as all of a resource.
    """

    def __init__(
        self,
        store: Store,
        names: AbstractSet[str],
        devices: Sequence[EstateDevice],
        grid: Grid,
        usage: UsageSettings,
    ) -> None:
        self._store = store
        self._names = names
        self._devices = {each.device.uuid: each.device for each in devices}
        self._grid = grid
        self._usage = usage

    def read(self) -> Day:
        """The days; devices that were not there then are left out."""
        if not self._devices:
            return Day({})
        labels = _labels(self._devices)
        states = self._columns(figures.STATES, labels)
        presences = {
            uuid: presence_of(columns, self._grid)
            for uuid, columns in states.items()
            if uuid in self._devices
        }
        if not presences:
            return Day({})
        labels = _labels(presences)
        answers = self._ask(labels, states, self._moment(presences.values()))
        tracks = {
            uuid: self._track(uuid, presence, answers) for uuid, presence in presences.items()
        }
        return Day(tracks, self._holdings(labels, self._moment(presences.values())))

    def _ask(self, labels: Labels, states: ByDevice, moment: Nanoseconds) -> _Answers:
        means = self._group(figures.MEANS, labels)
        weighed = [uuid for uuid, columns in means.items() if needs_power(columns)]
        span = self._day_span(moment)
        buckets = grouped(figures.BUCKETS, self._names, labels, span)
        power_buckets = grouped(figures.POWER_BUCKETS, self._names, _labels(weighed), span)
        found = self._daily(buckets, moment)
        if weighed:
            found = [*found, *self._daily(power_buckets, moment)]
        return _Answers(
            states=states,
            conditions=self._columns(figures.CONDITIONS, labels),
            waste=self._columns(figures.WASTE, labels),
            waste_joules=self._columns(figures.WASTE_JOULES, labels),
            totals=self._group(figures.TOTALS, labels),
            means=means,
            peaks=self._group(figures.PEAKS, labels),
            links=self._group(figures.LINKS, labels),
            power=self._group(figures.POWER, _labels(weighed)) if weighed else {},
            buckets=buckets_of(found),
            limits=self._limits(labels, moment),
        )

    def _track(self, uuid: str, presence: Presence, answers: _Answers) -> Track:
        grid, known = self._grid, presence.known_seconds
        columns = state_columns(answers.states[uuid], presence, grid)
        conditions = answers.conditions.get(uuid, _NOTHING)
        columns |= seconds_columns(conditions, answers.waste.get(uuid, _NOTHING), presence)
        joules, totals = (
            answers.waste_joules.get(uuid, _NOTHING),
            answers.totals.get(uuid, _NOTHING),
        )
        columns |= energy_columns(joules, totals, presence)
        columns |= measure_columns(
            answers.figures(uuid), presence, self._devices[uuid], self._usage
        )
        columns |= pressure_columns(answers.limits.get(uuid, {}), known, grid)
        peaks = {
            measure: columns[column] for measure, column in _PEAKS.items() if column in columns
        }
        demands = demands_of(
            answers.buckets.get(uuid, {}), peaks, known, self._usage.working_power_ratio
        )
        return Track(uuid, grid, columns, demands)

    def _limits(self, labels: Labels, moment: Nanoseconds) -> dict[str, dict[str, list[Sampled]]]:
        found: dict[str, dict[str, list[Sampled]]] = {}
        query = limits_query(self._names, labels, self._grid.step)
        for series in self._daily(query, moment):
            kinds = found.setdefault(series.labels.get("uuid", ""), {})
            kinds.setdefault(series.labels.get(FIGURE, ""), []).append(series)
        return found

    def _holdings(self, labels: Labels, moment: Nanoseconds) -> dict[str, tuple[Held, ...]]:
        answer = self._range(shares_query(self._names, labels, self._grid.step))
        shares: dict[str, dict[str, array[float]]] = {}
        for series in answer:
            uuid, key = series.labels.get("uuid", ""), series.labels.get("workload", "")
            if key and uuid in self._devices:
                shares.setdefault(uuid, {})[key] = placed(series, self._grid, _ZERO)
        keys = sorted({key for parts in shares.values() for key in parts})
        workloads = self._workloads(keys, moment)
        return {uuid: held(parts, workloads) for uuid, parts in shares.items()}

    def _workloads(self, keys: Sequence[str], moment: Nanoseconds) -> dict[str, Workload]:
        known = {key: workload_by_key(key) for key in keys}
        if not keys:
            return known
        query = workload_query(self._names, keys, self._day_span(moment))
        return known | workloads_of(self._daily(query, moment))

    def _moment(self, presences: Iterable[Presence]) -> Nanoseconds:
        """When the last stretch ends in which any of the devices was there."""
        there = (
            place
            for presence in presences
            for place, part in enumerate(presence.known_seconds)
            if part >= 0
        )
        last = max(there, default=self._grid.count - 1)
        return self._grid.start + (last + 1) * self._grid.step

    def _columns(self, figure: Figure, labels: Labels) -> dict[str, dict[str, array[float]]]:
        query = figure.promql(self._names, labels, self._grid.step)
        # What is 0 all along is not worth its way.
        answer = self._range(None if query is None else f"{query} > 0")
        return by_label(answer, self._grid, figure.labels[0], _ZERO)

    def _group(
        self, wanted: Iterable[Figure], labels: Labels
    ) -> dict[str, dict[str, array[float]]]:
        query = grouped(wanted, self._names, labels, self._grid.step)
        return by_label(self._range(query), self._grid, FIGURE)

    def _range(self, query: str | None) -> Sequence[Sampled]:
        if query is None:
            return ()
        grid = self._grid
        return self._store.range(query, grid.start + grid.step, grid.end, grid.step)

    def _day_span(self, moment: Nanoseconds) -> Nanoseconds:
        """What a query for a day's sample looks back over."""
        return moment - self._grid.start if self._grid.days == 1 else DAY

    def _daily(self, query: str | None, moment: Nanoseconds) -> Sequence[Sampled]:
        """A sample a day; of a single day as of the last moment of which anything is known."""
        if query is None:
            return ()
        if self._grid.days == 1:
            return self._store.instant(query, moment)
        return self._store.range(query, self._grid.start + DAY, self._grid.end, DAY)


def _labels(uuids: Iterable[str]) -> Labels:
    return {"uuid": tuple(uuids)}
