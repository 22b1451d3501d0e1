"""Declaration of settings: dataclass fields with unit, bounds and source.

`config/` turns such classes into a validated file format, a JSON schema and documentation. No
other place in the program holds a number that an operator may want to change.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from rightsizer.model.frozen import Field, dataclass, field, fields

_DESCRIPTION: Final = "description"
"""Metadata key of help, unit, limits and source, before the field's name is known."""
_IS_LIVE: Final = "is_live"
_ANY: Final = (None, None)
_WITHIN: Final[Mapping[str, tuple[float | None, float | None]]] = MappingProxyType(
    {"ratio": (0, 1), "seconds": (0, None), "bytes": (0, None)}
)
_ATTRIBUTE: Final = re.compile(r"^(\w+): (.*(?:\n {4}.*)*)", re.MULTILINE)
LIVE: Final[Mapping[str, Any]] = MappingProxyType({_IS_LIVE: True})
"""Metadata of a settings group that a reload applies without a restart."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Unit and limits of a setting."""

    unit: str
    minimum: float | None
    maximum: float | None


@dataclass(frozen=True, slots=True)
class Description:
    """Effect of a setting and origin of its default."""

    help: str
    source: str


def key_in_file(name: str, bounds: Bounds | None) -> str:
    """Return a field's key; without the unit where values are written with it."""
    if bounds is not None and bounds.unit in ("seconds", "bytes"):
        return name.removesuffix(f"_{bounds.unit}")
    # A field name cannot be a Python keyword, a key can.
    return name.removesuffix("_")


def setting(  # noqa: PLR0913 - one keyword for each thing that a setting may tell.
    default: Any,
    *,
    help: str = "",  # noqa: A002 - argparse uses the same word.
    unit: str | None = None,
    within: tuple[float | None, float | None] | None = None,
    source: str = "",
    is_live: bool | None = None,
) -> Any:
    """Declare a dataclass field that an operator may set.

    The class docstring describes the setting under `Attributes:` and names the source of its
    default in a line that begins with `Source:`. A field shared by several classes states both
    itself, in `help` and `source`.

    Args:
        default: Value if the operator sets none.
        help: Effect of the setting, in one sentence.
        unit: `ratio`, `seconds`, `bytes`, `watts`; empty for text and switches; by default derived
            from the end of the field's name. A field in seconds is a float, written as a duration
            (`10m`) in the configuration, and one in bytes is written as a size (`512MiB`), both
            without the unit at the end of their names.
        within: Minimum and maximum, `None` for unlimited; by default ratios are limited to 0..1,
            and seconds and bytes must not be negative.
        source: Origin of the default: a paper, a document, a data file.
        is_live: Whether a reload applies it; by default inherited from its group.
    """
    metadata: dict[str, Any] = {_DESCRIPTION: (help, unit, within, source)}
    if is_live is not None:
        metadata[_IS_LIVE] = is_live
    if isinstance(default, (list, dict, set)):
        raise TypeError("a setting's default must be immutable")
    if isinstance(default, MappingProxyType):
        # Read-only, but not hashable before Python 3.12, so dataclasses reject it.
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_class(
    name: str,
    module: str,
    words: str,
    parts: Iterable[tuple[str, Any, Any]],
    base: type = object,
) -> Any:
    """Build a settings class from a table of keys, types and fields.

    Lets features register their settings in a single place.
    """
    names: dict[str, Any] = {"__doc__": words, "__module__": module, "__annotations__": {}}
    for key, hint, each in parts:
        names["__annotations__"][key] = hint
        names[key] = each
    return dataclass(type(name, (base,), names), frozen=True, slots=True)


def group(settings: type) -> Any:
    """Declare a field that groups other settings."""
    return field(default_factory=settings)


def bounds_of(settings: type) -> dict[str, Bounds]:
    """Bounds of each setting of a class by field name; groups have none."""
    found = {}
    for declared in fields(settings):
        if _DESCRIPTION in declared.metadata:
            _, unit, within, _ = declared.metadata[_DESCRIPTION]
            if unit is None:
                unit = next((each for each in _WITHIN if declared.name.endswith(f"_{each}")), "")
            found[declared.name] = Bounds(unit, *(within or _WITHIN.get(unit, _ANY)))
    return found


def descriptions_of(settings: type) -> dict[str, Description]:
    """Description of each setting of a class by field name; groups have none.

    Parses docstrings, which takes longer than a start has: only for what people read.
    """
    documented = _documented(settings)
    found = {}
    for declared in fields(settings):
        if _DESCRIPTION in declared.metadata:
            help_text, _, _, source = declared.metadata[_DESCRIPTION]
            theirs = documented.get(declared.name, ("", ""))
            found[declared.name] = Description(help_text or theirs[0], source or theirs[1])
    return found


def _documented(settings: type) -> dict[str, tuple[str, str]]:
    """Parse help and source of each attribute from the docstrings of a class and its bases."""
    found = {}
    for each in reversed(settings.__mro__[:-1]):
        _, _, attributes = (each.__doc__ or "").partition("Attributes:\n")
        for name, text in _ATTRIBUTE.findall(inspect.cleandoc(f"\n{attributes}")):
            help_text, _, source = " ".join(text.split()).partition(" Source: ")
            found[name] = help_text, source
    return found


def is_live(declared: "Field[Any]") -> bool | None:
    """Whether a reload applies a dataclass field; `None` if its group decides."""
    return cast(bool | None, declared.metadata.get(_IS_LIVE))
