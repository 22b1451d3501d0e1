"""Columns of the export in their order, and the row they are made of."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.window import Window
from rightsizer.report.labels import readable_name


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One device over one span of time."""

    window: Window
    device: Device | None
    """`None` where the history has forgotten what it was."""
    holders: tuple[str, ...] = ()
    """The workloads that held it at any time of the span, by their keys."""


ExportValue: TypeAlias = str | tuple[str, ...] | int | float | None


class ExportColumnKind(StrEnum):
    """What a column holds; any of them may be missing."""

    TEXT = "text"
    TEXTS = "texts"
    INTEGER = "integer"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """One column; its name never changes, for others build on it."""

    name: str
    kind: ExportColumnKind
    help: str
    value: Callable[[ExportRow], ExportValue]
    """Of a row; `None` where it is not known."""


_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_NANOSECOND_DIGITS: Final = 9


def _identity() -> Iterator[ExportColumn]:
    yield ExportColumn(
        "start",
        ExportColumnKind.TEXT,
        "When the row begins, ISO 8601 in UTC.",
        lambda row: _iso(row.window.start),
    )
    yield ExportColumn(
        "end",
        ExportColumnKind.TEXT,
        "When it ends, ISO 8601 in UTC.",
        lambda row: _iso(row.window.end),
    )
    yield ExportColumn(
        "start_seconds",
        ExportColumnKind.NUMBER,
        "When the row begins, seconds since the epoch.",
        lambda row: seconds(row.window.start),
    )
    yield ExportColumn(
        "end_seconds",
        ExportColumnKind.NUMBER,
        "When it ends, seconds since the epoch.",
        lambda row: seconds(row.window.end),
    )
    yield ExportColumn("uuid", ExportColumnKind.TEXT, "The device.", lambda row: row.window.uuid)
    yield ExportColumn(
        "gpu",
        ExportColumnKind.INTEGER,
        "The device's index.",
        lambda row: row.device.index if row.device else None,
    )
    yield ExportColumn(
        "model",
        ExportColumnKind.TEXT,
        "The device's name.",
        lambda row: row.device.name or None if row.device else None,
    )
    yield ExportColumn(
        "mig_profile",
        ExportColumnKind.TEXT,
        "The profile of a MIG instance.",
        lambda row: row.device.mig.profile if row.device and row.device.mig else None,
    )
    yield ExportColumn(
        "holders",
        ExportColumnKind.TEXTS,
        "The workloads that held the device during the row.",
        lambda row: row.holders,
    )


def _time() -> Iterator[ExportColumn]:
    yield ExportColumn(
        "accounted_seconds",
        ExportColumnKind.NUMBER,
        "Time that has a state; the states' seconds sum to it.",
        lambda row: seconds(row.window.accounted),
    )
    for state in State:
        yield _state(state)
    for condition in Condition:
        yield _condition(condition)
    for tier in Tier:
        yield _tier(tier)


def _state(state: State) -> ExportColumn:
    return ExportColumn(
        f"{state}_seconds",
        ExportColumnKind.NUMBER,
        f"Time in the state `{state}`.",
        lambda row: seconds(row.window.states.get(state, 0)),
    )


def _condition(condition: Condition) -> ExportColumn:
    return ExportColumn(
        f"{condition}_seconds",
        ExportColumnKind.NUMBER,
        f"Time in which `{condition}` held.",
        lambda row: seconds(row.window.conditions.get(condition, 0)),
    )


def _tier(tier: Tier) -> ExportColumn:
    return ExportColumn(
        f"{tier}_tier_seconds",
        ExportColumnKind.NUMBER,
        f"Time that was read with the telemetry tier `{tier}`.",
        lambda row: seconds(row.window.tiers.get(tier, 0)),
    )


def _waste() -> Iterator[ExportColumn]:
    yield ExportColumn(
        "used_seconds",
        ExportColumnKind.NUMBER,
        "The used part of the known time; with the wasted seconds it sums to all of it.",
        lambda row: row.window.used_seconds,
    )
    for cause in Cause:
        yield _wasted_seconds(cause)
    yield ExportColumn(
        "energy_joules",
        ExportColumnKind.NUMBER,
        "What the device drew; missing where its power was not known.",
        lambda row: row.window.energy_joules or None,
    )
    yield ExportColumn(
        "used_joules",
        ExportColumnKind.NUMBER,
        "The used part of the energy.",
        lambda row: row.window.used_joules if row.window.energy_joules else None,
    )
    for cause in Cause:
        yield _wasted_joules(cause)


