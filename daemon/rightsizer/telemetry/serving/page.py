"""One page of metrics: what an engine counted and holds at one moment."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from rightsizer.domain.errors import DriverError
from rightsizer.telemetry.serving.engine import MODEL_LABELS, Engine, Part, canonical
from rightsizer.telemetry.serving.engines import ENGINES
from rightsizer.telemetry.serving.settings import EngineName

__all__ = ["Labels", "ServingPage", "read_page"]

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""The labels of a series, by name."""

_NOTHING: Final[Mapping[Labels, float]] = {}


@dataclass(frozen=True, slots=True)
class ServingPage:
    """What an engine says, by metric and series; nothing is summed yet, since each may restart."""

    engine: Engine
    models: tuple[str, ...]
    series: Mapping[str, Mapping[Labels, float]]

    def of(self, part: Part) -> Mapping[Labels, float]:
        """The series that a part is about, as they are on the page."""
        found = self.series.get(part.name, _NOTHING)
        if not part.labels:
            return found
        wanted = set(part.labels)
        return {labels: value for labels, value in found.items() if wanted <= set(labels)}


def read_page(text: str, expected: EngineName = EngineName.AUTO) -> ServingPage:
    """What a page in Prometheus's text format says.

    Args:
        text: The page.
        expected: Which engine it is; then a page without any line is one of an engine that has
            not served a request yet.

    Raises:
        DriverError: the page is not an engine's, or of another one than expected.
    """
    names = {line: _name(line) for line in text.split("\n") if not line.startswith("#")}
    engine = _engine(frozenset(names.values()), expected, is_empty=not text.strip())
    wanted = [line for line, name in names.items() if name in engine.names]
    series: dict[str, dict[Labels, float]] = {}
    models: set[str] = set()
    for name, labels, value in _samples(wanted):
        if any(labels.get(label) for label in engine.breakdowns):
            continue
        models.update(_model(labels))
        key = _key(labels, engine)
        of_name = series.setdefault(name, {})
        # Copies of one count: whoever is furthest has seen the most.
        of_name[key] = max(value, of_name.get(key, 0.0))
    return ServingPage(engine, tuple(sorted(models)), series)


def _engine(names: frozenset[str], expected: EngineName, *, is_empty: bool) -> Engine:
    present = [
        engine for engine in ENGINES if any(name.startswith(engine.prefixes) for name in names)
    ]
    if expected is EngineName.AUTO:
        if present:
            return present[0]
        known = ", ".join(engine.name for engine in ENGINES)
        raise DriverError(f"the page has no metrics of a serving engine ({known})")
    (engine,) = (engine for engine in ENGINES if engine.name is expected)
    if engine in present or is_empty:
        return engine
    instead = f"; it looks like {present[0].name}" if present else ""
    raise DriverError(f"the page has no metrics of {expected}{instead}")


def _name(line: str) -> str:
    """The metric that a line is of."""
    return canonical("".join(line.partition("{")[0].split(None, 1)[:1]))


def _samples(lines: list[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    try:
        for family in text_string_to_metric_families("\n".join(lines)):
            for sample in family.samples:
                # Not a number, infinite and negative are no counts, whoever wrote them.
                if 0 <= sample.value <= sys.float_info.max:
                    yield canonical(sample.name), sample.labels, float(sample.value)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise DriverError(f"the page is not in Prometheus's text format: {error}") from None


def _model(labels: Mapping[str, str]) -> tuple[str, ...]:
    return next(((labels[label],) for label in MODEL_LABELS if labels.get(label)), ())


def _key(labels: Mapping[str, str], engine: Engine) -> Labels:
    dropped = engine.copies | engine.breakdowns
    return tuple(sorted(item for item in labels.items() if item[0] not in dropped))
