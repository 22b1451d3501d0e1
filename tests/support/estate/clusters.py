"""Two clusters of one store with equal names, distinguished by their labels."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from estate.series import Pairs, Run
from estate.stores import Source

__all__ = ["in_cluster"]


def in_cluster(source: Source, cluster: str, labels: Pairs) -> Source:
    """The same samples of other GPUs, with labels that an agent's scraper or a store adds."""

    def runs(first: int, last: int) -> Iterator[Run]:
        return _marked(source(first, last), cluster, labels)

    return runs


def _marked(runs: Iterable[Run], cluster: str, labels: Pairs) -> Iterator[Run]:
    for run in runs:
        own = (
            (name, value.replace("GPU-", f"GPU-{cluster}-") if name.lower() == "uuid" else value)
            for name, value in run.labels
        )
        yield replace(run, labels=(*own, *labels))
