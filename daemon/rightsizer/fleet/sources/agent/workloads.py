"""Workloads by what an agent exports of them, or by their key alone."""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Allocator, Workload, WorkloadClass, WorkloadKind
from rightsizer.fleet.sources.agent.form import Figure, Form
from rightsizer.fleet.sources.labels import first_label, word_of
from rightsizer.fleet.store import Sampled

__all__ = [
    "WORKLOAD_LABELS",
    "team_of",
    "workload_by_key",
    "workload_of",
    "workload_query",
    "workloads_of",
]

WORKLOAD_LABELS: Final = (
    *("workload", "kind", "class", "name"),
    *("exported_namespace", "namespace", "exported_pod", "pod"),
    *("exported_container", "container", "allocator"),
)
"""Where the scrape sets `namespace`, `pod` and `container` of the agent itself, ours arrive as
`exported_*`."""
_KEY: Final = re.compile(r"([a-z]+)[:/](.+)", re.DOTALL)
_BATCH: Final = WorkloadClass.BATCH

_INFO: Final = Figure(
    "workload",
    (
        Form("workload:rightsizer_workload_info:last5m", "last_over_time"),
        Form("rightsizer_workload_info", "last_over_time"),
    ),
)
_LASTING: Final = (
    *("workload", "kind", "class", "name", "exported_namespace", "namespace", "allocator"),
)
"""Without what changes from pod to pod."""


def workload_query(names: AbstractSet[str], keys: Sequence[str], span: Nanoseconds) -> str | None:
    """Who some workloads were over a span; `None` where that is not kept."""
    form = _INFO.form(names)
    if form is None:
        return None
    return f"max by ({', '.join(_LASTING)}) ({form.promql({'workload': tuple(keys)}, span)})"


def workload_of(labels: Mapping[str, str]) -> Workload | None:
    """The workload of a series of `rightsizer_workload_info`; `None` where it has no key."""
    key = labels.get("workload")
    if not key:
        return None
    usual = workload_by_key(key)
    return Workload(
        key=key,
        kind=word_of(WorkloadKind, labels.get("kind", "")) or usual.kind,
        name=labels.get("name") or usual.name,
        workload_class=word_of(WorkloadClass, labels.get("class", "")) or usual.workload_class,
        allocator=word_of(Allocator, labels.get("allocator", "")) or usual.allocator,
        namespace=_own(labels, "namespace") or usual.namespace,
        pod=_own(labels, "pod"),
        container=_own(labels, "container"),
    )


def workload_by_key(key: str) -> Workload:
    """What a key says by itself: `kubernetes:NAMESPACE/NAME`, `slurm:JOB`."""
    parts = _KEY.fullmatch(key)
    kind = (parts and word_of(WorkloadKind, parts[1])) or WorkloadKind.OTHER
    rest = parts[2] if parts else key
    namespace, slash, name = rest.partition("/")
    has_namespace = kind is WorkloadKind.KUBERNETES and bool(slash)
    return Workload(
        key=key,
        kind=kind,
        name=name if has_namespace else rest,
        workload_class=_BATCH if kind is WorkloadKind.SLURM else WorkloadClass.UNKNOWN,
        namespace=namespace if has_namespace else "",
    )


def workloads_of(answer: Iterable[Sampled]) -> dict[str, Workload]:
    """The workloads of an answer by key; of many pods the same one each time."""
    found = (workload_of(series.labels) for series in answer)
    known = sorted(
        (workload for workload in found if workload is not None),
        key=lambda workload: (
            workload.key,
            # How a workload takes memory is seen a while after it has begun.
            workload.allocator is Allocator.UNKNOWN,
            *(workload.namespace, workload.pod, workload.container),
        ),
    )
    return {workload.key: workload for workload in reversed(known)}


def team_of(labels: Mapping[str, str], team_labels: Iterable[str]) -> str:
    """Who answers for a workload: a label that says it, else its namespace; else nobody."""
    return first_label(labels, team_labels) or _own(labels, "namespace")


def _own(labels: Mapping[str, str], name: str) -> str:
    exported = f"exported_{name}"
    return labels[exported] if exported in labels else labels.get(name, "")
