"""What was measured, as names and values for a reader."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.units import format_duration
from rightsizer.publish.web.view.words import percent, spoken

__all__ = ["Fact", "facts_of"]

_GIB: Final = 2.0**30
_UNITS: Final = {
    "watts": "W",
    "celsius": "°C",
    "hertz": "Hz",
    "joules": "J",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what it is worth."""

    name: str
    value: str


def facts_of(evidence: Mapping[str, object], names: Mapping[str, str]) -> tuple[Fact, ...]:
    """The evidence of a finding; devices go by the names they have on the page."""
    return tuple(
        Fact(spoken(_plain_name(name)), _value(_unit(name), value, names))
        for name, value in evidence.items()
    )


def _unit(name: str) -> str:
    """The unit at the end of a name, empty where there is none."""
    last = name.rpartition("_")[2]
    return last if last in {"ratio", "seconds", "bytes", *_UNITS} else ""


def _plain_name(name: str) -> str:
    unit = _unit(name)
    return name.removesuffix(f"_{unit}") if unit else name


def _value(unit: str, value: object, names: Mapping[str, str]) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(unit, float(value))
    if isinstance(value, Mapping):
        parts = (
            f"{names.get(str(key)) or spoken(_plain_name(str(key))).lower()} "
            f"{_value(_unit(str(key)) or unit, inside, names)}"
            for key, inside in value.items()
        )
        return ", ".join(parts) or "none"
    if isinstance(value, (list, tuple, set, frozenset)):
        between = "; " if any(isinstance(each, Mapping) for each in value) else ", "
        return between.join(_value(unit, inside, names) for inside in value) or "none"
    return names.get(str(value), str(value))


def _number(unit: str, value: float) -> str:
    if unit == "ratio":
        return percent(value)
    if unit == "seconds":
        return format_duration(value) if value >= 0 else f"{value:,.4g} s"
    if unit == "bytes":
        return f"{value / _GIB:,.3g}\u00a0GiB"
    number = f"{value:,.4g}" if abs(value) < 1e4 or value % 1 else f"{value:,.0f}"  # noqa: PLR2004 - what `g` would write with an exponent.
    return f"{number}\u00a0{_UNITS[unit]}" if unit else number