def _wasted_seconds(cause: Cause) -> ExportColumn:
    return ExportColumn(
        f"waste_{cause}_seconds",
        ExportColumnKind.NUMBER,
        f"The part of the time that was wasted for the cause `{cause}`.",
        lambda row: row.window.waste_seconds.get(cause, 0.0),
    )


def _wasted_joules(cause: Cause) -> ExportColumn:
    return ExportColumn(
        f"waste_{cause}_joules",
        ExportColumnKind.NUMBER,
        f"The part of the energy that was wasted for the cause `{cause}`.",
        lambda row: row.window.waste_joules.get(cause, 0.0) if row.window.energy_joules else None,
    )


def _use() -> Iterator[ExportColumn]:
    for resource in Resource:
        for word, share in _QUANTILES:
            yield _quantile(resource, word, share)
        yield _maximum(resource)
        yield _saturated(resource)
        yield _pressed(resource)
    for measure in Measure:
        yield from _measured(measure)


def _quantile(resource: Resource, word: str, share: float) -> ExportColumn:
    return ExportColumn(
        f"{resource}_{word}_ratio",
        ExportColumnKind.NUMBER,
        f"P{word[1:]} of the share of {readable_name(resource)} in use, {_over(resource)}; 0 to 1.",
        lambda row: found.quantile(share) if (found := row.window.demands.get(resource)) else None,
    )


def _maximum(resource: Resource) -> ExportColumn:
    return ExportColumn(
        f"{resource}_max_ratio",
        ExportColumnKind.NUMBER,
        f"The largest share of {readable_name(resource)} in use, {_over(resource)}; 0 to 1.",
        lambda row: found.maximum() if (found := row.window.demands.get(resource)) else None,
    )


def _saturated(resource: Resource) -> ExportColumn:
    return ExportColumn(
        f"{resource}_saturated_seconds",
        ExportColumnKind.NUMBER,
        f"Time in which {readable_name(resource)} was at its limit.",
        lambda row: seconds(row.window.saturated.get(resource, 0)),
    )


def _pressed(resource: Resource) -> ExportColumn:
    return ExportColumn(
        f"{resource}_pressed_seconds",
        ExportColumnKind.NUMBER,
        f"Time in which the application was short of {readable_name(resource)}.",
        lambda row: seconds(row.window.pressed.get(resource, 0)),
    )


def _measured(measure: Measure) -> Iterator[ExportColumn]:
    unit = "bytes" if measure is Measure.MEMORY_BYTES else "ratio"
    stem = measure.removesuffix("_bytes")
    what = "device memory in use" if unit == "bytes" else f"`{measure}`"

    yield ExportColumn(
        f"{stem}_mean_{unit}",
        ExportColumnKind.NUMBER,
        f"Mean of {what} over the known time, idle or not.",
        lambda row: _mean_and_peak(row.window.blocks, measure)[0],
    )
    yield ExportColumn(
        f"{stem}_peak_{unit}",
        ExportColumnKind.NUMBER,
        f"The largest reading of {what}.",
        lambda row: _mean_and_peak(row.window.blocks, measure)[1],
    )


@lru_cache(len(Measure))
def _mean_and_peak(blocks: Blocks, measure: Measure) -> tuple[float | None, float | None]:
    """Of all the blocks of a row; two columns ask for the same."""
    found = blocks.of(measure)
    known = sum(block.known_seconds for block in found)
    mean = sum(block.mean * block.known_seconds for block in found) / known if known else None
    return mean, max((block.peak for block in found), default=None)


def _over(resource: Resource) -> str:
    if resource is Resource.MEMORY:
        return "while the device was held"
    return "while the device was active"


def _iso(time: Nanoseconds) -> str:
    """A time to the nanosecond; digits that tell nothing are left out."""
    whole, rest = divmod(time, NANOSECONDS_PER_SECOND)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:0{_NANOSECOND_DIGITS}d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


COLUMNS: Final = (*_identity(), *_time(), *_waste(), *_use())
