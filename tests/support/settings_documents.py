"""Documents of a settings tree: example file, reference, JSON schema, all values."""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from rightsizer.config.shape import (
    Group,
    Many,
    Named,
    Nullable,
    Parsed,
    Scalar,
    Shape,
    ShapeEntry,
    Tagged,
    shape_of,
)
from rightsizer.config.spelling import plain
from rightsizer.config.validator import kind, limits
from rightsizer.io.yaml import dump_yaml
from rightsizer.model.settings import descriptions_of

_WIDTH: Final = 90
"""Of a comment, which leaves room for its indentation."""
_INDENT: Final = "  "
_LONGEST: Final = 200
"""Characters of a list of choices that is written once."""
_CITATION: Final = re.compile(r"arXiv:|\w#\d|\bissue \d|\bJSSPP\b|\.(?:com|ai)\b")
"""Marks of a source that is published; others are in the example file alone."""
_descriptions_of: Final = cache(descriptions_of)
_RULE: Final = re.compile(r"\brules\.\w+$")
"""Path of a rule's settings."""
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d|w|y))+$"
_SIZE: Final = r"^[0-9]+(\.[0-9]+)? ?([KkMmGg][Ii]?[Bb]|[Bb]([Yy][Tt][Ee][Ss]?)?)$"
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}


def dump(settings: Any) -> str:
    """YAML text with every setting, which loads back to an equal tree."""
    return dump_yaml(plain(settings, shape_of(type(settings))))


def example(root: type, schema: str = "rightsizer.schema.json") -> str:
    """A commented YAML file of all defaults, which loads as the defaults.

    `schema` is where an editor finds the JSON schema, from the file's own folder.
    """
    shape = shape_of(root)
    head = [
        f"# yaml-language-server: $schema={schema}",
        "#",
        *_comment(help_of(shape)),
        "# Every key stands here with its default; a file needs only those that differ.",
        "# Durations are written like 10m or 1h30m, sizes like 512MiB.",
        "# What is marked 'Reloaded' takes effect by a reload, all else by a restart.",
        "",
    ]
    return "\n".join([*head, *_group(shape, is_reloaded=False)]) + "\n"


def _limits(shape: Shape) -> str:
    """The bounds of what stands there, in words."""
    match shape:
        case Nullable(inner) | Many(inner) | Named(inner) | Parsed(inner):
            return _limits(inner)
        case Tagged():
            return ""
        case Scalar():
            return limits(shape)
        case Group():
            return ""


def _remark(shape: Shape) -> str:
    """Kind and bounds in one sentence, such as `Duration, between 1s and 1h`."""
    text = ", ".join(filter(None, (kind(shape), _limits(shape))))
    return f"{text[:1].upper()}{text[1:]}."


def help_of(shape: Shape) -> str:
    """What a group says of itself."""
    match shape:
        case Group():
            return _summary(shape.type)
        case Nullable(inner) | Many(inner) | Named(inner) | Parsed(inner):
            return help_of(inner)
        case Tagged():
            return ""
        case Scalar():
            return ""


def _summary(settings: type) -> str:
    """The first sentence of a class's docstring, unless it is the one that Python wrote."""
    text = " ".join((settings.__doc__ or "").partition("\n\n")[0].split())
    return "" if text.startswith(f"{settings.__name__}(") else text


def help_and_source(entry: ShapeEntry) -> tuple[str, str]:
    """Its help and the source of its default."""
    described = _descriptions_of(entry.settings).get(entry.name)
    if described and described.help:
        return described.help, described.source
    return help_of(entry.shape), ""


def _group(group: Group, *, is_reloaded: bool) -> Iterator[str]:
    above: Shape | None = None
    short = Scalar, Nullable
    for entry in group.entries:
        if above and not (isinstance(above, short) and isinstance(entry.shape, short)):
            yield ""
        yield from _entry(entry, is_reloaded=is_reloaded)
        above = entry.shape


