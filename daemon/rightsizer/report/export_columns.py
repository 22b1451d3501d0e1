"""Columns of the export in their order, and the row they are made of."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache, partial
from typing import Final, TypeAlias

from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, seconds
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
    help: str
    value: Callable[[ExportRow], ExportValue]
    """Of a row; `None` where it is not known."""
    kind: ExportColumnKind = ExportColumnKind.NUMBER


_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_NANOSECOND_DIGITS: Final = 9


def _identity() -> Iterator[ExportColumn]:
    text = ExportColumnKind.TEXT
    for name, does in (("start", "When the row begins"), ("end", "When it ends")):
        yield ExportColumn(name, f"{does}, ISO 8601 in UTC.", partial(_iso, name), text)
    for name, does in (("start", "When the row begins"), ("end", "When it ends")):
        help_text = f"{does}, seconds since the epoch."
        yield ExportColumn(f"{name}_seconds", help_text, partial(_epoch_seconds, name))
    yield ExportColumn("uuid", "The device.", lambda row: row.window.uuid, text)
    yield ExportColumn(
        "gpu",
        "The device's index.",
        lambda row: row.device.index if row.device else None,
        ExportColumnKind.INTEGER,
    )
    yield ExportColumn(
        "model",
        "The device's name.",
        lambda row: row.device.name or None if row.device else None,
        text,
    )
    yield ExportColumn(
        "mig_profile",
        "The profile of a MIG instance.",
        lambda row: row.device.mig.profile if row.device and row.device.mig else None,
        text,
    )
    yield ExportColumn(
        "holders",
        "The workloads that held the device during the row.",
        lambda row: row.holders,
        ExportColumnKind.TEXTS,
    )


def _time() -> Iterator[ExportColumn]:
    yield ExportColumn(
        "accounted_seconds",
        "Time that has a state; the states' seconds sum to it.",
        lambda row: seconds(row.window.accounted),
    )
    for state in State:
        yield _seconds(state, f"Time in the state `{state}`.", "states", state)
    for condition in Condition:
        yield _seconds(condition, f"Time in which `{condition}` held.", "conditions", condition)
    for tier in Tier:
        help_text = f"Time that was read with the telemetry tier `{tier}`."
        yield _seconds(f"{tier}_tier", help_text, "tiers", tier)


def _seconds(name: str, help_text: str, times: str, key: StrEnum) -> ExportColumn:
    """The time under a key of one of the window's mappings."""
    return ExportColumn(
        f"{name}_seconds", help_text, lambda row: seconds(getattr(row.window, times).get(key, 0))
    )


def _waste() -> Iterator[ExportColumn]:
    yield ExportColumn(
        "used_seconds",
        "The used part of the known time; with the wasted seconds it sums to all of it.",
        lambda row: row.window.used_seconds,
    )
    yield from (_wasted(cause, "seconds", "time") for cause in Cause)
    yield ExportColumn(
        "energy_joules",
        "What the device drew; missing where its power was not known.",
        lambda row: row.window.energy_joules or None,
    )
    yield ExportColumn(
        "used_joules",
        "The used part of the energy.",
        lambda row: row.window.used_joules if row.window.energy_joules else None,
    )
    yield from (_wasted(cause, "joules", "energy") for cause in Cause)


def _wasted(cause: Cause, unit: str, of: str) -> ExportColumn:
    def value(row: ExportRow) -> float | None:
        if unit == "seconds":
            return row.window.waste_seconds.get(cause, 0.0)
        return row.window.waste_joules.get(cause, 0.0) if row.window.energy_joules else None

    help_text = f"The part of the {of} that was wasted for the cause `{cause}`."
    return ExportColumn(f"waste_{cause}_{unit}", help_text, value)


def _use() -> Iterator[ExportColumn]:
    for resource in Resource:
        for word, share in _QUANTILES:
            yield _quantile(resource, word, f"P{word[1:]} of the", share)
        yield _quantile(resource, "max", "The largest", None)
        name = readable_name(resource)
        at_limit, short = (
            f"Time in which {name} was at its limit.",
            f"Time in which the application was short of {name}.",
        )
        yield _seconds(f"{resource}_saturated", at_limit, "saturated", resource)
        yield _seconds(f"{resource}_pressed", short, "pressed", resource)
    for measure in Measure:
        yield from _measured(measure)


def _quantile(resource: Resource, word: str, which: str, share: float | None) -> ExportColumn:
    """A quantile of the demand, or its maximum."""

    def value(row: ExportRow) -> float | None:
        found = row.window.demands.get(resource)
        if found is None:
            return None
        return found.maximum() if share is None else found.quantile(share)

    over = "held" if resource is Resource.MEMORY else "active"
    help_text = f"{which} share of {readable_name(resource)} in use, while the device was {over}"
    return ExportColumn(f"{resource}_{word}_ratio", f"{help_text}; 0 to 1.", value)


def _measured(measure: Measure) -> Iterator[ExportColumn]:
    unit = "bytes" if measure is Measure.MEMORY_BYTES else "ratio"
    stem = measure.removesuffix("_bytes")
    what = "device memory in use" if unit == "bytes" else f"`{measure}`"
    yield ExportColumn(
        f"{stem}_mean_{unit}",
        f"Mean of {what} over the known time, idle or not.",
        lambda row: _mean_and_peak(row.window.blocks, measure)[0],
    )
    yield ExportColumn(
        f"{stem}_peak_{unit}",
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


def _epoch_seconds(end: str, row: ExportRow) -> float:
    return seconds(getattr(row.window, end))


def _iso(end: str, row: ExportRow) -> str:
    """The start or end to the nanosecond, without trailing zeros."""
    whole, rest = divmod(getattr(row.window, end), NANOSECONDS_PER_SECOND)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:0{_NANOSECOND_DIGITS}d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


COLUMNS: Final = (*_identity(), *_time(), *_waste(), *_use())
