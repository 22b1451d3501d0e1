"""Readings of some devices over a day: queries, and their answers as columns by step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from itertools import chain, compress
from typing import Final, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources import dcgm_names as dcgm
from rightsizer.fleet.sources.day_accounting import DeviceReadings, ThrottleReasons
from rightsizer.fleet.sources.figures import (
    GAINED,
    LOWEST,
    MEAN,
    OWN_MEAN,
    PEAK,
    RECORDED_STEP,
    TIMES_RECORDED,
    DeviceFigure,
)
from rightsizer.fleet.sources.series import placed, runs_of, together
from rightsizer.model.dcgm_fields import DcgmField
from rightsizer.model.values import PIPES, Condition, Device, Signal, Unit, convert, seconds


def boards_of(devices: Iterable[Device]) -> tuple[str, ...]:
    """Return the uuids of GPUs, including those of instances."""
    return tuple(sorted({device.board_uuid for device in devices}))


class Stretch(Struct, frozen=True):
    """Intervals of a grid, last inclusive, and whether they were recorded."""

    first: int
    last: int
    is_recorded: bool = False


class DayQueries(Struct, frozen=True):
    """Queries of each metric by interval and device."""

    store: MetricStore
    grid: Grid
    uuids: tuple[str, ...]
    """Of whole GPUs; the series of their instances have them too."""
    uuid_labels: tuple[str, ...]
    divided: frozenset[str] = frozenset()
    """Metrics split among the series of their holders."""
    recorded: frozenset[str] = frozenset()
    """Names of recorded series that may replace samples."""
    stretches: tuple[Stretch, ...] = ()
    """Of the grid, by whether they were recorded; those of `recorded`."""

    def read(self, figure: DeviceFigure, metrics: Collection[str]) -> list[SampledSeries]:
        """Read a figure of each metric, by interval.

        If holders' series have parts of a mean, the device's own series with the total is included
        and larger; it is not recorded.
        """
        answers: list[SampledSeries] = []
        for name in metrics:
            of_metric = figure.of(name)
            is_divided = figure is MEAN and name in self.divided
            is_recorded = of_metric.recorded_name in self.recorded and not is_divided
            for stretch in self.stretches if is_recorded else (self._whole,):
                answers += self._asked(of_metric, stretch)
            if is_divided:
                answers += self._asked(OWN_MEAN.of(name), self._whole)
        return answers

    def where_recorded(self, names: Collection[str]) -> tuple[Self, AbstractSet[str]]:
        """Return the same with recorded series where samples of some of them exist.

        Also returns these devices; nothing was recorded for others.
        """
        answers = (self._asked(TIMES_RECORDED.of(name), self._whole) for name in names)
        sampled_series = [*chain.from_iterable(answers)]
        times = placed(sampled_series, self.grid, 0.0).max(axis=0, initial=0.0)
        runs = runs_of(np.where(times >= self.grid.step // RECORDED_STEP, 1, 2))
        stretches = tuple(Stretch(first, last, value == 1) for first, last, value in runs)
        entities = filter(None, (dcgm.device_of(series.labels) for series in sampled_series))
        return replace(self, stretches=stretches), {entity.device for entity in entities}

    @property
    def _whole(self) -> Stretch:
        return Stretch(0, self.grid.count - 1)

    def _asked(self, figure: DeviceFigure, stretch: Stretch) -> Iterator[SampledSeries]:
        grid = self.grid
        first, last = (grid.time(place + 1) for place in (stretch.first, stretch.last))
        form = figure.forms[0 if stretch.is_recorded else -1]
        for label in self.uuid_labels:
            promql = figure.query(form, {label: self.uuids}, grid.step)
            yield from self.store.range(promql, first, last, grid.step)


_VIOLATIONS: Final = {
    Condition.POWER_THROTTLED: dcgm.POWER_VIOLATION,
    Condition.THERMAL_THROTTLED: dcgm.THERMAL_VIOLATION,
}
_STALL_COUNTERS: Final = (Signal.DRAM_ACTIVE, *PIPES)
"""Counters of memory and pipes. Where any is known, they alone tell a stall; where none is, the
memory controller does: see `_HAS_COUNTERS` of `accounting/definitions.py`."""
_LARGEST: Final = float(np.finfo(float).max)
_AT_WORK: Final = 0.5
"""Alternative reading of the same quantity above which a 0 means a dead counter."""


def by_device(
    answer: Iterable[SampledSeries],
    grid: Grid,
    rows: Mapping[str, int],
    *,
    is_of_card: bool = False,
) -> Floats:
    """Return an answer with a row per device; of several series of one, the largest value.

    With `is_of_card`, values apply to the whole GPU even if labeled with a MIG instance.
    """
    values = np.full((len(rows), grid.count), np.nan)
    places = list[int]()
    kept = []
    for series in answer:
        entity = dcgm.device_of(series.labels)
        if entity is not None and not (is_of_card and entity.is_instance) and entity.device in rows:
            places.append(rows[entity.device])
            kept.append(series)
    if len(set(places)) == len(places):
        values[places] = placed(kept, grid)
    else:  # Much slower.
        np.fmax.at(values, np.array(places), placed(kept, grid))
    return values


def alive(values: Floats, former: Floats) -> Floats:
    """Return the first values, replaced where their counter is dead.

    A profiling counter may fail and read 0 permanently, while the driver's own figure continues
    (dcgm-exporter#662).
    """
    return np.where((values == 0.0) & (former >= _AT_WORK), former, values)


def plausible_values(values: Floats, field: DcgmField, signal: Signal) -> Floats:
    """Return values in base units, without implausible ones such as DCGM's blanks."""
    _, factor = convert(field.unit)
    low, high = signal.bounds
    scaled = values * factor
    scaled = np.where((scaled >= low) & (scaled <= min(high, _LARGEST)), scaled, np.nan)
    return np.minimum(scaled, 1.0) if signal.unit is Unit.RATIO else scaled


class _FieldReader(Struct, frozen=True):
    """Reads fields of devices, of each as far as others leave something open."""

    queries: DayQueries
    metrics: AbstractSet[str]
    devices: Sequence[Device]
    is_known: Floats
    """By device and interval, whether it counts."""

    def column(
        self, figure: DeviceFigure, field: DcgmField, is_asked: Floats | None = None
    ) -> Floats | None:
        """Return a figure of a field, for some devices or all; `None` if no device exports it."""
        names = dcgm.spelled(field, self.metrics)
        if not names or field.signal is None:
            return None
        rows = {device.uuid: row for row, device in enumerate(self.devices)}
        some = self.devices if is_asked is None else compress(self.devices, is_asked)
        boards = boards_of(some)
        answer = replace(self.queries, uuids=boards).read(figure, names) if boards else ()
        values = by_device(answer, self.queries.grid, rows, is_of_card=field.is_of_card)
        values = plausible_values(values, field, field.signal)
        return values if is_asked is None else np.where(is_asked[:, None], values, np.nan)

    def signals(
        self, fields: Iterable[DcgmField], *figures: DeviceFigure
    ) -> Iterator[dict[Signal, Floats]]:
        """Yield some figures by signal; if several fields map to one, the highest rank wins.

        Of devices at 0 throughout by the first figure, the others are the same.
        """
        columns: tuple[dict[Signal, Floats], ...] = tuple({} for _ in figures)
        for field in sorted(fields, key=lambda field: -field.rank):
            if (signal := field.signal) is None:
                continue
            better = columns[0].get(signal)
            # The engines of one GPU map to one signal, of which the busiest counts.
            both = np.maximum if signal is Signal.JPEG else alive
            # A dead counter reads 0, so that only what is above is certain.
            is_settled = False if better is None or both is np.maximum else better > 0.0
            is_asked = np.asarray((self.is_known & ~np.asarray(is_settled)).any(axis=1))
            first: Floats | None = None
            for by_signal, figure in zip(columns, figures, strict=True):
                if (values := self.column(figure, field, is_asked)) is None:
                    break
                if first is None:
                    first = values
                    is_asked = np.asarray((first > 0.0).any(axis=1))
                else:
                    values = np.where(is_asked[:, None], values, first)
                former = by_signal.get(signal)
                by_signal[signal] = values if former is None else together(former, values, both)
        yield from columns


def read_devices(
    queries: DayQueries,
    metrics: AbstractSet[str],
    devices: Sequence[Device],
    series_at_once: Floats,
    is_known: Floats,
) -> DeviceReadings:
    """Read everything that a day's queries return, a row each device.

    Increases of counters that several series repeat at once are divided by their number; `is_known`
    has the intervals that count.
    """
    reader = _FieldReader(queries, metrics, devices, is_known)
    means, peaks = reader.signals(dcgm.PEAKED, MEAN, PEAK)
    unread = np.full(is_known.shape, np.nan)
    work = reduce(np.fmax, (means.get(signal, unread) for signal in _STALL_COUNTERS))
    is_dead = (work == 0.0) & ~(means.get(Signal.GPU_BUSY, unread) == 0.0)
    is_open = np.asarray((is_known & (np.isnan(work) | is_dead)).any(axis=1))
    if (busy := reader.column(MEAN, dcgm.MEMORY_CONTROLLER, is_open)) is not None:
        means[Signal.MEMORY_CONTROLLER_BUSY] = busy
    read = DeviceReadings(means, peaks)
    # Exporters of one fleet may spell them differently.
    highest, mean, lowest = reader.signals(dcgm.REASONS, PEAK, MEAN, LOWEST)
    if highest:
        parts = (by_signal[Signal.CLOCK_EVENT_REASONS] for by_signal in (mean, highest, lowest))
        read.reasons = ThrottleReasons(*parts)
    if (energy := reader.column(GAINED, dcgm.ENERGY)) is not None:
        read.energy_joules = energy / series_at_once
    for condition, dcgm_field in _VIOLATIONS.items():
        if (gained := reader.column(GAINED, dcgm_field)) is not None:
            length = seconds(queries.grid.step)
            read.violations[condition] = gained / length / series_at_once
    return read


def part_watts(
    queries: DayQueries, metrics: AbstractSet[str], parts: Mapping[int, Device], rows: int
) -> Floats:
    """Return what MIG instances draw, by row: their part of the power of their whole GPU.

    Exporters repeat the GPU's power for each of its instances (dcgm-exporter#317).
    """
    watts = np.full((rows, queries.grid.count), np.nan)
    by_board: dict[str, Floats] = {}
    for wanted in dcgm.MEASURED:
        names = dcgm.spelled(wanted, metrics)
        if wanted.signal is not Signal.POWER_WATTS or not names:
            continue
        answer = queries.read(MEAN, names)
        columns = plausible_values(placed(answer, queries.grid), wanted, wanted.signal)
        for series, column in zip(answer, columns, strict=True):
            if (entity := dcgm.device_of(series.labels)) is not None:
                board = entity.whole or entity.device
                by_board[board] = np.fmax(column, by_board.get(board, np.nan))
    for row, device in parts.items():
        if device.board_uuid in by_board:
            watts[row] = by_board[device.board_uuid] * device.capacity_ratio
    return watts
