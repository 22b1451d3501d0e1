"""How a threshold is declared: a field of a frozen dataclass with its unit, bounds and source.

`config/` turns such classes into a validated file format, a JSON schema and
documentation; nothing else in the program holds a number that an operator may want to change.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from rightsizer.model.frozen import Field, dataclass, field, fields

_DESCRIPTION: Final = "description"
"""The key of a setting's help, unit, limits and source, before its name is known."""
_IS_LIVE: Final = "is_live"
_ANY: Final = (None, None)
_WITHIN: Final[Mapping[str, tuple[float | None, float | None]]] = MappingProxyType(
    {"ratio": (0, 1), "seconds": (0, None), "bytes": (0, None)}
)
_ATTRIBUTE: Final = re.compile(r"^(\w+): (.*(?:\n {4}.*)*)", re.MULTILINE)
LIVE: Final[Mapping[str, Any]] = MappingProxyType({_IS_LIVE: True})
"""The metadata of a group of settings that a reload puts in force, without a restart."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a setting beside its default."""

    help: str
    unit: str
    minimum: float | None
    maximum: float | None
    source: str


def setting(  # noqa: PLR0913 - one keyword for each thing that a setting may tell.
    default: Any,
    *,
    help: str = "",  # noqa: A002 - argparse uses the same word.
    unit: str | None = None,
    within: tuple[float | None, float | None] | None = None,
    source: str = "",
    is_live: bool | None = None,
) -> Any:
    """A dataclass field that an operator may set.

    What it does is said by the docstring of its class, under `Attributes:`, as is where its default
    comes from, in a line that begins with `Source:`. A field that several classes share says both
    itself, by `help` and `source`.

    Args:
        default: The value where the operator says nothing.
        help: One sentence that says what the setting does.
        unit: `ratio`, `seconds`, `bytes`, `watts`; empty for text and switches; by default what
            the field's name ends with. A field in seconds is a float and is written as a
            duration (`10m`) in the configuration, one in bytes as a size (`512MiB`), both
            without the unit at the end of their names.
        within: The smallest and the largest value allowed, `None` where there is no end; by
            default a ratio is from 0 to 1, and seconds and bytes are not negative.
        source: Where the default comes from: a paper, a document, a data file.
        is_live: Whether a reload puts it in force; as the group says that it stands in without.
    """
    metadata: dict[str, Any] = {_DESCRIPTION: (help, unit, within, source)}
    if is_live is not None:
        metadata[_IS_LIVE] = is_live
    if isinstance(default, (list, dict, set)):
        raise TypeError("a setting's default must be immutable")
    if isinstance(default, MappingProxyType):
        # Read-only, but without a hash before Python 3.12, so that dataclasses refuse it.
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_class(
    name: str, module: str, words: str, parts: Iterable[tuple[str, Any, Any]]
) -> Any:
    """A class of settings that a table names: a key, a type and a field each.

    So that what has settings is registered in one place.
    """
    names: dict[str, Any] = {"__doc__": words, "__module__": module, "__annotations__": {}}
    for key, hint, each in parts:
        names["__annotations__"][key], names[key] = hint, each
    return dataclass(type(name, (), names), frozen=True, slots=True)


def group(settings: type) -> Any:
    """A field that groups other settings."""
    return field(default_factory=settings)


def bounds_of(settings: type) -> dict[str, Bounds]:
    """The bounds of each setting of a class, by the field's name; groups of settings have none."""
    described, found = _described(settings), {}
    for declared in fields(settings):
        if _DESCRIPTION in declared.metadata:
            help_text, unit, within, source = declared.metadata[_DESCRIPTION]
            documented = described.get(declared.name, ("", ""))
            if unit is None:
                unit = next((each for each in _WITHIN if declared.name.endswith(f"_{each}")), "")
            minimum, maximum = within or _WITHIN.get(unit, _ANY)
            found[declared.name] = Bounds(
                help_text or documented[0], unit, minimum, maximum, source or documented[1]
            )
    return found


def _described(settings: type) -> dict[str, tuple[str, str]]:
    """What the docstrings of a class and its bases say of each attribute, and its source."""
    found = {}
    for each in reversed(settings.__mro__[:-1]):
        _, _, attributes = (each.__doc__ or "").partition("Attributes:\n")
        for name, text in _ATTRIBUTE.findall(inspect.cleandoc(f"\n{attributes}")):
            help_text, _, source = " ".join(text.split()).partition(" Source: ")
            found[name] = help_text, source
    return found


def is_live(declared: "Field[Any]") -> bool | None:
    """Whether a reload puts a dataclass field in force; `None` where its group decides."""
    return cast(bool | None, declared.metadata.get(_IS_LIVE))
