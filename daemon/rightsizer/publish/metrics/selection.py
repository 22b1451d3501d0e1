"""What a request leaves out: `name[]`, and node_exporter's `collect[]` and `exclude[]`."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rightsizer.domain.errors import UsageError
from rightsizer.domain.metric_collector import Collector
from rightsizer.publish.metrics.families import Family

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of the exposition that a request asks for."""

    names: frozenset[str]
    """Of samples; empty for all."""
    collectors: frozenset[Collector] | None
    """`None` for all that are on."""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        collect: Sequence[str],
        exclude: Sequence[str],
        enabled: frozenset[Collector],
    ) -> "Selection":
        """The selection that the parameters of a request describe.

        Raises:
            UsageError: a collector is unknown or off, or both lists are given.
        """
        if collect and exclude:
            raise UsageError("collect[] and exclude[] exclude each other; use one of them")
        collectors = None
        if collect:
            collectors = _known(collect, enabled)
        elif exclude:
            collectors = enabled - _known(exclude, enabled)
        return cls(frozenset(names), collectors)

    def families(self, families: Iterable[Family]) -> list[Family]:
        """What is left of an exposition's families."""
        chosen = [
            family
            for family in families
            if self.collectors is None or family.collector in self.collectors
        ]
        if not self.names:
            return chosen
        restricted = (family.restricted(self.names) for family in chosen)
        return [family for family in restricted if family.samples]


def _known(asked: Iterable[str], enabled: Collection[Collector]) -> frozenset[Collector]:
    for name in asked:
        if name not in set(Collector):
            known = ", ".join(sorted(enabled))
            raise UsageError(f"there is no collector '{name}'; those that are on: {known}")
        if name not in enabled:
            raise UsageError(
                f"the collector '{name}' is off; start the agent with --collector.{name}, or set "
                f"web.metrics.collectors.{name} to true"
            )
    return frozenset(map(Collector, asked))
