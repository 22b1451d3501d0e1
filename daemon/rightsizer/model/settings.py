"""Declaration of settings and documents: fields of a `Struct` with unit, bounds, help and source.

`config/` turns such classes into a validated file format, a JSON schema and documentation. No
other place in the program holds a number that an operator may want to change.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args, get_origin

from msgspec import NODEFAULT, Struct, defstruct
from msgspec.structs import fields

_ANY: Final = (None, None)
_WITHIN: Final[Mapping[str, tuple[float | None, float | None]]] = MappingProxyType(
    {"ratio": (0, 1), "seconds": (0, None), "bytes": (0, None)}
)
_ATTRIBUTE: Final = re.compile(r"^(\w+): (.*(?:\n {4}.*)*)", re.MULTILINE)


class Kinds(Struct, frozen=True):
    """Value classes of a mapping, by the word that one of its keys has."""

    key: str
    types: Mapping[str, type]
    usual: str | None = None
    """Word where the key is absent; `None` if it is required."""


class Spec(Struct, frozen=True, kw_only=True):
    """What a field may hold, as in `count: Annotated[int, Spec(within=(1, 64))] = 4`.

    A field without one has the unit of its name, and the bounds of that unit. The class docstring
    describes the field under `Attributes:` and names the source of its default in a line that
    begins with `Source:`. A field shared by several classes states both itself.

    Attributes:
        unit: `ratio`, `seconds`, `bytes`, `watts`; `amount` for a number that may be written
            `70B`; empty for text and switches; by default derived
            from the end of the field's name. A field in seconds is a float, written as a duration
            (`10m`) in the configuration, and one in bytes is written as a size (`512MiB`), both
            without the unit at the end of their names.
        within: Minimum and maximum, `None` for unlimited; by default ratios are limited to 0..1,
            and seconds and bytes must not be negative.
        kinds: The classes of which a mapping has one.
        words: The texts that are allowed, where they are no enumeration of their own.
        help: Effect of the field, in one sentence.
        source: Origin of the default: a paper, a document, a data file.
        is_live: Whether a reload applies it; by default inherited from its group.
        is_constant: Whether it is a fact of a model and no operator's choice: it is in no
            configuration and no documentation, and `--constants` overrides it for experiments.
        parse: Rewrites what a document may have in its place, such as `70B` for a number or a
            number for a mapping; its `ValueError` is the fault, with the remedy.
    """

    unit: str | None = None
    within: tuple[float | None, float | None] | None = None
    kinds: Kinds | None = None
    words: tuple[str, ...] | None = None
    help: str | None = None
    source: str | None = None
    is_live: bool | None = None
    is_constant: bool | None = None
    parse: Callable[[Any], Any] | None = None


LIVE: Final = Spec(is_live=True)
"""Of a group of settings that a reload applies without a restart."""

CONSTANT: Final = Spec(is_constant=True)
"""Of a fact of a model, such as a threshold fitted on traces, or of a group of such facts."""


class Bounds(Struct, frozen=True):
    """Unit and limits of a setting."""

    unit: str
    minimum: float | None
    maximum: float | None
    words: tuple[str, ...] = ()


class Description(Struct, frozen=True):
    """Effect of a setting and origin of its default."""

    help: str
    source: str


class DeclaredField(Struct, frozen=True):
    """Field of a settings class."""

    name: str
    hint: Any
    """Its type, without annotations."""
    default: Any
    """`msgspec.NODEFAULT` if required."""
    spec: Spec
    document_name: str = ""
    """Its key, if `msgspec.field(name=...)` gives one that Python does not allow."""

    @property
    def is_group(self) -> bool:
        """Whether it groups other settings."""
        return isinstance(self.hint, type) and issubclass(self.hint, Struct)

    @property
    def bounds(self) -> Bounds:
        """Unit and limits, by its `Spec` or else by its name."""
        return bounds_by(self.spec, self.name)

    def key(self, bounds: Bounds) -> str:
        """Its key in a file."""
        if self.document_name not in ("", self.name):
            return self.document_name
        return key_in_file(self.name, None if self.is_group else bounds)


def bounds_by(spec: Spec, name: str) -> Bounds:
    """Unit and limits by a specification, or else by the name of what it specifies."""
    unit = spec.unit
    if unit is None:
        unit = next((unit for unit in _WITHIN if name.endswith(f"_{unit}")), "")
    minimum, maximum = spec.within or _WITHIN.get(unit, _ANY)
    return Bounds(unit, _whole(minimum), _whole(maximum), spec.words or ())


def _whole(limit: float | None) -> float | None:
    """Spell 1 and 1.0 alike: `typing` takes equal annotations for the same one."""
    return limit if limit is None or limit % 1 else int(limit)


def declared_fields(settings: type) -> Iterator[DeclaredField]:
    """Fields of a settings class, in order."""
    for field in fields(settings):
        hint, spec = split_hint(field.type)
        default = field.default
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        yield DeclaredField(field.name, hint, default, spec, field.encode_name)


def split_hint(hint: Any) -> tuple[Any, Spec]:
    """Type without annotations, and the specification in them."""
    if get_origin(hint) is not Annotated:
        return hint, Spec()
    kind, *annotations = get_args(hint)
    return kind, _merged(annotation for annotation in annotations if isinstance(annotation, Spec))


def _merged(specs: Iterable[Spec]) -> Spec:
    """Merge specifications; a later one overrides what it states."""
    stated = {
        name: value
        for spec in specs
        for name in spec.__struct_fields__
        if (value := getattr(spec, name)) is not None
    }
    return Spec(**stated)


def key_in_file(name: str, bounds: Bounds | None) -> str:
    """Return a field's key; without the unit where values are written with it."""
    if bounds is not None and bounds.unit in ("seconds", "bytes"):
        return name.removesuffix(f"_{bounds.unit}")
    # A field name cannot be a Python keyword, a key can.
    return name.removesuffix("_")


def settings_class(
    name: str,
    module: str,
    words: str,
    parts: Iterable[tuple[str, Any, Any]],
    base: type[Struct] = Struct,
) -> Any:
    """Build a settings class from a table of keys, types and defaults.

    Lets features register their settings in a single place.
    """
    namespace = {"__doc__": words}
    return defstruct(name, parts, bases=(base,), module=module, namespace=namespace, frozen=True)


def bounds_of(settings: type) -> dict[str, Bounds]:
    """Bounds of each setting of a class by field name; groups have none."""
    return {
        declared.name: declared.bounds
        for declared in declared_fields(settings)
        if not declared.is_group
    }


def descriptions_of(settings: type) -> dict[str, Description]:
    """Description of each setting of a class by field name; groups have none.

    Parses docstrings, which takes longer than a start has: only for what people read.
    """
    documented = _documented(settings)
    descriptions = {}
    for declared in declared_fields(settings):
        if not declared.is_group:
            help_text, source = documented.get(declared.name, ("", ""))
            spec = declared.spec
            descriptions[declared.name] = Description(spec.help or help_text, spec.source or source)
    return descriptions


def _documented(settings: type) -> dict[str, tuple[str, str]]:
    """Parse help and source of each attribute from the docstrings of a class and its bases."""
    documented = {}
    for base in reversed(settings.__mro__[:-1]):
        _, _, attributes = (base.__doc__ or "").partition("Attributes:\n")
        for name, text in _ATTRIBUTE.findall(inspect.cleandoc(f"\n{attributes}")):
            help_text, _, source = " ".join(text.split()).partition(" Source: ")
            documented[name] = help_text, source
    return documented
