"""Mutations of valid input by hypothesis: trees with odd values, bytes with odd bytes."""

import copy
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

__all__ = ["ODD", "mutated_bytes", "mutated_tree"]

ODD: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from([[], {}, [[]], {"": None}, "9" * 400, "../../etc/passwd", -0.0, 1e308, 5e-324]),
)
"""Values that are hardly ever valid."""
_REMOVE: Final = object()


def mutated_tree(tree: Any) -> st.SearchStrategy[Any]:
    """The tree with one to three values changed, removed, or beside an unknown one."""
    change = st.tuples(st.sampled_from(list(_paths(tree))), ODD | st.just(_REMOVE))
    return st.lists(change, min_size=1, max_size=3).map(lambda changes: _changed(tree, changes))


def mutated_bytes(content: bytes) -> st.SearchStrategy[bytes]:
    """The content truncated, repeated, or changed in a few places."""
    junk = st.binary(max_size=8) | st.sampled_from(
        [b"\n", b",", b'"', b"{", b"}", b"NaN", b"-1", b"1e400", b"\x00", b"\xff\xfe", b"9" * 400]
    )
    place = st.integers(0, len(content))
    edit = st.tuples(place, st.integers(0, 40), junk)
    return st.lists(edit, min_size=1, max_size=4).map(lambda edits: _edited(content, edits))


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from _paths(value, (*path, key))
        else:
            yield (*path, key)


def _changed(tree: Any, changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    tree = copy.deepcopy(tree)
    for path, value in changes:
        parent = tree
        try:
            for key in path[:-1]:
                parent = parent[key]
            if value is _REMOVE:
                del parent[path[-1]]
            else:
                parent[path[-1]] = copy.deepcopy(value)
        except (LookupError, TypeError):
            continue  # An earlier change removed its parent.
    return tree


def _edited(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, junk in edits:
        content = content[:place] + junk + content[place + length :]
    return content
