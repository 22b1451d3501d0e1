"""A fault in an operator's words: what is wrong, what was given, and how to write it."""

from collections.abc import Iterable

from rightsizer.config.describe import kind, limits
from rightsizer.config.shape import Group, Many, Named, Nullable, Scalar, Shape
from rightsizer.config.spelling import show, spell
from rightsizer.config.validator import Fault, FaultKind
from rightsizer.io.near import near_words


def explain(fault: Fault, root: Group) -> str:
    """What is wrong at the fault's place and how to mend it."""
    if fault.kind is FaultKind.UNKNOWN_KEY:
        around = _shape_at(root, fault.path[:-1])
        return _unknown_key(str(fault.path[-1]), around)
    if fault.kind is FaultKind.MISSING:
        return f"is required ({kind(_shape_at(root, fault.path))})"
    if fault.kind is FaultKind.KEY_TYPE:
        return "a key must be text; put it in quotes"
    shape = _shape_at(root, fault.path)
    if isinstance(shape, Scalar) and fault.kind is FaultKind.CHOICE:
        return _unknown_choice(fault.value, shape)
    if isinstance(shape, Scalar) and fault.kind is FaultKind.BOUNDS:
        return f"must be {limits(shape)} (got {show(spell(fault.value, shape))})"
    if fault.kind is FaultKind.TYPE:
        return f"must be {_article(kind(shape))} (got {show(fault.value)}){_remedy(fault, shape)}"
    return fault.message


def spell_path(path: Iterable[str | int]) -> str:
    """A path as the program's documentation writes it: `policies[0].match.owner`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


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


def _unknown_key(key: str, around: Shape) -> str:
    known = list(around.by_key) if isinstance(around, Group) else []
    nearest = near_words(key.lower(), known)
    if nearest:
        return f"unknown key; did you mean '{nearest[0]}'?"
    return f"unknown key; known keys: {', '.join(known) or 'none'}"


def _unknown_choice(value: object, scalar: Scalar) -> str:
    text = f"must be one of {', '.join(scalar.choices)} (got {show(value)})"
    nearest = near_words(str(value).lower(), scalar.choices)
    return f"{text}; did you mean '{nearest[0]}'?" if nearest else text


def _remedy(fault: Fault, shape: Shape) -> str:
    if isinstance(shape, Scalar) and not isinstance(fault.value, list | dict | None):
        if shape.type is str:
            return "; put it in quotes"
        if isinstance(fault.value, str) and _is_number(fault.value) and shape.type is not bool:
            return "; write it in digits without quotes"
    if isinstance(shape, Many) and isinstance(fault.value, str):
        return f"; write it like [{show(fault.value)}]"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _article(words: str) -> str:
    return words if words.startswith(("text", "true", "one of")) else f"a {words}"