def _entry(entry: ShapeEntry, *, is_reloaded: bool) -> Iterator[str]:
    """A key with its comment; `is_reloaded` if the group above is so marked."""
    help_text, source_text = help_and_source(entry)
    if isinstance(entry.shape, Group):
        is_marked = not is_reloaded and _is_live(entry.shape)
        yield from _comment(" ".join(filter(None, (help_text, "Reloaded." if is_marked else ""))))
        yield f"{entry.key}:"
        yield from _indented(_group(entry.shape, is_reloaded=is_reloaded or is_marked))
        return
    yield from _comment(help_text)
    source = f" Source: {source_text.rstrip('.')}." if source_text else ""
    mark = " Reloaded." if entry.is_live and not is_reloaded else ""
    yield from _comment(_remark(entry.shape) + mark + source)
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
            yield from _comment_out(["-", *_indented(_group(group, is_reloaded=True))])
        case Named(Group() as group):
            yield from _comment_out(["NAME:", *_indented(_group(group, is_reloaded=True))])
        case Group():
            yield from _comment_out(_group(shape, is_reloaded=True))
        case _:
            return


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]


def _comment_out(lines: Iterable[str]) -> Iterator[str]:
    return (f"#{_INDENT}{line}".rstrip() for line in lines)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_INDENT}{line}".rstrip() for line in lines)


def reference(root: type) -> str:
    """A heading and a list for each group of settings, top-level keys first.

    What several groups share is explained in the first of them.
    """
    return "\n".join(_section(shape_of(root), "", {}))


def _section(
    group: Group,
    path: str,
    explained: dict[Any, tuple[str, Group]],
    *,
    is_reloaded: bool = False,
) -> Iterator[str]:
    rows = [entry for entry in group.entries if not isinstance(entry.shape, Group)]
    if path:
        yield from (f"## `{path}`", "")
    first, _ = explained.setdefault(_keys(group), (path, group))
    if first != path and _is_null(group):
        yield from (f"Same keys as {_link(first)}; `null` keeps the value set there.", "")
        return
    first, like = explained.setdefault(tuple(map(_explanation, rows)), (path, group))
    if first != path and rows:
        yield from (f"Same keys as {_link(first)}{_other_defaults(rows, like)}.", "")
        rows = []
    else:
        mark = "" if is_reloaded or not _is_live(group) else "*Reload.*"
        is_reloaded = bool(path) and (is_reloaded or bool(mark))
        # A rule's page says what it judges.
        text = "" if _RULE.search(path) else help_of(group)
        help_text = " ".join(filter(None, (text, mark)))
        yield from (help_text, "") if path and help_text else ()
        yield from _rows(rows, group, path, explained, is_reloaded=is_reloaded)
    like_others = {
        entry.key: line
        for entry in group.entries
        if (line := _like_another(entry.shape, _join(path, entry.key), explained))
    }
    yield from (*like_others.values(), "") if rows or like_others else ()
    for entry in group.entries:
        if entry.key not in like_others:
            yield from _below(entry, path, explained, is_reloaded=is_reloaded)


def _is_live(group: Group) -> bool:
    """Whether every key in it, and in the groups below, is reloaded."""
    return all(
        _is_live(entry.shape) if isinstance(entry.shape, Group) else entry.is_live
        for entry in group.entries
    )


def _like_another(shape: Shape, path: str, explained: dict[Any, tuple[str, Group]]) -> str | None:
    """A line for a group whose keys are explained elsewhere; `None` for others."""
    if not isinstance(shape, Group):
        return None
    if _is_null(shape) and _keys(shape) in explained:
        first, _ = explained[_keys(shape)]
        return f"- `{path}`: as {_link(first)}; `null` keeps the value set there."
    rows = tuple(map(_explanation, shape.entries))
    if rows not in explained or any(isinstance(entry.shape, Group) for entry in shape.entries):
        return None
    first, like = explained[rows]
    other = _other_defaults(shape.entries, like)
    equal, _ = explained.setdefault((rows, other), (path, like))
    same = f"{_link(first)}{other}" if equal == path or not other else f"`{equal}`"
    return f"- `{path}`: as {same}."


