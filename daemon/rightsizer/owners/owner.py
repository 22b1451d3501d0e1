"""Base of the owners of GPU processes: facts, commands, and the protocols of their collectors."""

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, Protocol

from rightsizer.io.yaml import load_beside
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Instruction
from rightsizer.model.frozen import dataclass
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.background_fetcher import BackgroundFetcher

HEX_DIGIT: Final = "[0-9a-f]"

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
        return {}


class NodeCollector(OwnerCollector):
    """Collector on this node; by default one without a server to ask."""

    fetcher: BackgroundFetcher[Any] | None = None
    """What asks its server, if there is one."""

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
    """Several collectors as one, some of which ask servers; by default none does."""

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """The last outcome of each collector that asks a server, by the server's name."""
        return {}

    def sees_processes(self) -> bool:
        """Whether processes of other users are to be seen."""
        return True

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


@cache
def _texts() -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_beside(__file__, "instructions.yaml")
    return found


class Owner:
    """An owner of GPU processes: what sets its workloads apart, and the commands to manage them.

    The commands are the texts of `instructions.yaml`; there are none where no command is known.
    """

    kinds: ClassVar[tuple[WorkloadKind, ...]] = ()
    texts: ClassVar = "default"
    """Its section of the file."""
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
        return self._instructions("release", workload.workload_class, workload)

    def bind(self, homes: Sequence[NumaHome]) -> Instructions:
        """How the next start is bound to NUMA nodes."""
        del homes
        return self._instructions("bind")

    def request_cpus(self, title: str, per_gpu: int, gpus: int) -> Instructions:
        """How a workload gets so many CPUs for each of its GPUs."""
        return self._instructions(
            "request_cpus", title=title, per_gpu=per_gpu, all_cpus=per_gpu * gpus
        )

    def request_gpus(self, workload: Workload, count: int) -> Instructions:
        """How a workload gets fewer GPUs."""
        return self._instructions("request_gpus", workload.workload_class, count=count)

    def request_slice(self, profile: str) -> Instructions:
        """How a workload gets a MIG slice in place of a GPU."""
        return self._instructions("request_slice", resource=profile.replace("+", "."))

    def share_device(self, action: Action) -> Instructions:
        """How two workloads share a GPU by MPS or time-slicing."""
        return self._instructions("share_device", sharing=_sharing(action), together=2)

    def prefer_neighbors(self) -> Instructions:
        """How a workload gets GPUs that are joined by NVLink."""
        return self._instructions("prefer_neighbors")

    def add_replicas(self, workload: Workload, count: str) -> Instructions:
        """How a service gets so many replicas."""
        return self._instructions("add_replicas", workload=workload, count=count)

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

    def _instructions(
        self, what: str, variant: str = "", workload: Workload | None = None, **facts: object
    ) -> Instructions:
        """The instructions of a key, or of the key and a variant of it."""
        own, default = _texts().get(self.texts, {}), _texts()["default"]
        found = own.get(f"{what} {variant}") or own.get(what) or default.get(what, ())
        if workload is not None:
            facts |= self._facts_of(workload)
        return tuple(
            Instruction(
                each["title"].format_map(facts),
                each["text"].format_map(facts),
                each.get("language", "text"),
            )
            for each in found
        )

    def _facts_of(self, workload: Workload) -> dict[str, str]:
        """Names of a workload, for a shell."""
        names = {
            "name": workload.name,
            "pod": workload.pod or workload.name,
            "container": workload.container or workload.name,
            # A pod's name gives no other owner than a Deployment.
            "deployment": f"deployment/{workload.name}",
        }
        quoted = {fact: shlex.quote(name) for fact, name in names.items()}
        is_number = workload.name.replace("_", "").isdecimal()
        job = workload.name if is_number else f"--name={quoted['name']}"
        namespace = f" -n {shlex.quote(workload.namespace)}" if workload.namespace else ""
        return quoted | {"kubectl": f"kubectl{namespace}", "job": job}


def _sharing(action: Action) -> str:
    return "mps" if action is Action.SHARE_MPS else "timeSlicing"


class Scheduler(Owner):
    """An owner that allocates the GPUs of nodes."""

    def drain(self, why: str) -> Instructions:
        """How to drain this node for a reason without quotation marks, and how to use it again."""
        return self._instructions("drain", why=why)

    def drain_node(self, node: str) -> str:
        """The command that drains a node which is given back."""
        return self._instructions("drain_node", node=shlex.quote(node))[0].text

    def scale_nodes(self, minimum: int, maximum: int, lead_seconds: float) -> Instruction:
        """How the number of nodes follows the load."""
        resume = max(600, round(2 * lead_seconds))
        return self._instructions(
            "scale_nodes", minimum=minimum, maximum=maximum, resume_seconds=resume
        )[0]

    def pack_tightly(self) -> Instructions:
        """How nodes are filled one after the other."""
        return self._instructions("pack_tightly")

    def share_gpus(self, action: Action, most_together: int) -> Instructions:
        """How GPUs of a node are allocated several times, by MPS or time-slicing."""
        way, percent = _sharing(action), 100 // most_together
        return self._instructions(
            "share_gpus", way, sharing=way, together=most_together, percent=percent
        )

    def request_pool(self, pool: str, product: str) -> Instructions:
        """How a workload moves to another pool, whose GPUs are a product."""
        return self._instructions("request_pool", pool=pool, product=product)

    def request_nodes(self, gpus: int, nodes: int) -> Instructions:
        """How a workload gets its GPUs on fewer nodes."""
        return self._instructions("request_nodes", gpus=gpus, nodes=nodes, each=-(-gpus // nodes))
