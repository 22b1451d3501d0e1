"""One tree of plain data laid over another."""

from collections.abc import Iterator, Mapping
from typing import Any


def merged(below: Mapping[Any, Any], above: Mapping[Any, Any]) -> dict[Any, Any]:
    """Both, key by key; where both have a value, the one above unless both are mappings.

    A key without a value, as it is left when what follows is commented out, changes nothing.
    """
    both = dict(below)
    for key, value in above.items():
        if value is None:
            continue
        under = both.get(key)
        is_tree = isinstance(value, Mapping) and isinstance(under, Mapping)
        both[key] = merged(under, value) if is_tree and under is not None else value
    return both


def named_values(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """The names of all values, of those within others with a dot: `dense_peak_tera.bf16`."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield from named_values(value, f"{name}.")
        else:
            yield name
