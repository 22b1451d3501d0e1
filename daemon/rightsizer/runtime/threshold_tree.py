"""Thresholds of rules as a policy may change them: the rules' own settings, each left open."""

from collections.abc import Iterator
from dataclasses import field, fields, is_dataclass, make_dataclass, replace
from functools import cache
from typing import Any, get_type_hints

from rightsizer.advice.rules import RULES

__all__ = ["ThresholdTree", "overridden"]


def overridden(settings: Any, changes: Any) -> Any:
    """A rule's settings with what an operator wants otherwise.

    Raises:
        ValueError: the settings refuse it.
    """
    found = {
        name: overridden(getattr(settings, name), change) if is_dataclass(change) else change
        for name, change in _given(changes)
    }
    return replace(settings, **found) if found else settings


def _given(changes: Any) -> Iterator[tuple[str, Any]]:
    for each in fields(changes):
        value = getattr(changes, each.name)
        if value is not None:
            yield each.name, value


@cache
def _left_open(settings: Any) -> type:
    """The same fields with the same bounds, none of which has to be given."""
    hints, parts = get_type_hints(settings), []
    for each in fields(settings):
        hint = hints[each.name]
        if is_dataclass(hint) and isinstance(hint, type):
            group = _left_open(hint)
            parts.append((each.name, group, field(default_factory=group)))
        else:
            parts.append((each.name, hint | None, field(default=None, metadata=each.metadata)))
    words = (settings.__doc__ or "").partition("\n\n")[0]
    return _frozen(settings.__name__, parts, words)


def _frozen(name: str, parts: list[Any], words: str) -> type:
    return make_dataclass(
        name,
        parts,
        frozen=True,
        slots=True,
        namespace={"__doc__": words, "__module__": __name__},
    )


def _of_rules() -> type:
    parts = []
    for rule in RULES:
        settings: Any = type(rule.settings)
        group = _left_open(settings)
        parts.append((rule.name, group, field(default_factory=group)))
    return _frozen("ThresholdTree", parts, "Thresholds by rule, for the workloads that match.")


ThresholdTree: Any = _of_rules()
"""What a policy may change, under the rules' names; `None` for what stays as it is."""
