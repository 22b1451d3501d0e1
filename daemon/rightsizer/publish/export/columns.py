"""The columns of the export, in their order: one table for every format and for the document."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

from rightsizer.domain.block import Blocks, Measure
from rightsizer.domain.state import Cause, Condition, Resource, State, Tier
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.publish.export.row import ExportRow

__all__ = ["COLUMNS", "Column", "Kind", "Value"]

Value: TypeAlias = str | tuple[str, ...] | int | float | None


class Kind(StrEnum):
    """What a column holds; any of them may be missing."""

    TEXT = "text"
    TEXTS = "texts"
    INTEGER = "integer"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its name never changes, for others build on it."""

    name: str
    kind: Kind
    help: str
    value: Callable[[ExportRow], Value]
    """Of a row; `None` where it is not known."""


_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_NANOSECOND_DIGITS: Final = 9


def _identity() -> Iterator[Column]:
    yield Column(
        "start",
        Kind.TEXT,
        "When the row begins, ISO 8601 in UTC.",
        lambda row: _iso(row.window.start),
    )
    yield Column(
        "end", Kind.TEXT, "When it ends, ISO 8601 in UTC.", lambda row: _iso(row.window.end)
    )
    yield Column(
        "start_seconds",
        Kind.NUMBER,
        "When the row begins, seconds since the epoch.",
        lambda row: seconds(row.window.start),
    )
    yield Column(
        "end_seconds",
        Kind.NUMBER,
        "When it ends, seconds since the epoch.",
        lambda row: seconds(row.window.end),
    )
    yield Column("uuid", Kind.TEXT, "The device.", lambda row: row.window.uuid)
    yield Column(
        "gpu",
        Kind.INTEGER,
        "The device's index.",
        lambda row: row.device.index if row.device else None,
    )
    yield Column(
        "model",
        Kind.TEXT,
        "The device's name.",
        lambda row: row.device.name or None if row.device else None,
    )
    yield Column(
        "mig_profile",
        Kind.TEXT,
        "The profile of a MIG instance.",
        lambda row: row.device.mig.profile if row.device and row.device.mig else None,
    )
    yield Column(
        "holders",
        Kind.TEXTS,
        "The workloads that held the device during the row.",
        lambda row: row.holders,
    )


def _time() -> Iterator[Column]:
    yield Column(
        "accounted_seconds",
        Kind.NUMBER,
        "Time that has a state; the states' seconds sum to it.",
        lambda row: seconds(row.window.accounted),
    )
    for state in State:
        yield _state(state)
    for condition in Condition:
        yield _condition(condition)
    for tier in Tier:
        yield _tier(tier)


def _state(state: State) -> Column:
    return Column(
        f"{state}_seconds",
        Kind.NUMBER,
        f"Time in the state `{state}`.",
        lambda row: seconds(row.window.states.get(state, 0)),
    )


def _condition(condition: Condition) -> Column:
    return Column(
        f"{condition}_seconds",
        Kind.NUMBER,
        f"Time in which `{condition}` held.",
        lambda row: seconds(row.window.conditions.get(condition, 0)),
    )


def _tier(tier: Tier) -> Column:
    return Column(
        f"{tier}_tier_seconds",
        Kind.NUMBER,
        f"Time that was read with the telemetry tier `{tier}`.",
        lambda row: seconds(row.window.tiers.get(tier, 0)),
    )


def _waste() -> Iterator[Column]:
    yield Column(
        "used_seconds",
        Kind.NUMBER,
        "The used part of the known time; with the wasted seconds it sums to all of it.",
        lambda row: row.window.used_seconds,
    )
    for cause in Cause:
        yield _wasted_seconds(cause)
    yield Column(
        "energy_joules",
        Kind.NUMBER,
        "What the device drew; missing where its power was not known.",
        lambda row: row.window.energy_joules or None,
    )
    yield Column(
        "used_joules",
        Kind.NUMBER,
        "The used part of the energy.",
        lambda row: row.window.used_joules if row.window.energy_joules else None,
    )
    for cause in Cause:
        yield _wasted_joules(cause)


def _wasted_seconds(cause: Cause) -> Column:
    return Column(
        f"waste_{cause}_seconds",
        Kind.NUMBER,
        f"The part of the time that was wasted for the cause `{cause}`.",
        lambda row: row.window.waste_seconds.get(cause, 0.0),
    )


def _wasted_joules(cause: Cause) -> Column:
    return Column(
        f"waste_{cause}_joules",
        Kind.NUMBER,
        f"The part of the energy that was wasted for the cause `{cause}`.",
        lambda row: row.window.waste_joules.get(cause, 0.0) if row.window.energy_joules else None,
    )


def _use() -> Iterator[Column]:
    for resource in Resource:
        for word, share in _QUANTILES:
            yield _quantile(resource, word, share)
        yield _maximum(resource)
        yield _saturated(resource)
        yield _pressed(resource)
    for measure in Measure:
        yield from _measured(measure)


def _quantile(resource: Resource, word: str, share: float) -> Column:
    return Column(
        f"{resource}_{word}_ratio",
        Kind.NUMBER,
        f"P{word[1:]} of the share of {_words(resource)} in use, {_over(resource)}; 0 to 1.",
        lambda row: found.quantile(share) if (found := row.window.demands.get(resource)) else None,
    )


def _maximum(resource: Resource) -> Column:
    return Column(
        f"{resource}_max_ratio",
        Kind.NUMBER,
        f"The largest share of {_words(resource)} in use, {_over(resource)}; 0 to 1.",
        lambda row: found.maximum() if (found := row.window.demands.get(resource)) else None,
    )


def _saturated(resource: Resource) -> Column:
    return Column(
        f"{resource}_saturated_seconds",
        Kind.NUMBER,
        f"Time in which {_words(resource)} was at its limit.",
        lambda row: seconds(row.window.saturated.get(resource, 0)),
    )


def _pressed(resource: Resource) -> Column:
    return Column(
        f"{resource}_pressed_seconds",
        Kind.NUMBER,
        f"Time in which the application was short of {_words(resource)}.",
        lambda row: seconds(row.window.pressed.get(resource, 0)),
    )


def _measured(measure: Measure) -> Iterator[Column]:
    unit = "bytes" if measure is Measure.MEMORY_BYTES else "ratio"
    stem = measure.removesuffix("_bytes")
    what = "device memory in use" if unit == "bytes" else f"`{measure}`"

    yield Column(
        f"{stem}_mean_{unit}",
        Kind.NUMBER,
        f"Mean of {what} over the known time, idle or not.",
        lambda row: _mean_and_peak(row.window.blocks, measure)[0],
    )
    yield Column(
        f"{stem}_peak_{unit}",
        Kind.NUMBER,
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


def _words(resource: Resource) -> str:
    return resource.replace("_", " ")


def _iso(time: Nanoseconds) -> str:
    """A time to the nanosecond; digits that tell nothing are left out."""
    whole, rest = divmod(time, NANOSECONDS_PER_SECOND)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:0{_NANOSECOND_DIGITS}d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


COLUMNS: Final = (*_identity(), *_time(), *_waste(), *_use())
