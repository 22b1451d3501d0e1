"""Base classes of owners, with the commands that manage their workloads."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.codec import convert
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import Action, Device, Instruction, Workload

HEX_DIGIT: Final = "[0-9a-f]"

Instructions = tuple[Instruction, ...]


_JOB_NUMBER: Final = re.compile(r"\d+(?:[_+]\d+)?")
"""Of a job, a task of an array or a part of a heterogeneous job."""


class NumaHome(Struct, frozen=True):
    """NUMA node of a GPU's slot, with its CPUs and the processes that belong there."""

    device: Device
    numa_node: int
    """Node of the slot, never the node that a GPU's own memory is on some platforms."""
    cpus: str
    """Empty if unknown."""
    pids: tuple[int, ...]


def shell(title: str, text: str) -> Instructions:
    """Single shell instruction."""
    return (Instruction(title, text, "sh"),)


def manifest(title: str, text: str) -> Instructions:
    """Single YAML instruction."""
    return (Instruction(title, text, "yaml"),)


_TEXTS: Final[Mapping[str, Mapping[str, Instructions]]] = convert(
    load_beside(__file__, "instructions.yaml"), dict[str, dict[str, Instructions]]
)


class Owner:
    """Owner of GPU processes: properties of its workloads, and commands to manage them.

    Commands are the texts of `instructions.yaml`; empty if none is known.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar = "default"
    """Section of the file."""
    has_pods: ClassVar = False
    has_single_jobs: ClassVar = True
    """Whether all GPUs of a workload belong to one job."""

    def workload_by_key(self, key: str, kind: str, name: str) -> Workload:
        """Workload of a key such as `KIND:NAME`."""
        return Workload(key, kind, name)

    def may_match(self, running: Workload, given: Workload) -> bool:
        """Whether a workload of processes and one of an allocation may be the same."""
        del running, given
        return False

    def job_of(self, workload: Workload) -> str:
        """Number or name of its batch job; empty without one."""
        del workload
        return ""

    def release(self, workload: Workload) -> Instructions:
        """Command to end a workload, or to scale it to zero."""
        return self._instructions("release", workload.workload_class, workload)

    def bind(self, homes: Sequence[NumaHome]) -> Instructions:
        """Bind the next start to NUMA nodes; where an owner does it for each GPU, one by one."""
        bound = self._instructions("bind")
        for home in homes:
            bound += self._instructions(
                "bind gpu",
                "" if home.cpus else "without cpus",
                gpu=home.device.title,
                cpus=home.cpus,
                node=home.numa_node,
            )
        return bound

    def request_cpus(self, title: str, per_gpu: int, gpus: int) -> Instructions:
        """Request a number of CPUs per GPU."""
        return self._instructions(
            "request_cpus", title=title, per_gpu=per_gpu, all_cpus=per_gpu * gpus
        )

    def request_gpus(self, workload: Workload, count: int) -> Instructions:
        """Request fewer GPUs."""
        return self._instructions("request_gpus", workload.workload_class, count=count)

    def request_slice(self, profile: str) -> Instructions:
        """Request a MIG slice instead of a GPU."""
        return self._instructions("request_slice", resource=profile.replace("+", "."))

    def share_device(self, action: Action) -> Instructions:
        """Let two workloads share a GPU by MPS or time-slicing."""
        return self._instructions("share_device", sharing=_sharing(action), together=2)

    def prefer_neighbors(self) -> Instructions:
        """Request GPUs connected by NVLink."""
        return self._instructions("prefer_neighbors")

    def add_replicas(self, workload: Workload, count: str) -> Instructions:
        """Scale a service to a number of replicas."""
        return self._instructions("add_replicas", workload=workload, count=count)

    def scale_by_hour(
        self, workload: Workload, spec: Sequence[str], notes: Sequence[str]
    ) -> Instructions:
        """Scale replicas by a schedule, in lines of a KEDA `spec` with comments before them."""
        del workload, spec, notes
        return ()

    def scale_by_queue(self, workload: Workload) -> Instructions:
        """Scale replicas by the number of waiting requests."""
        del workload
        return ()

    def _instructions(
        self, what: str, variant: str = "", workload: Workload | None = None, **facts: object
    ) -> Instructions:
        """Instructions of a key, or of its variant."""
        instructions = _TEXTS.get(self.texts, {})
        default = _TEXTS["default"]
        templates = (
            instructions.get(f"{what} {variant}") or instructions.get(what) or default.get(what, ())
        )
        if workload is not None:
            facts |= self._facts_of(workload)
        return tuple(
            replace(
                template,
                title=template.title.format_map(facts),
                text=template.text.format_map(facts),
            )
            for template in templates
        )

    def _facts_of(self, workload: Workload) -> dict[str, str]:
        """Shell-quoted names of a workload."""
        names = {
            "name": workload.name,
            "pod": workload.pod or workload.name,
            "container": workload.container or workload.name,
        }
        quoted = {fact: shlex.quote(name) for fact, name in names.items()}
        is_number = _JOB_NUMBER.fullmatch(workload.name) is not None
        job = workload.name if is_number else f"--name={quoted['name']}"
        namespace = f" -n {shlex.quote(workload.namespace)}" if workload.namespace else ""
        return quoted | {"kubectl": f"kubectl{namespace}", "job": job}


def _sharing(action: Action) -> str:
    return "mps" if action is Action.SHARE_MPS else "timeSlicing"


class Scheduler(Owner):
    """Owner that allocates the GPUs of nodes."""

    def drain(self, why: str) -> Instructions:
        """Drain this node for a reason without quotation marks, and undo it."""
        return self._instructions("drain", why=why)

    def drain_node(self, node: str) -> str:
        """Command to drain a node before returning it."""
        return self._instructions("drain_node", node=shlex.quote(node))[0].text

    def scale_nodes(self, minimum: int, maximum: int, lead_seconds: float) -> Instruction:
        """Scale the number of nodes with the load."""
        resume = max(600, round(2 * lead_seconds))
        return self._instructions(
            "scale_nodes", minimum=minimum, maximum=maximum, resume_seconds=resume
        )[0]

    def pack_tightly(self) -> Instructions:
        """Fill nodes one after the other."""
        return self._instructions("pack_tightly")

    def share_gpus(self, action: Action, most_together: int) -> Instructions:
        """Allocate a node's GPUs several times, by MPS or time-slicing."""
        way = _sharing(action)
        percent = 100 // most_together
        return self._instructions(
            "share_gpus", way, sharing=way, together=most_together, percent=percent
        )

    def request_pool(self, pool: str, product: str) -> Instructions:
        """Move a workload to a pool with another GPU product."""
        return self._instructions("request_pool", pool=pool, product=product)

    def request_nodes(self, gpus: int, nodes: int) -> Instructions:
        """Request the same GPUs on fewer nodes."""
        return self._instructions("request_nodes", gpus=gpus, nodes=nodes, each=-(-gpus // nodes))
