"""The settings that a rule went by, under the names that a configuration file has for them."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from rightsizer.domain.settings import bounds_of
from rightsizer.domain.units import Unit

__all__ = ["Threshold", "thresholds_of"]

_WRITTEN_WITH_UNIT: Final = (Unit.SECONDS, Unit.BYTES)


@dataclass(frozen=True, slots=True)
class Threshold:
    """One setting."""

    setting: str
    """Its whole name: `recommender.rules.idle.on_ratio`."""
    value: Any
    unit: str
    help: str
    source: str


def thresholds_of(settings: object, prefix: str) -> Iterator[Threshold]:
    """All settings of a class of them, those of its groups included; what is none gives none."""
    if not is_dataclass(settings):
        return
    for declared in fields(settings):
        bounds, value = bounds_of(declared), getattr(settings, declared.name)
        if bounds is not None:
            key = declared.name
            if bounds.unit in _WRITTEN_WITH_UNIT:
                key = key.removesuffix(f"_{bounds.unit}")
            name = f"{prefix}.{key.removesuffix('_')}"
            yield Threshold(name, value, bounds.unit, bounds.help, bounds.source)
        else:
            yield from thresholds_of(value, f"{prefix}.{declared.name}")
