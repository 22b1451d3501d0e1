"""YAML with the place of every value, so that an error can point at it.

The only importer of pyyaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

__all__ = ["Document", "Path", "YamlError", "dump_yaml", "load_yaml"]

Path: TypeAlias = Sequence[str | int]
"""The keys and indices that lead to a value."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """Text that is not YAML; the message starts with `name:line:column`."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file: its data as plain Python values, and where each of them stands."""

    name: str
    data: Any
    places: dict[tuple[str | int, ...], Place]

    def where(self, path: Path) -> str:
        """`name:line:column` of a value, or of the nearest thing around it that is there."""
        keys = tuple(path)
        while keys and keys not in self.places:
            keys = keys[:-1]
        place = self.places.get(keys, Place(1, 1))
        return f"{self.name}:{place.line}:{place.column}"


# The C parser is ten times as fast and refuses and builds the same.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str, name: str) -> Document:
    """Parse YAML text; `name` is what errors call it.

    Raises:
        YamlError: the text is not YAML, repeats a key, or nests into itself.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(name, None, {})
        places: dict[tuple[str | int, ...], Place] = {}
        _walk(name, node, (), places, set())
        return Document(name, loader.construct_document(node), places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        raise YamlError(f"{name}:{place}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise YamlError(f"{name}:1:1: {error}") from None
    finally:
        loader.dispose()


def dump_yaml(data: Any) -> str:
    """Plain Python values as YAML text, keys in their own order."""
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100))


def _walk(
    name: str,
    node: yaml.Node,
    path: tuple[str | int, ...],
    places: dict[tuple[str | int, ...], Place],
    above: set[int],
) -> None:
    places[path] = Place(node.start_mark.line + 1, node.start_mark.column + 1)
    if id(node) in above:
        raise YamlError(f"{name}:{places[path].line}:{places[path].column}: contains itself")
    inside = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            at = Place(key.start_mark.line + 1, key.start_mark.column + 1)
            if key.value in seen:
                raise YamlError(f"{name}:{at.line}:{at.column}: '{key.value}' is given twice")
            seen.add(key.value)
            _walk(name, value, (*path, key.value), places, inside)
            places[(*path, key.value)] = at
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(name, value, (*path, index), places, inside)
