"""Readings of some devices over a day: queries, and their answers as columns by step."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from typing import Final, TypeAlias

from rightsizer.fleet.cache.day_frame import Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.dcgm_exporter import probe as dcgm
from rightsizer.fleet.sources.series import placed, together
from rightsizer.model.dcgm_fields import DcgmField
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Missing, plausible
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition
from rightsizer.model.units import NANOSECONDS_PER_SECOND, convert, seconds

_DEVICE: Final = ", ".join(dcgm.DEVICE_LABELS)
_SCRAPED: Final = ", ".join((*dcgm.DEVICE_LABELS, *dcgm.SCRAPER_LABELS))
_HELD: Final = ", ".join((*dcgm.DEVICE_LABELS, *dcgm.HOLDER_LABELS))
# A scrape may write the exporter's own pod where the holder's would be.
_NO_HOLDER: Final = f'exported_pod="",pod_name="",pod=~"|.*{dcgm.EXPORTER}.*"'

MEAN: Final = (
    f"max by ({_DEVICE}) (sum by ({_SCRAPED}) (sum_over_time({{0}}))"
    f" / sum by ({_SCRAPED}) (count_over_time({{0}})))"
)
"""Of a gauge, over the samples of each interval."""
_OWN_MEAN: Final = f"max by ({_DEVICE}) (avg_over_time({{0}}))"
PEAK: Final = f"max by ({_DEVICE}) (max_over_time({{0}}))"
LOWEST: Final = f"min by ({_DEVICE}) (min_over_time({{0}}))"
GAINED: Final = f"max by ({_DEVICE}) (sum by ({_SCRAPED}) (increase({{0}})))"
"""By a counter, in each interval."""
COUNTED: Final = f"max by ({_HELD}) (count_over_time({{0}}))"
"""Samples of each interval, by holder."""


@dataclass(frozen=True, slots=True)
class DayQueries:
    """Queries of each metric by interval and device.

    A device's series end and begin with its holders, so that sums and counts of all of them
    make the mean; of several scrapes of one device, the largest counts.
    """

    store: MetricStore
    grid: Grid
    uuids: tuple[str, ...]
    """Of whole GPUs, which the series of their instances have too."""
    uuid_labels: tuple[str, ...]
    divided: frozenset[str] = frozenset()
    """Metrics of which each holder's series has its own part."""

    def read(self, form: str, metrics: Collection[str]) -> list[SampledSeries]:
        """A form of each metric, by interval.

        Where holders' series have parts of a mean and the device's own has all of it, that is
        beside it, and larger.
        """
        queries = [form.format(text) for text in self._chosen(metrics)]
        if form == MEAN:
            divided = [name for name in metrics if name in self.divided]
            queries += [_OWN_MEAN.format(text) for text in self._chosen(divided, _NO_HOLDER)]
        grid = self.grid
        return [
            series
            for query in queries
            for series in self.store.range(query, grid.start + grid.step, grid.end, grid.step)
        ]

    def _chosen(self, metrics: Iterable[str], *own: str) -> Iterator[str]:
        for metric, label in product(metrics, self.uuid_labels):
            chosen = selector(metric, {label: self.uuids}, *own)
            yield f"{chosen}[{self.grid.step // NANOSECONDS_PER_SECOND}s]"


_AT_WORK: Final = 0.5
"""Of another reading of the same thing, from which on a 0 counts as a dead counter."""

SignalColumns: TypeAlias = "dict[str, array[float]]"
"""By device; `nan` where nothing is known."""


def by_device(
    answer: Iterable[SampledSeries], grid: Grid, *, is_of_card: bool = False
) -> SignalColumns:
    """The columns of an answer; of several series of one device, the largest value.

    What `is_of_card` is about the whole GPU even where a MIG instance's labels are on it.
    """
    found: SignalColumns = {}
    for series in answer:
        entity = dcgm.device_of(series.labels)
        if entity is not None and not (is_of_card and entity.is_instance):
            found |= joined({entity.device: placed(series, grid)}, found, max)
    return found


def joined(
    columns: SignalColumns, others: SignalColumns, both: Callable[[float, float], float]
) -> SignalColumns:
    """One for each device: where two values are known, what `both` makes of them."""
    return others | {
        device: together(column, others[device], both) if device in others else column
        for device, column in columns.items()
    }


def alive(value: float, former: float) -> float:
    """The first value where it can be.

    A profiling counter may die and read 0 for good, while the driver's own figure goes on
    (dcgm-exporter#662).
    """
    return former if value == 0.0 and former >= _AT_WORK else value


