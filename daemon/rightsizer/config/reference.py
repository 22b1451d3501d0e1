"""The reference of the configuration file, as Markdown."""

import json
from collections.abc import Iterator
from typing import Any

from rightsizer.config.describe import kind, limits
from rightsizer.config.dump import plain
from rightsizer.config.shape import Entry, Group, Many, Named, Nullable, Shape, shape_of
from rightsizer.io.yaml import dump_yaml


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


def _below(entry: Entry, path: str) -> Iterator[str]:
    below = _group_in(entry.shape)
    if below is not None:
        yield from _section(below, f"{_join(path, entry.key)}{_suffix(entry.shape)}")


def _group_in(shape: Shape) -> Group | None:
    match shape:
        case Group():
            return shape
        case Nullable(inner) | Many(inner) | Named(inner):
            return _group_in(inner)
        case _:
            return None


def _suffix(shape: Shape) -> str:
    match shape:
        case Many(item):
            return f"[]{_suffix(item)}"
        case Named(value):
            return f".NAME{_suffix(value)}"
        case Nullable(inner):
            return _suffix(inner)
        case _:
            return ""


def _row(entry: Entry, path: str) -> str:
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
