"""Base of the owners of GPU processes: facts, commands, and the protocols of their collectors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Instruction
from rightsizer.model.frozen import dataclass
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.background_fetcher import BackgroundFetcher

HEX_DIGIT: Final = "[0-9a-f]"
THIS_NODE: Final = "$(hostname -s)"

Allocations = Mapping[str, tuple[Workload, ...]]
"""Workloads that each device was allocated to, by the device's key: a GPU's or MIG instance's uuid,
`index:N`, or a lower-case PCI address as in `0000:1b:00.0`; a MIG instance's also by its GPU's key
and number, as in `index:0/gi7`."""

Instructions = tuple[Instruction, ...]


class OwnerCollector(Protocol):
    """Collector of the processes and allocations of one owner."""

    def workload_of(self, pid: int) -> Workload | None:
        """The workload that a process belongs to; `None` where that is unknown."""

    def allocations(self) -> Allocations:
        """Devices that a scheduler has allocated, used or not; empty without a scheduler."""


class NodeCollector(OwnerCollector):
    """Collector on this node; by default one without allocations and without a server to ask."""

    fetcher: BackgroundFetcher[Any] | None = None
    """What asks its server, if there is one."""

    def allocations(self) -> Allocations:
        """None: the owner allocates no devices."""
        return {}

    def generation(self) -> int:
        """Number that grows when former answers no longer hold."""
        return 0

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """Outcomes of the last requests, by the server's name."""
        return {} if self.fetcher is None else self.fetcher.outcomes()

    def close(self) -> None:
        """Stop the thread, if there is one."""
        if self.fetcher is not None:
            self.fetcher.close()


class WorkloadResolver(OwnerCollector, Protocol):
    """Several collectors as one, some of which ask servers."""

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """The last outcome of each collector that asks a server, by the server's name."""

    def close(self) -> None:
        """Stop the threads."""


@dataclass(frozen=True, slots=True)
class NumaHome:
    """The NUMA node of a GPU's slot, with its CPUs and the processes that belong there."""

    device: Device
    numa_node: int
    """Of the slot: never the node that a GPU's own memory is on some platforms."""
    cpus: str
    """Empty where they are unknown."""
    pids: tuple[int, ...]


def shell(title: str, text: str) -> Instructions:
    """One instruction to type."""
    return (Instruction(title, text, "sh"),)


def manifest(title: str, text: str) -> Instructions:
    """One instruction of YAML."""
    return (Instruction(title, text, "yaml"),)


class Owner:
    """An owner of GPU processes: what sets its workloads apart, and the commands to manage them.

    These are the defaults: commands by hand, or none where no command is known.
    """

    kinds: ClassVar[tuple[WorkloadKind, ...]] = ()
    has_pods: ClassVar = False
    has_single_jobs: ClassVar = True
    """Whether all GPUs of a workload belong to one job."""

    def workload_by_key(self, key: str, kind: WorkloadKind, name: str) -> Workload:
        """The workload of a key such as `KIND:NAME`."""
        return Workload(key, kind, name)

    def may_match(self, running: Workload, given: Workload) -> bool:
        """Whether a workload of processes and one of an allocation may be the same one."""
        del running, given
        return False

    def job_of(self, workload: Workload) -> str:
        """The number or name of its batch job; empty without one."""
        del workload
        return ""

    def release(self, workload: Workload) -> Instructions:
        """The command that ends a workload, or scales it to nothing."""
        del workload
        return ()

    def bind(self, homes: Sequence[NumaHome]) -> Instructions:
        """How the next start is bound to NUMA nodes."""
        del homes
        return ()

    def request_cpus(self, title: str, per_gpu: int, gpus: int) -> Instructions:
        """How a workload gets so many CPUs for each of its GPUs."""
        del gpus
        text = f"{per_gpu} CPUs for each GPU; a quota below that holds it back"
        return (Instruction(title, text),)

    def request_gpus(self, workload: Workload, count: int) -> Instructions:
        """How a workload gets fewer GPUs."""
        del workload
        text = f"Give it {count} GPUs, by CUDA_VISIBLE_DEVICES or --gpus."
        return (Instruction("Give it fewer GPUs", text),)

    def request_slice(self, profile: str) -> Instructions:
        """How a workload gets a MIG slice in place of a GPU."""
        del profile
        return ()

    def share_device(self, action: Action) -> Instructions:
        """How two workloads share a GPU by MPS or time-slicing."""
        del action
        return ()

    def prefer_neighbors(self) -> Instructions:
        """How a workload gets GPUs that are joined by NVLink."""
        return ()

    def add_replicas(self, workload: Workload, count: str) -> Instructions:
        """How a service gets so many replicas."""
        del workload, count
        return ()

    def scale_by_hour(
        self, workload: Workload, spec: Sequence[str], notes: Sequence[str]
    ) -> Instructions:
        """How replicas follow a schedule: lines of a KEDA `spec`, and comments before them."""
        del workload, spec, notes
        return ()

    def scale_by_queue(self, workload: Workload) -> Instructions:
        """How replicas follow the requests that wait."""
        del workload
        return ()


class Scheduler(Owner, ABC):
    """An owner that allocates the GPUs of nodes."""

    @abstractmethod
    def drain(self, why: str) -> Instructions:
        """How to drain this node for a reason without quotation marks, and how to use it again."""

    @abstractmethod
    def drain_node(self, node: str) -> str:
        """The command that drains a node which is given back."""

    @abstractmethod
    def scale_nodes(self, minimum: int, maximum: int, lead_seconds: float) -> Instruction:
        """How the number of nodes follows the load."""

    @abstractmethod
    def pack_tightly(self) -> Instructions:
        """How nodes are filled one after the other."""

    @abstractmethod
    def share_gpus(self, action: Action, most_together: int) -> Instructions:
        """How GPUs of a node are allocated several times, by MPS or time-slicing."""

    @abstractmethod
    def request_pool(self, pool: str, product: str) -> Instructions:
        """How a workload moves to another pool, whose GPUs are a product."""

    @abstractmethod
    def request_nodes(self, gpus: int, nodes: int) -> Instructions:
        """How a workload gets its GPUs on fewer nodes."""
