"""What a value may be, in words: for faults, for the example and for the reference."""

from typing import Final

from rightsizer.config.shape import Group, Many, Named, Nullable, Scalar, Shape
from rightsizer.config.spelling import spell

_KINDS: Final = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def kind(shape: Shape) -> str:
    """What stands there: `duration`, `list of text`, `one of auto, json`."""
    match shape:
        case Group():
            return "mapping"
        case Nullable(inner):
            return f"{kind(inner)} or null"
        case Many(item):
            return f"list of {_plural(item)}"
        case Named(value):
            return f"mapping of names to {_plural(value)}"
        case Scalar():
            return _scalar_kind(shape)


def limits(shape: Shape) -> str:
    """The bounds in words: `at least 1s and at most 1h`; empty where there are none."""
    match shape:
        case Nullable(inner) | Many(inner) | Named(inner):
            return limits(inner)
        case Group():
            return ""
        case Scalar():
            return " and ".join(
                f"{words} {_spell_limit(limit, shape)}"
                for words, limit in (("at least", shape.minimum), ("at most", shape.maximum))
                if limit is not None
            )


def remark(shape: Shape) -> str:
    """Kind and bounds in one sentence, such as `Duration, at least 1s and at most 1h`."""
    text = ", ".join(filter(None, (kind(shape), limits(shape))))
    return f"{text[:1].upper()}{text[1:]}."


def _plural(shape: Shape) -> str:
    words = kind(shape)
    is_countable = words in ("mapping", "duration", "size", "number", "whole number")
    return f"{words}s" if is_countable else words


def _scalar_kind(scalar: Scalar) -> str:
    if scalar.choices:
        return "one of " + ", ".join(scalar.choices)
    if scalar.is_duration:
        return "duration"
    if scalar.is_size:
        return "size"
    name = _KINDS[scalar.type]
    return f"{name} in {scalar.unit}" if scalar.unit not in ("", "ratio", "count") else name


def _spell_limit(limit: float, scalar: Scalar) -> object:
    if scalar.is_duration or scalar.is_size:
        return spell(limit, scalar)
    return int(limit) if limit == int(limit) else limit
