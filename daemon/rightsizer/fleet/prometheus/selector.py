"""Selectors as PromQL text, with every value escaped."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

__all__ = ["any_of", "quoted", "selector"]

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""What RE2 takes for more than itself."""
_KEPT: Final = 8
"""The same devices are asked about again and again."""


def quoted(value: str) -> str:
    """A string literal of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(values: Iterable[str]) -> str:
    """A regular expression, anchored as PromQL does, that matches these values alone."""
    return "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in values)


def selector(metric: str, labels: Mapping[str, str | Iterable[str]] | None = None) -> str:
    """A selector of a metric whose labels have these values, or one of several each.

    Args:
        metric: Its name; empty for any, where a label tells which.
        labels: By name, a value or several. Several that are none match nothing at all.
    """
    matchers = [
        f"{name}={quoted(wanted)}" if isinstance(wanted, str) else _alternatives(name, wanted)
        for name, wanted in (labels or {}).items()
    ]
    return metric + ("{" + ",".join(matchers) + "}" if matchers else "")


def _alternatives(name: str, wanted: Iterable[str]) -> str:
    return _matcher(name, tuple(wanted))


@lru_cache(maxsize=_KEPT)
def _matcher(name: str, values: tuple[str, ...]) -> str:
    if not values:
        # An empty expression would match whatever lacks the label.
        return f'{name}=~".^"'
    return (
        f"{name}={quoted(values[0])}" if len(values) == 1 else f"{name}=~{quoted(any_of(values))}"
    )
