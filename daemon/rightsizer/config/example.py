"""A configuration file with every key, its default and what is known of it."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rightsizer.config.describe import remark
from rightsizer.config.dump import plain
from rightsizer.config.shape import Entry, Group, Many, Named, Nullable, Scalar, Shape, shape_of
from rightsizer.io.yaml import dump_yaml

_WIDTH: Final = 90
"""Of a comment, which leaves room for its indentation."""
_INDENT: Final = "  "


def example(root: type, schema: str = "rightsizer.schema.json") -> str:
    """A commented YAML file of all defaults, which loads as the defaults.

    Args:
        root: The frozen dataclass at the top of the tree.
        schema: Where an editor finds the JSON schema, from the file's own folder.
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
    for entry in group.entries:
        if above is not None and not (_is_short(above) and _is_short(entry.shape)):
            yield ""
        yield from _entry(entry)
        above = entry.shape


def _is_short(shape: Shape) -> bool:
    return isinstance(shape, Scalar | Nullable)


def _entry(entry: Entry) -> Iterator[str]:
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
    yield from _value(entry.key, plain(entry.default, entry.shape))
    yield from _template(entry.shape)


def _value(key: str, value: Any) -> list[str]:
    return dump_yaml({key: value}).splitlines()


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
