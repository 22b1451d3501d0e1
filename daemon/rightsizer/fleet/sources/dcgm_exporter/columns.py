"""Answers as columns: a value for each stretch of a day, by device."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Final, TypeAlias

from rightsizer.domain.dcgm_names import DcgmField
from rightsizer.domain.plausible import plausible
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import convert
from rightsizer.fleet.kept.grid import Grid
from rightsizer.fleet.sources.dcgm_exporter.labels import device_of
from rightsizer.fleet.sources.placing import placed
from rightsizer.fleet.store import Sampled

__all__ = ["Columns", "believed", "by_device", "joined"]

_AT_WORK: Final = 0.5
"""Of another reading of the same thing, from which on a 0 is not believed."""

Columns: TypeAlias = "dict[str, array[float]]"
"""By device; `nan` where nothing is known."""


def by_device(answer: Iterable[Sampled], grid: Grid, *, is_of_card: bool = False) -> Columns:
    """The columns of an answer; of several series of one device, the largest value.

    Args:
        answer: Series with the labels that tell devices apart.
        grid: The stretches.
        is_of_card: Whether it tells of the whole GPU even where a MIG instance's labels are on it.
    """
    found: Columns = {}
    for series in answer:
        entity = device_of(series.labels)
        if entity is None or (is_of_card and entity.is_instance):
            continue
        column = placed(series, grid)
        former = found.get(entity.device)
        found[entity.device] = column if former is None else _largest(former, column)
    return found


def believed(columns: Columns, field: DcgmField, signal: Signal) -> Columns:
    """The columns in base units, without what cannot be true: DCGM's blanks among the samples."""
    _, factor = convert(field.unit)
    return {
        device: array("d", (_believed(signal, value * factor) for value in column))
        for device, column in columns.items()
    }


def joined(preferred: Columns, other: Columns) -> Columns:
    """One for each device: the preferred value where it is known and can be.

    A profiling counter may die and read 0 for good, while the driver's own figure goes on
    (dcgm-exporter#662).
    """
    found = dict(other)
    for device, column in preferred.items():
        former = found.get(device)
        if former is not None:
            pairs = zip(column, former, strict=True)
            column = array("d", (b if _is_out(a, b) else a for a, b in pairs))  # noqa: PLW2901
        found[device] = column
    return found


def _is_out(value: float, other: float) -> bool:
    return math.isnan(value) or (value == 0.0 and other >= _AT_WORK)


def _believed(signal: Signal, value: float) -> float:
    if math.isnan(value):
        return value
    found = plausible(signal, value)
    return math.nan if isinstance(found, Missing) else found


def _largest(one: array[float], other: array[float]) -> array[float]:
    return array(
        "d",
        (b if math.isnan(a) or b > a else a for a, b in zip(one, other, strict=True)),
    )
