"""Pods and jobs as dcgm-exporter's labels name them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from rightsizer.domain.dcgm_labels import holder_of
from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.fleet.sources.kubernetes_owners import KubernetesOwners, workload_of
from rightsizer.fleet.sources.kubernetes_series import Pod, Span
from rightsizer.fleet.sources.slurm import workload_of_job
from rightsizer.fleet.store import Store

__all__ = ["Holder", "HolderNames", "workloads_of"]

_OWN: Final = ("pod", "namespace", "container")


class Holder(NamedTuple):
    """A pod's container, or a job."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class HolderNames:
    """How an estate's series name who holds a device."""

    exported_jobs: frozenset[str] = frozenset()
    """Scrapes that write their target's `pod`, the exporter's; the holder's is `exported_pod`."""

    @classmethod
    def seen_in(cls, series: Iterable[Mapping[str, str]]) -> Self:
        """By the labels of an estate's series, `job` among them."""
        return cls(
            frozenset(labels.get("job", "") for labels in series if labels.get("exported_pod"))
        )

    def holder(self, labels: Mapping[str, str]) -> Holder | None:
        """Who held the device; `None` for nobody."""
        if labels.get("job", "") in self.exported_jobs:
            labels = {name: value for name, value in labels.items() if name not in _OWN}
        found = holder_of(labels)
        if found is None:
            return None
        if found.kind is WorkloadKind.SLURM:
            return Holder(job=found.name)
        return Holder(found.namespace, found.pod, found.container)


def workloads_of(
    store: Store, owners: KubernetesOwners, holders: Iterable[Holder], span: Span
) -> dict[Holder, Workload]:
    """The workload that each holder is a part of, under the key that its successors have."""
    named = set(holders)
    pods = {holder: Pod(holder.namespace, holder.pod) for holder in named if holder.pod}
    made_by = owners.of(store, pods.values(), span)
    found = {
        holder: workload_of(pod, made_by[pod], holder.container) for holder, pod in pods.items()
    }
    jobs = {holder: workload_of_job(holder.job) for holder in named - found.keys()}
    return {**found, **jobs}
