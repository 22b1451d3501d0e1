"""Faults of a configuration in an operator's words: what is wrong, and how to write it."""

from collections.abc import Iterable
from typing import Final

from rightsizer.config.shape import Group, Many, Named, Nullable, Scalar, Shape
from rightsizer.config.spelling import show, spell
from rightsizer.config.validator import Fault, FaultKind
from rightsizer.io.near import near_words

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


def limits(scalar: Scalar) -> str:
    """The bounds in words: `at least 1s and at most 1h`; empty where there are none."""
    return " and ".join(
        f"{words} {_spell_limit(limit, scalar)}"
        for words, limit in (("at least", scalar.minimum), ("at most", scalar.maximum))
        if limit is not None
    )


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


def explain(fault: Fault, root: Group) -> str:
    """What is wrong at the fault's place and how to mend it."""
    if fault.kind is FaultKind.UNKNOWN_KEY:
        around = _shape_at(root, fault.path[:-1])
        return _unknown_key(str(fault.path[-1]), around, fault.value)
    if fault.kind is FaultKind.MISSING:
        return f"is required ({kind(_shape_at(root, fault.path))})"
    if fault.kind is FaultKind.KEY_TYPE:
        return "a key must be text; put it in quotes"
    shape = _shape_at(root, fault.path)
    if isinstance(shape, Scalar) and fault.kind is FaultKind.CHOICE:
        text = f"must be one of {', '.join(shape.choices)} (got {show(fault.value)})"
        nearest = near_words(str(fault.value).lower(), shape.choices)
        return f"{text}; did you mean '{nearest[0]}'?" if nearest else text
    if isinstance(shape, Scalar) and fault.kind is FaultKind.BOUNDS:
        return f"must be {limits(shape)} (got {show(spell(fault.value, shape))})"
    if fault.kind is FaultKind.TYPE:
        words = kind(shape)
        article = "" if words.startswith(("text", "true", "one of")) else "a "
        return f"must be {article}{words} (got {show(fault.value)}){_remedy(fault, shape)}"
    return fault.message


def _shape_at(root: Shape, path: Iterable[str | int]) -> Shape:
    shape = _value_of(root)
    for step in path:
        match shape:
            case Group() if step in shape.by_key:
                shape = _value_of(shape.by_key[str(step)].shape)
            case Many(inner) | Named(inner):
                shape = _value_of(inner)
    return shape


def _value_of(shape: Shape) -> Shape:
    return shape.inner if isinstance(shape, Nullable) else shape


def _unknown_key(key: str, around: Shape, value: object) -> str:
    known = list(around.by_key) if isinstance(around, Group) else []
    above, _, below = key.rpartition(".")
    if above and isinstance(around, Group) and _has_key(around, key.split(".")):
        above = "".join(f"{each}: {{" for each in above.split("."))
        text = value if isinstance(value, str) else show(value)
        return f"keys nest; write it like {above}{below}: {text}{'}' * key.count('.')}"
    nearest = near_words(key.lower(), known)
    if nearest:
        return f"unknown key; did you mean '{nearest[0]}'?"
    return f"unknown key; known keys: {', '.join(known) or 'none'}"


def _has_key(group: Shape, path: list[str]) -> bool:
    for step in path:
        if not isinstance(group, Group) or step not in group.by_key:
            return False
        group = _value_of(group.by_key[step].shape)
    return True


def _remedy(fault: Fault, shape: Shape) -> str:
    if isinstance(shape, Scalar) and not isinstance(fault.value, list | dict | None):
        if shape.type is str:
            return "; put it in quotes"
        if isinstance(fault.value, str) and _is_number(fault.value) and shape.type is not bool:
            return "; write it in digits without quotes"
    if isinstance(shape, Many) and isinstance(fault.value, str | int | float):
        is_text = isinstance(shape.item, Scalar) and shape.item.type is str
        return f"; write it like [{show(str(fault.value) if is_text else fault.value)}]"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
