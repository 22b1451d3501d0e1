"""Label matchers, and labels that different scrapes spell differently."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from rightsizer.fleet.prometheus.selector import any_of, quoted

__all__ = ["first_label", "node_of", "one_of", "selector", "word_of"]

_Word = TypeVar("_Word", bound=StrEnum)

_NODE_LABELS: Final = ("node", "nodename", "Hostname", "hostname", "kubernetes_node")
_PORT: Final = re.compile(r":\d+$")


def selector(name: str, *matchers: str) -> str:
    """A vector selector of a name and matchers, those that are empty left out."""
    inside = ", ".join(matcher for matcher in matchers if matcher)
    return f"{name}{{{inside}}}"


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher for any of some values of a label."""
    return f"{label}=~{quoted(any_of(values))}"


def first_label(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The value of the first of these labels that is there and not empty; else nothing."""
    return next((labels[name] for name in names if labels.get(name)), "")


def node_of(labels: Mapping[str, str]) -> str:
    """The host's name: a label that says it, else the instance without its port."""
    named = first_label(labels, _NODE_LABELS)
    return named or _PORT.sub("", labels.get("instance", "")).strip("[]")


def word_of(words: type[_Word], text: str) -> _Word | None:
    """The member of a vocabulary that a label means; `None` for one that we do not know."""
    try:
        return words(text)
    except ValueError:
        return None
