"""Evidence of findings as text: names without units, values with them."""

from collections.abc import Mapping
from typing import Final

from rightsizer.model.values import GIB, format_duration, percent_text
from rightsizer.report.labels import EVIDENCE_LABELS, display_name, uncapitalized

_DEVICES: Final = ("GPU-", "MIG-")
_UNITS: Final = {"watts": "W", "celsius": "°C", "hertz": "Hz", "joules": "J"}


def evidence_labels(
    evidence: Mapping[str, object], names: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the evidence as text; devices have display names if known."""
    parts = ((*_split(name), value) for name, value in evidence.items())
    return tuple(
        (EVIDENCE_LABELS.get(plain) or display_name(plain), value_label(unit, value, names))
        for plain, unit, value in parts
    )


def _split(name: str) -> tuple[str, str]:
    """Split the unit off a name; empty if it has none."""
    plain, _, last = name.rpartition("_")
    is_unit = last in {"ratio", "seconds", "bytes", *_UNITS}
    return (plain or name, last) if is_unit else (name, "")


def value_label(unit: str, value: object, names: Mapping[str, str]) -> str:
    """Format a value of a unit such as `ratio` or `seconds`, or of none."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(unit, float(value))
    if isinstance(value, Mapping):
        items = ((str(key), *_split(str(key)), inside) for key, inside in value.items())
        parts = (
            f"{names.get(key) or _subject(key, name)} {value_label(stated or unit, inside, names)}"
            for key, name, stated, inside in items
        )
        return ", ".join(parts) or "none"
    if isinstance(value, (list, tuple, set, frozenset)):
        between = "; " if any(isinstance(element, Mapping) for element in value) else ", "
        return between.join(value_label(unit, inside, names) for inside in value) or "none"
    return names.get(str(value), str(value))


def _subject(key: str, name: str) -> str:
    return key if key.startswith(_DEVICES) else uncapitalized(display_name(name))


def _number(unit: str, value: float) -> str:
    if unit == "ratio":
        return percent_text(value)
    if unit == "seconds":
        return format_duration(value) if value >= 0 else f"{value:,.4g} s"
    if unit == "bytes":
        return f"{value / GIB:,.3g}\u00a0GiB"
    number = f"{value:,.4g}" if abs(value) < 1e4 or value % 1 else f"{value:,.0f}"  # noqa: PLR2004 - what `g` would write with an exponent.
    return f"{number}\u00a0{_UNITS[unit]}" if unit else number
