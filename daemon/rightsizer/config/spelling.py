"""Spelling of values: durations, sizes, ratios, and placeholders in braces."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from rightsizer.config.shape import Group, Many, Named, Nullable, Parsed, Scalar, Shape, Tagged
from rightsizer.model.units import Unit, convert, parse_amount, parse_duration

_NUMBER_AND_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")
_MILLISECONDS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_MICROSECONDS: Final = 1_000_000
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_SHOWN_CHARACTERS: Final = 60
_WORD: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def parse_seconds(value: Any) -> float:
    """Parse a duration in a file into seconds; the only bare number allowed is 0.

    Raises:
        ValueError: not a duration.
    """
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value == 0:
            return 0.0
        raise ValueError(f"{value} has no unit; write it like '{value:g}s' or '10m'")
    raise ValueError(f"must be a duration (got {show(value)}); write it like '10m'")


def parse_number(value: Any) -> Any:
    """Parse a number that may be written like `70B`; raise `ValueError` if a text is not one."""
    try:
        number = parse_amount(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(
            f"must be a number (got {show(value)}); write it like 20, 7e9 or 7B"
        ) from None
    is_whole = isinstance(number, float) and number.is_integer()
    return int(number) if is_whole else number


def parse_size(value: Any) -> int | float:
    """Parse a size in a file into bytes; raise `ValueError` if it is not a size."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    match = _NUMBER_AND_UNIT.fullmatch(value) if isinstance(value, str) else None
    try:
        unit, factor = convert(match[2]) if match else (None, 0.0)
    except KeyError:
        unit = None
    if match is None or unit is not Unit.BYTES:
        raise ValueError(f"{show(value)} is not a size; write it like '512MiB' or in bytes")
    # Most configurations contain no size and need not import this.
    from decimal import Decimal  # noqa: PLC0415

    size = Decimal(match[1]) * Decimal(factor)
    return int(size) if size == size.to_integral_value() else float(size)


def spell_seconds(duration_seconds: float) -> str:
    """Spell a duration so that it parses to exactly these seconds."""
    from decimal import Decimal  # noqa: PLC0415 - needed only to write documents.

    exact = Decimal(repr(duration_seconds))
    rest = exact * 1000
    parts = ""
    for name, size in _MILLISECONDS:
        count, rest = divmod(rest, size)
        parts += f"{int(count)}{name}" if count else ""
    if parts and not rest and parse_duration(parts) == duration_seconds:
        return parts
    small = f"{(exact * _MICROSECONDS).normalize():f}us"
    if 0 < exact * 1000 < 1 and parse_duration(small) == duration_seconds:
        return small
    return f"{exact.normalize():f}s"


def spell_size(size_bytes: float) -> str | int | float:
    """Spell a size in the largest binary unit that divides it, else in bytes."""
    for name, size in _SIZES:
        if size_bytes and size_bytes % size == 0:
            return f"{int(size_bytes // size)}{name}"
    return size_bytes


def spell(value: Any, scalar: Scalar) -> Any:
    """Spell a value as in the file."""
    if scalar.is_duration:
        return spell_seconds(value)
    if scalar.is_size:
        return spell_size(value)
    return str(value) if isinstance(value, StrEnum) else value


def plain(value: Any, shape: Shape) -> Any:
    """Convert a value to the mappings, lists and scalars of the file."""
    match shape:
        case Group(entries=entries):
            return {entry.key: plain(getattr(value, entry.name), entry.shape) for entry in entries}
        case Many(item):
            return [plain(element, item) for element in value]
        case Named(inner):
            return {name: plain(element, inner) for name, element in value.items()}
        case Nullable(inner):
            return None if value is None else plain(value, inner)
        case Parsed(inner):
            return plain(value, inner)
        case Tagged(key, groups):
            pairs = ((word, group) for word, group in groups.items() if group.type is type(value))
            return next({key: word, **plain(value, group)} for word, group in pairs)
        case Scalar():
            return spell(value, shape)


def spell_path(path: Iterable[str | int]) -> str:
    """Spell a path as in the documentation: `policies[0].match.owner`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def escaped_line(line: str) -> str:
    """Escape control characters, so that a terminal does not interpret them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def show(value: Any) -> str:
    """Value as written by an operator, truncated to fit a line of an error."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def names_in(word: str) -> list[str]:
    """Placeholders in a word, in order."""
    return _WORD.findall(word)


def unknown_placeholders(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Placeholders that are not in `values`, without duplicates."""
    placeholders = dict.fromkeys(name for word in words for name in names_in(word))
    return tuple(name for name in placeholders if name not in values)


def is_asked_for(name: str, words: Sequence[str]) -> bool:
    """Whether any of the words contains a placeholder."""
    return any(name in names_in(word) for word in words)


def filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Substitute placeholders; each word remains one word, regardless of its value."""
    return tuple(_WORD.sub(lambda match: values[match[1]], word) for word in words)
