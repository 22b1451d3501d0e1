"""Where a GPU's processes belong, and how each kind of owner is told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.cpu_list import cpu_list
from rightsizer.advice.standing import board_uuid
from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case, Instruction
from rightsizer.domain.workload import WorkloadKind

__all__ = ["Home", "binding_instructions", "home_of"]

_KUBELET: Final = """\
# The kubelet's configuration; drain the node and remove cpu_manager_state and
# memory_manager_state from the kubelet's folder before it starts anew.
cpuManagerPolicy: static
memoryManagerPolicy: Static        # needs reservedMemory
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
# Only pods of the Guaranteed class with whole CPUs are bound: requests equal to limits."""


@dataclass(frozen=True, slots=True)
class Home:
    """The NUMA node of a GPU's slot, with its CPUs and who should be there."""

    device: Device
    numa_node: int
    """Of the slot: never the node that a GPU's own memory is on some platforms."""
    cpus: str
    """Empty where nobody knows them."""
    pids: tuple[int, ...]


def home_of(case: Case, device: Device) -> Home | None:
    """Where the processes of a device belong; `None` where its NUMA node is not known."""
    node = case.node
    if node is None:
        return None
    topology = node.topology
    placement = None if topology is None else topology.placements.get(board_uuid(device))
    number = device.numa_node if placement is None else placement.numa_node
    if number is None:
        return None
    cpus = () if placement is None else placement.cpus
    if not cpus and topology is not None:
        cpus = topology.numa_nodes.get(number, ())
    reading = node.readings.get(device.uuid)
    processes = () if reading is None else reading.processes or ()
    return Home(device, number, cpu_list(cpus), tuple(sorted({each.pid for each in processes})))


def binding_instructions(case: Case, homes: Sequence[Home]) -> tuple[Instruction, ...]:
    """What is running first, then how its owner starts it right the next time."""
    kind = case.workload.kind if case.workload else None
    running = "\n".join(line for home in homes for line in _running(home))
    found = []
    if running:
        found.append(Instruction("Move what is running, until it starts anew", running, "sh"))
    if kind is WorkloadKind.KUBERNETES:
        found.append(Instruction("Kubernetes: keep pods on one NUMA node", _KUBELET, "yaml"))
    elif kind is WorkloadKind.SLURM:
        found.append(
            Instruction(
                "Slurm: give each task the GPU that is nearest to its CPUs",
                "srun --gpus-per-task=1 --gpu-bind=closest --cpu-bind=cores --mem-bind=local ...",
                "sh",
            )
        )
    elif kind is WorkloadKind.SYSTEMD:
        found += [_systemd(home) for home in homes]
    elif kind is WorkloadKind.CONTAINER:
        found += [_container(home) for home in homes if home.cpus]
    return (*found, *(_numactl(home) for home in homes))


def _running(home: Home) -> Iterator[str]:
    for pid in home.pids:
        if home.cpus:
            yield f"taskset -apc {home.cpus} {pid}"
        yield f"migratepages {pid} all {home.numa_node}"


def _numactl(home: Home) -> Instruction:
    return Instruction(
        f"By hand: start what feeds GPU {home.device.index} on its node",
        f"CUDA_VISIBLE_DEVICES={home.device.uuid} "
        f"numactl --cpunodebind={home.numa_node} --membind={home.numa_node} COMMAND",
        "sh",
    )


def _systemd(home: Home) -> Instruction:
    cpus = f"CPUAffinity={home.cpus}\n" if home.cpus else ""
    return Instruction(
        f"systemd: bind the unit that feeds GPU {home.device.index} (systemctl edit)",
        f"[Service]\n{cpus}NUMAPolicy=bind\nNUMAMask={home.numa_node}",
    )


def _container(home: Home) -> Instruction:
    return Instruction(
        f"Containers: bind the one that feeds GPU {home.device.index}",
        f"docker run --cpuset-cpus={home.cpus} --cpuset-mems={home.numa_node} ...",
        "sh",
    )
