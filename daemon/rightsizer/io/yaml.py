"""YAML with the position of every value, for error messages."""

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import yaml
from msgspec import Struct

Path: TypeAlias = Sequence[str | int]
"""Keys and indices of a value."""
_ONE: Final = "; keep one of them"
_LOOK: Final = "look at the indentation, quotes and brackets here and in the lines before"
_DEEPEST: Final = 100
_MOST_VALUES: Final = 100_000
"""A few lines of nested aliases can expand beyond any memory."""
_QUOTED: Final = 60
# Line breaks in YAML that pyyaml writes unquoted and reads back as spaces.
_RARE_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
# The C parser is ten times as fast, with the same results and errors.
_Parser: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Place(Struct, frozen=True, order=True):
    """Line and column, both from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """Invalid YAML, or an unreadable file; the message starts with its name and place."""


class Document(Struct, frozen=True):
    """Parsed YAML file: plain Python data, and the position of each value."""

    name: str
    data: Any
    places: dict[tuple[str | int, ...], Place]
    files: Mapping[tuple[str | int, ...], str] = {}
    """File of each value, for a document merged from several."""

    def place(self, path: Path) -> Place:
        """Position of a value, or of its nearest existing ancestor."""
        return self.places.get(self._known(path), Place(1, 1))

    def file(self, path: Path) -> str:
        """File name of a value, or of its nearest existing ancestor."""
        return self.files.get(self._known(path), self.name)

    def where(self, path: Path) -> str:
        """`name:line:column` of a value, or of its nearest existing ancestor; empty if unnamed."""
        file = self.file(path)
        place = self.place(path)
        return f"{file}:{place.line}:{place.column}" if file else ""

    def items(self) -> "list[Document]":
        """Items of a list, as documents of the same file."""
        places: list[dict[tuple[str | int, ...], Place]] = [{} for _ in self.data]
        for path, place in self.places.items():
            if path and isinstance(path[0], int):
                places[path[0]][path[1:]] = place
        return [Document(self.name, *item) for item in zip(self.data, places, strict=True)]

    def _known(self, path: Path) -> tuple[str | int, ...]:
        keys = tuple(path)
        while keys and keys not in self.places:
            keys = keys[:-1]
        return keys


class _Loader(_Parser):  # type: ignore[misc]  # Either parser.
    """Converts exceptions that pyyaml lets through, e.g. for the date 2026-13-45."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - pyyaml's.
        try:
            return super().construct_object(node, deep)
        except (AttributeError, KeyError, TypeError, ValueError):
            kind = node.tag.rpartition(":")[2]
            text = str(node.value)
            quoted = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
            raise yaml.constructor.ConstructorError(
                None, None, f"'{quoted}' is not a valid {kind}; quote what is text", node.start_mark
            ) from None


class _Dumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote text that pyyaml would not read back unchanged."""
        style = '"' if _RARE_BREAKS.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def yaml_text(file: pathlib.Path) -> str:
    """Read the text of a YAML or JSON file.

    Raises:
        YamlError: the file cannot be read; with the remedy.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise YamlError(f"{file}: there is no such file; check the path") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise YamlError(f"{file}: cannot be read: {reason}; check the path") from None
    except UnicodeDecodeError:
        raise YamlError(f"{file}:1:1: is not UTF-8; save it as UTF-8") from None
    # JSON may be indented by tabs, which YAML refuses; its texts contain none.
    return text.replace("\t", " ") if text.lstrip()[:1] in {"{", "["} else text


def below(data: Any, *keys: str) -> Mapping[Any, Any]:
    """Mapping below some keys of data; empty if there is none."""
    for key in keys:
        data = below(data).get(key)
    return data if isinstance(data, Mapping) else {}


def load_yaml(text: str, name: str) -> Document:
    """Parse YAML text; `name` identifies it in errors.

    Raises:
        YamlError: invalid YAML, a repeated key, or recursion.
    """
    documents = _load(text, name, is_single=True)
    return documents[0] if documents else Document(name, None, {})


def load_beside(module_file: str, name: str) -> Any:
    """Load the data of a packaged file in the directory of a module's `__file__`."""
    return load_yaml(pathlib.Path(module_file).with_name(name).read_text("utf-8"), name).data


def merge_documents(documents: Sequence[Document]) -> Document:
    """Merge documents: mappings by key, otherwise the last value wins."""
    first, *others = documents
    data = first.data
    places = dict(first.places)
    files = dict.fromkeys(first.places, first.name)
    for document in others:
        data = _over(data, document.data)
        places.update(document.places)
        files.update(dict.fromkeys(document.places, document.name))
    return Document(first.name, data, places, files)


def _over(under: Any, over: Any) -> Any:
    """An empty value does not replace a mapping, since its contents may be commented out."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return under if over is None and isinstance(under, dict) else over
    return {**under, **{key: _over(under.get(key), value) for key, value in over.items()}}


def load_yaml_documents(text: str, name: str) -> list[Document]:
    """Parse YAML text with any number of documents; `name` identifies it in errors.

    Raises:
        YamlError: invalid YAML, a repeated key, or recursion.
    """
    return _load(text, name, is_single=False)


def _load(text: str, name: str, *, is_single: bool) -> list[Document]:
    loader = None
    try:
        _refuse_depth(text, name)
        loader = _Loader(text)
        documents = []
        if is_single:
            nodes = iter([loader.get_single_node()])
        else:
            nodes = iter(lambda: loader.get_node() if loader.check_node() else None, None)
        for node in filter(None, nodes):
            places: dict[tuple[str | int, ...], Place] = {}
            _walk(name, node, (), places, set())
            documents.append(Document(name, loader.construct_document(node), places))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        problem = str(error.problem)
        lines = text.splitlines()
        line = lines[mark.line][: mark.column + 1] if mark and mark.line < len(lines) else ""
        if line.lstrip(" ").startswith("\t"):
            problem = "is indented by a tab; indent by spaces"
        elif isinstance(error, yaml.parser.ParserError | yaml.scanner.ScannerError):
            problem = f"is not well-formed YAML ({problem}); {_LOOK}"
        raise YamlError(f"{name}:{place}: {problem}") from None
    except yaml.YAMLError as error:
        raise YamlError(f"{name}:1:1: {error}") from None
    else:
        return documents
    finally:
        if loader is not None:
            loader.dispose()


def dump_yaml(data: Any) -> str:
    """Dump plain Python values as YAML, with keys in their order."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _refuse_depth(text: str, name: str) -> None:
    """Limit the depth, since both parsers recurse and the C parser overflows its stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            mark: Any = event.start_mark
            raise YamlError(f"{name}:{mark.line + 1}:{mark.column + 1}: nests too deeply")


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
    if len(places) > _MOST_VALUES:
        raise YamlError(f"{name}:{places[path].line}:{places[path].column}: holds too many values")
    inside = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            at = Place(key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise YamlError(f"{name}:{at.line}:{at.column}: a key must be a single value")
            if key.value in seen:
                raise YamlError(f"{name}:{at.line}:{at.column}: '{key.value}' is given twice{_ONE}")
            seen.add(key.value)
            _walk(name, value, (*path, key.value), places, inside)
            places[(*path, key.value)] = at
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(name, value, (*path, index), places, inside)
