"""Series of kube-state-metrics, whichever way they were scraped."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.sources.labels import first_label, one_of, selector
from rightsizer.fleet.store import Store

__all__ = ["NAMESPACE_LABELS", "NODE_LABELS", "POD_LABELS", "Pod", "Span", "namespace_in", "told"]

POD_LABELS: Final = ("exported_pod", "pod")
"""Without honorLabels, `pod` is that of kube-state-metrics itself."""
NAMESPACE_LABELS: Final = ("exported_namespace", "namespace")
NODE_LABELS: Final = ("exported_node", "node")
_AT_ONCE: Final = 200
"""Names in one query, so that none grows too long."""


class Pod(NamedTuple):
    """A pod by name."""

    namespace: str
    name: str

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "Pod":
        """The pod that a series is about."""
        return cls(namespace_in(labels), first_label(labels, POD_LABELS))


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which something was there."""

    end: Nanoseconds
    length: Nanoseconds

    @property
    def range(self) -> str:
        """As PromQL writes it."""
        return f"[{self.length // NANOSECONDS_PER_SECOND}s]"


def namespace_in(labels: Mapping[str, str]) -> str:
    """The namespace of what a series is about."""
    return first_label(labels, NAMESPACE_LABELS)


def told(
    store: Store,
    metric: str,
    names: tuple[Sequence[str], Collection[str]],
    by: Sequence[str],
    span: Span,
) -> list[Mapping[str, str]]:
    """The labels of a metric's series, for objects of some names.

    Args:
        store: Whom to ask.
        metric: Its name.
        names: The labels that may hold the name, and the names.
        by: The labels that are wanted beside those and the namespace.
        span: When they were there.
    """
    labels, wanted = names
    chosen = sorted(wanted)
    listed = ", ".join(dict.fromkeys((*NAMESPACE_LABELS, *labels, *by)))
    found: list[Mapping[str, str]] = []
    for first in range(0, len(chosen), _AT_ONCE):
        some = chosen[first : first + _AT_ONCE]
        parts = [
            f"last_over_time({selector(metric, one_of(label, some))}{span.range})"
            for label in labels
        ]
        query = f"group by ({listed}) ({' or '.join(parts)})"
        found += [series.labels for series in store.instant(query, span.end)]
    return found
