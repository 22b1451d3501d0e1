"""Documents of a settings tree: example file, reference, JSON schema, effective values."""

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rightsizer.config.fault import kind, limits, remark
from rightsizer.config.shape import (
    Group,
    Many,
    Named,
    Nullable,
    Scalar,
    Shape,
    ShapeEntry,
    shape_of,
)
from rightsizer.config.spelling import spell
from rightsizer.io.yaml import dump_yaml

_WIDTH: Final = 90
"""Of a comment, which leaves room for its indentation."""
_INDENT: Final = "  "
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d|w|y))+$"
_SIZE: Final = r"^[0-9]+(\.[0-9]+)? ?([KkMmGg][Ii]?[Bb]|[Bb]([Yy][Tt][Ee][Ss]?)?)$"
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}


def dump(settings: Any) -> str:
    """YAML text with every setting, which loads back to an equal tree."""
    return dump_yaml(plain(settings, shape_of(type(settings))))


def plain(value: Any, shape: Shape) -> Any:
    """A value as the mappings, lists and scalars that the file would have for it."""
    match shape:
        case Group():
            return {
                entry.key: plain(getattr(value, entry.name), entry.shape) for entry in shape.entries
            }
        case Many(item):
            return [plain(element, item) for element in value]
        case Named(inner):
            return {name: plain(element, inner) for name, element in value.items()}
        case Nullable(inner):
            return None if value is None else plain(value, inner)
        case Scalar():
            return spell(value, shape)


def example(root: type, schema: str = "rightsizer.schema.json") -> str:
    """A commented YAML file of all defaults, which loads as the defaults.

    `schema` is where an editor finds the JSON schema, from the file's own folder.
    """
    shape = shape_of(root)
    head = [
        f"# yaml-language-server: $schema={schema}",
        "#",
        *_comment(shape.help),
        "# Every key stands here with its default; a file needs only those that differ.",
        "# Durations are written like 10m or 1h30m, sizes like 512MiB.",
        "",
    ]
    return "\n".join([*head, *_group(shape)]) + "\n"


def _group(group: Group) -> Iterator[str]:
    above: Shape | None = None
    short = Scalar, Nullable
    for entry in group.entries:
        if above and not (isinstance(above, short) and isinstance(entry.shape, short)):
            yield ""
        yield from _entry(entry)
        above = entry.shape


def _entry(entry: ShapeEntry) -> Iterator[str]:
    yield from _comment(entry.help)
    if isinstance(entry.shape, Group):
        yield f"{entry.key}:"
        yield from _indented(_group(entry.shape))
        return
    source = f" Source: {entry.source.rstrip('.')}." if entry.source else ""
    yield from _comment(remark(entry.shape) + source)
    if entry.is_required:
        yield f"{entry.key}: # required"
        return
    yield from dump_yaml({entry.key: plain(entry.default, entry.shape)}).splitlines()
    yield from _template(entry.shape)


def _template(shape: Shape) -> Iterator[str]:
    """What an element of a list or a mapping of groups looks like, commented out."""
    match shape:
        case Nullable(inner):
            yield from _template(inner)
        case Many(Group() as group):
            yield from _comment_out(["-", *_indented(_group(group))])
        case Named(Group() as group):
            yield from _comment_out(["NAME:", *_indented(_group(group))])
        case Group():
            yield from _comment_out(_group(shape))
        case _:
            return


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def _comment_out(lines: Iterable[str]) -> Iterator[str]:
    return (f"#{_INDENT}{line}".rstrip() for line in lines)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_INDENT}{line}".rstrip() for line in lines)


def reference(root: type) -> str:
    """A heading and a table for each group of settings, top-level keys first."""
    return "\n".join(_section(shape_of(root), ""))


def _section(group: Group, path: str) -> Iterator[str]:
    rows = [entry for entry in group.entries if not isinstance(entry.shape, Group)]
    if path:
        yield from (f"## `{path}`", "")
        yield from (group.help, "") if group.help else ()
    if rows:
        yield "| key | what it does | value | default | takes effect | source |"
        yield "|---|---|---|---|---|---|"
        yield from (_row(entry, path) for entry in rows)
        yield ""
    for entry in group.entries:
        yield from _below(entry, path)


def _below(entry: ShapeEntry, path: str) -> Iterator[str]:
    """The section of the group under a key, if there is one, through lists and mappings."""
    shape, path = entry.shape, _join(path, entry.key)
    while not isinstance(shape, Group):
        match shape:
            case Nullable(inner):
                shape = inner
            case Many(inner):
                shape, path = inner, f"{path}[]"
            case Named(inner):
                shape, path = inner, f"{path}.NAME"
            case _:
                return
    yield from _section(shape, path)


def _row(entry: ShapeEntry, path: str) -> str:
    cells = (
        f"`{_join(path, entry.key)}`",
        entry.help,
        ", ".join(filter(None, (kind(entry.shape), limits(entry.shape)))),
        "required" if entry.is_required else f"`{_inline(plain(entry.default, entry.shape))}`",
        "reload" if entry.is_live else "restart",
        entry.source,
    )
    # A bar would end the cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _inline(value: Any) -> str:
    """A value in YAML's one-line notation, which for lists and mappings is JSON's."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return dump_yaml([value]).removeprefix("- ").rstrip("\n")


def schema(root: type) -> dict[str, Any]:
    """The JSON schema (2020-12) of the files that load as `root`."""
    shape = shape_of(root)
    return {"$schema": _DIALECT, "title": root.__name__, **_schema(shape)}


def _schema(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar():
            return _scalar(shape)
        case Nullable(inner):
            return {"anyOf": [_schema(inner), {"type": "null"}]}
        case Many(item):
            return {"type": "array", "items": _schema(item)}
        case Named(value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case Group():
            return _schema_group(shape)


def _schema_group(group: Group) -> dict[str, Any]:
    required = [entry.key for entry in group.entries if entry.is_required]
    return {
        **({"description": group.help} if group.help else {}),
        "type": "object",
        "properties": {entry.key: _schema_entry(entry) for entry in group.entries},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _schema_entry(entry: ShapeEntry) -> dict[str, Any]:
    described = _schema(entry.shape)
    if isinstance(entry.shape, Group | Many | Named) and not entry.is_required:
        # What stands under a key may all be commented out.
        described["type"] = [described["type"], "null"]
    if isinstance(entry.shape, Group):
        return described
    source = f"Source: {entry.source.rstrip('.')}." if entry.source else ""
    words = " ".join(filter(None, (entry.help, remark(entry.shape), source)))
    default = {} if entry.is_required else {"default": plain(entry.default, entry.shape)}
    return {"description": words, **described, **default}


def _scalar(scalar: Scalar) -> dict[str, Any]:
    if scalar.choices:
        return {"enum": list(scalar.choices)}
    if scalar.is_duration:
        text = {"type": "string", "pattern": _DURATION}
        allows_zero = (scalar.minimum or 0) <= 0 <= (scalar.maximum or 0)
        return {"anyOf": [text, {"const": 0}]} if allows_zero else text
    described: dict[str, Any] = {"type": _TYPES[scalar.type]}
    if scalar.is_size:
        described = {"type": [described["type"], "string"], "pattern": _SIZE}
    if scalar.minimum is not None:
        described["minimum"] = scalar.minimum
    if scalar.maximum is not None:
        described["maximum"] = scalar.maximum
    return described