def _rows(
    rows: list[ShapeEntry],
    group: Group,
    path: str,
    explained: dict[Any, tuple[str, Group]],
    *,
    is_reloaded: bool,
) -> Iterator[str]:
    """The list of a group's keys; one line for those that an earlier group explains."""
    elsewhere: dict[str, list[str]] = {}
    for entry in rows:
        first, _ = explained.setdefault(_explanation(entry), (path, group))
        key = f"`{_join(path, entry.key)}`"
        if first != path:
            elsewhere.setdefault(first, []).append(f"{key} {_default(entry)}")
            continue
        help_text, source = help_and_source(entry)
        mark = " *reload*" if entry.is_live and not is_reloaded else ""
        value = _value(entry)
        choices_key, _ = explained.setdefault(value, (_join(path, entry.key), group))
        if len(value) > _LONGEST and choices_key != _join(path, entry.key):
            value = f"as `{choices_key}`"
        facts = ", ".join(filter(None, (_default(entry), value)))
        cited = "; ".join(part for part in source.split("; ") if _CITATION.search(part))
        source = f" Source: {cited.rstrip('.')}." if cited else ""
        yield f"- {key}{mark} ({facts}): {help_text}{source}"
    for first, keys in elsewhere.items():
        yield f"- {', '.join(keys)}: as in {_link(first)}."


def _other_defaults(rows: Sequence[ShapeEntry], like: Group) -> str:
    """The defaults in which a group differs from the one that explains its keys."""
    there = {entry.key: _default(entry) for entry in like.entries}
    other = [
        f"`{entry.key}` {_default(entry)}" for entry in rows if _default(entry) != there[entry.key]
    ]
    return f", but {', '.join(other)}" if other else ""


def _keys(group: Group) -> Any:
    """What a group and the groups in it hold, whatever the defaults."""
    return tuple(
        (
            entry.key,
            help_and_source(entry),
            _keys(entry.shape) if isinstance(entry.shape, Group) else None,
        )
        for entry in group.entries
    )


def _explanation(entry: ShapeEntry) -> tuple[Any, ...]:
    """What a line says but for its path, default and source."""
    return entry.key, help_and_source(entry)[0], _value(entry), entry.is_live


def _is_null(group: Group) -> bool:
    """Whether nothing is set in it by default."""
    return all(
        _is_null(entry.shape) if isinstance(entry.shape, Group) else entry.default is None
        for entry in group.entries
    )


def _link(path: str) -> str:
    return f"[`{path}`](#{re.sub(r'[^a-z_]', '', path.lower())})"


def _below(
    entry: ShapeEntry,
    path: str,
    explained: dict[Any, tuple[str, Group]],
    *,
    is_reloaded: bool,
) -> Iterator[str]:
    """The section of the group under a key, if there is one, through lists and mappings."""
    shape = entry.shape
    path = _join(path, entry.key)
    while not isinstance(shape, Group):
        match shape:
            case Nullable(inner):
                shape = inner
            case Many(inner):
                shape = inner
                path = f"{path}[]"
            case Named(inner):
                shape = inner
                path = f"{path}.NAME"
            case _:
                return
    yield from _section(shape, path, explained, is_reloaded=is_reloaded)


def _value(entry: ShapeEntry) -> str:
    """Unusual bounds, and the kind where the default does not show it."""
    bounds = re.sub(r"\bbetween (\S+) and (\S+)", "\\1\N{EN DASH}\\2", _limits(entry.shape))
    # The page says this once: a ratio is from 0 to 1, all else at least 0.
    usual = r"^0\N{EN DASH}1$" if entry.key.endswith("_ratio") else r"\bat least 0s?$"
    bounds = re.sub(usual, "", bounds).replace("at least ", "\N{GREATER-THAN OR EQUAL TO}")
    is_chosen = bool(re.search(r"\bone of\b", kind(entry.shape)))
    is_shown = not is_chosen and (isinstance(entry.shape, Scalar) or bool(entry.default))
    name = "" if is_shown and not entry.is_required else kind(entry.shape)
    return ", ".join(filter(None, (name.replace("whole number", "integer"), bounds)))


def _default(entry: ShapeEntry) -> str:
    return "required" if entry.is_required else f"`{_inline(plain(entry.default, entry.shape))}`"


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
        case Parsed() | Tagged():
            return {}  # What it may be rewritten from, no type says.
        case Many(item):
            return {"type": "array", "items": _schema(item)}
        case Named(value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case Group():
            return _schema_group(shape)


def _schema_group(group: Group) -> dict[str, Any]:
    required = [entry.key for entry in group.entries if entry.is_required]
    return {
        **({"description": help_of(group)} if help_of(group) else {}),
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
    help_text, source_text = help_and_source(entry)
    source = f"Source: {source_text.rstrip('.')}." if source_text else ""
    words = " ".join(filter(None, (help_text, _remark(entry.shape), source)))
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
