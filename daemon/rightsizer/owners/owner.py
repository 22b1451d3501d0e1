"""Protocols of the collector of one owner and of the resolver over several."""

from collections.abc import Mapping
from typing import Final, Protocol

from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.workload import Workload

Allocations = Mapping[str, tuple[Workload, ...]]
"""Who was given which device, by the device's key: a GPU's or MIG instance's uuid, `index:N`, or a
lower-case PCI address as in `0000:1b:00.0`; a MIG instance's also by its GPU's key and number, as
in `index:0/gi7`."""


class OwnerCollector(Protocol):
    """Knows whose a process is: Kubernetes, Slurm, systemd."""

    def workload_of(self, pid: int) -> Workload | None:
        """The workload that a process belongs to; `None` where nobody knows."""

    def allocations(self) -> Allocations:
        """The devices that a scheduler has given away, used or not; empty without a scheduler."""


class WorkloadResolver(OwnerCollector, Protocol):
    """Several owners as one, some of which ask others."""

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """How each that asks others fared last, by the name of whom it asks."""

    def close(self) -> None:
        """End what was started."""


HEX_DIGIT: Final = "[0-9a-f]"