def plausible_columns(columns: SignalColumns, field: DcgmField, signal: Signal) -> SignalColumns:
    """The columns in base units, without what cannot be true: DCGM's blanks among the samples."""
    _, factor = convert(field.unit)

    def known(value: float) -> float:
        found = value if math.isnan(value) else plausible(signal, value * factor)
        return math.nan if isinstance(found, Missing) else found

    return {device: array("d", map(known, column)) for device, column in columns.items()}


VIOLATIONS: Final = (
    (dcgm.POWER_VIOLATION, Condition.POWER_THROTTLED, ClockEvent.SW_POWER_CAP),
    (dcgm.THERMAL_VIOLATION, Condition.THERMAL_THROTTLED, ClockEvent.SW_THERMAL_SLOWDOWN),
)


@dataclass(frozen=True, slots=True)
class ThrottleReasons:
    """Why the clocks were low, by interval: masks of `ClockEvent`."""

    mean: array[float]
    most: array[float]
    least: array[float]

    def at(self, interval: int) -> tuple[int, float]:
        """The mask that held at some time of an interval, and for how much of it.

        Of a mask that changes between two values, which it does in practice, the mean gives
        the share of each exactly.
        """
        most, least, mean = self.most[interval], self.least[interval], self.mean[interval]
        if math.isnan(most) or math.isnan(mean):
            return 0, 0.0
        if math.isnan(least) or most <= least:
            return int(most), 1.0
        return int(most), min(1.0, max(0.0, (mean - least) / (most - least)))


@dataclass(slots=True)
class DeviceDay:
    """What was read of one device; `nan` where it was not."""

    means: dict[Signal, array[float]] = field(default_factory=dict)
    peaks: dict[Signal, array[float]] = field(default_factory=dict)
    energy_joules: array[float] | None = None
    """By interval."""
    reasons: ThrottleReasons | None = None
    violations: dict[Condition, array[float]] = field(default_factory=dict)
    """For how much of an interval a limit held the clocks down."""
    known_seconds: Sequence[float] = ()
    """How much of each interval was watched."""
    holdings: tuple[DeviceHolding, ...] = ()

    def means_at(self, place: int) -> dict[Signal, float]:
        """The means of an interval that are known."""
        means = ((signal, column[place]) for signal, column in self.means.items())
        return {signal: value for signal, value in means if not math.isnan(value)}

    def most_at(self, place: int) -> dict[Signal, float]:
        """The largest of each signal in an interval, never below its mean."""
        found = self.means_at(place)
        for signal, column in self.peaks.items():
            if column[place] > found.get(signal, -math.inf):
                found[signal] = column[place]
        return found


def read_devices(queries: DayQueries, metrics: AbstractSet[str]) -> dict[str, DeviceDay]:
    """All that a day's queries give, by device."""
    found: defaultdict[str, DeviceDay] = defaultdict(DeviceDay)
    for form, fields in ((MEAN, dcgm.MEASURED), (PEAK, dcgm.PEAKED)):
        for signal, columns in _signals(queries, form, fields, metrics).items():
            for device, column in columns.items():
                day = found[device]
                (day.means if form == MEAN else day.peaks)[signal] = column
    for device, column in _columns(queries, GAINED, dcgm.ENERGY, metrics).items():
        found[device].energy_joules = column
    length = seconds(queries.grid.step)
    for each, condition, _ in VIOLATIONS:
        for device, column in _columns(queries, GAINED, each, metrics).items():
            found[device].violations[condition] = array("d", (gain / length for gain in column))
    for each in dcgm.REASONS:
        if dcgm.spelled(each, metrics):
            parts = [_columns(queries, form, each, metrics) for form in (MEAN, PEAK, LOWEST)]
            for device in set.intersection(*map(set, parts)):
                found[device].reasons = ThrottleReasons(*(part[device] for part in parts))
            break
    return dict(found)


def _signals(
    queries: DayQueries, form: str, fields: Iterable[DcgmField], metrics: AbstractSet[str]
) -> dict[Signal, SignalColumns]:
    """Of several fields for one signal, the highest rank wins."""
    found: dict[Signal, SignalColumns] = {}
    for each in sorted(fields, key=lambda known: known.rank):
        if each.signal is not None:
            columns = _columns(queries, form, each, metrics)
            # The engines of one GPU are fields of one signal, of which the busiest counts.
            both = max if each.signal is Signal.JPEG else alive
            found[each.signal] = joined(columns, found.get(each.signal, {}), both)
    return found


def _columns(
    queries: DayQueries, form: str, each: DcgmField, metrics: AbstractSet[str]
) -> SignalColumns:
    names = dcgm.spelled(each, metrics)
    if not names or each.signal is None:
        return {}
    columns = by_device(queries.read(form, names), queries.grid, is_of_card=each.is_of_card)
    return plausible_columns(columns, each, each.signal)
