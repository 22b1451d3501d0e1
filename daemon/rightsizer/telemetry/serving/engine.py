"""How the metrics of one engine are read: its names, and what each of them counts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.serving.settings import EngineName


class MeasureKind(StrEnum):
    """How the series of a page become one number."""

    TOTAL = "total"
    """They add up: requests of all models and replicas, events since the engine started."""
    LARGEST = "largest"
    """The fullest counts: one replica whose cache is full makes its requests wait."""
    MEAN = "mean"
    """What was added since the page before, over how many times something was."""
    OCCUPANCY = "occupancy"
    """Seconds spent since the page before over the time between the two: by Little's law, how
    many were inside on average."""


@dataclass(frozen=True, slots=True)
class MeasurePart:
    """The series of one metric, or those with certain labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    factor: float = 1.0
    """Leads to the base unit; negative where the part is to be taken away."""


@dataclass(frozen=True, slots=True)
class EngineMeasure:
    """One way to read a signal."""

    signal: Signal
    kind: MeasureKind
    parts: tuple[MeasurePart, ...]
    """Those that a page has add up."""
    counts: tuple[MeasurePart, ...] = ()
    """What a mean is divided by."""

    @property
    def names(self) -> frozenset[str]:
        """Every metric that it looks at."""
        return frozenset(part.name for part in (*self.parts, *self.counts))


@dataclass(frozen=True, slots=True)
class EngineDefinition:
    """One engine's metrics; names are written with `_` where a page may have `:`."""

    name: EngineName
    prefixes: tuple[str, ...]
    """What the names of its own metrics start with."""
    measures: tuple[EngineMeasure, ...]
    """In order: of several for one signal, the first that a page can answer is taken."""
    copies: frozenset[str] = frozenset()
    """Labels that tell apart ranks which all count the same requests."""
    breakdowns: frozenset[str] = frozenset()
    """Labels whose series are parts of one without the label."""

    @property
    def names(self) -> frozenset[str]:
        """Every metric that is read."""
        return frozenset().union(*(measure.names for measure in self.measures))


MODEL_LABELS: Final = ("model_name", "model", "name")
"""Where engines say which model a series is of."""


def canonical(name: str) -> str:
    """A metric's name in the one spelling of the tables.

    Colons belong to recording rules, so that routers and newer engines write `_` in their place.
    """
    return name.replace(":", "_")


def total(signal: Signal, *parts: str | MeasurePart) -> EngineMeasure:
    """The sum of all series."""
    return EngineMeasure(signal, MeasureKind.TOTAL, _parts(parts))


def largest(signal: Signal, *parts: str | MeasurePart) -> EngineMeasure:
    """The largest of all series."""
    return EngineMeasure(signal, MeasureKind.LARGEST, _parts(parts))


def mean(signal: Signal, histogram: str, factor: float = 1.0) -> EngineMeasure:
    """The mean of what a histogram or summary took in."""
    name = canonical(histogram)
    parts = (MeasurePart(f"{name}_sum", factor=factor),)
    return EngineMeasure(signal, MeasureKind.MEAN, parts, (MeasurePart(f"{name}_count"),))


def occupancy(signal: Signal, *parts: MeasurePart) -> EngineMeasure:
    """How many were inside on average, by the seconds that they spent."""
    return EngineMeasure(signal, MeasureKind.OCCUPANCY, parts)


def _parts(parts: tuple[str | MeasurePart, ...]) -> tuple[MeasurePart, ...]:
    return tuple(MeasurePart(canonical(part)) if isinstance(part, str) else part for part in parts)
