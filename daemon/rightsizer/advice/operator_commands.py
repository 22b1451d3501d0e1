"""Commands an operator types: by the kind of owner, and to look closer at a workload."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.board_status import board_uuid
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Instruction
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind


def cpu_list(cpus: Iterable[int]) -> str:
    """Numbers as ranges: `0-27,56-83`."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


_HERE: Final = "$(hostname -s)"


def drain_instructions(case: Case, why: str) -> tuple[Instruction, ...]:
    """The commands of whoever schedules the workload; of both schedulers where nobody says.

    Args:
        case: Whose GPUs are in trouble.
        why: The reason that is left behind for others, without quotation marks.
    """
    kind = case.workload.kind if case.workload else None
    if kind is WorkloadKind.KUBERNETES:
        return _drain_kubernetes()
    if kind is WorkloadKind.SLURM:
        return _drain_slurm(why)
    return (*_drain_kubernetes(), *_drain_slurm(why))


def _drain_kubernetes() -> tuple[Instruction, ...]:
    return (
        Instruction(
            "Kubernetes: let nothing new start on the node, then move what runs",
            "# On another machine, put the node's name in the place of the host name.\n"
            f'kubectl cordon "{_HERE}"\n'
            f'kubectl drain "{_HERE}" --ignore-daemonsets --delete-emptydir-data',
            "sh",
        ),
        Instruction(
            "Kubernetes: use the node again, when it is repaired",
            f'kubectl uncordon "{_HERE}"',
            "sh",
        ),
    )


def _drain_slurm(why: str) -> tuple[Instruction, ...]:
    return (
        Instruction(
            "Slurm: let jobs end and start none on the node",
            f'scontrol update NodeName="{_HERE}" State=DRAIN Reason="rightsizer: {why}"',
            "sh",
        ),
        Instruction(
            "Slurm: use the node again, when it is repaired",
            f'scontrol update NodeName="{_HERE}" State=RESUME',
            "sh",
        ),
    )


_MOST_PROCESSES: Final = 8
"""A command that nobody reads to its end is not reviewed."""


def release_instructions(case: Case) -> tuple[Instruction, ...]:
    """The command that ends the workload, or scales it to nothing, for a person to review.

    Nothing where nobody holds the GPUs: whoever hands them out has them already.
    """
    workload = case.workload
    if workload is None:
        return ()
    if workload.kind is WorkloadKind.KUBERNETES:
        return (_release_kubernetes(workload),)
    if workload.kind is WorkloadKind.SLURM:
        return (Instruction("End the Slurm job", f"scancel {_job(workload.name)}", "sh"),)
    if workload.kind is WorkloadKind.CONTAINER:
        container = workload.container or workload.name
        return (Instruction("Stop the container", f"docker stop {_word(container)}", "sh"),)
    if workload.kind is WorkloadKind.SYSTEMD:
        return (Instruction("Stop the unit", f"systemctl stop {_word(workload.name)}", "sh"),)
    return _processes(case)


def _release_kubernetes(workload: Workload) -> Instruction:
    namespace = f" -n {_word(workload.namespace)}" if workload.namespace else ""
    if workload.workload_class is WorkloadClass.SERVING:
        target = _word(f"deployment/{workload.name}")  # A pod's name tells no other owner.
        command = f"kubectl{namespace} scale {target} --replicas=0"
        return Instruction("Scale to nothing until it is needed", command, "sh")
    if workload.workload_class is WorkloadClass.BATCH:
        command = f"kubectl{namespace} delete job {_word(workload.name)}"
        return Instruction("Delete the job", command, "sh")
    command = f"kubectl{namespace} delete pod {_word(workload.pod or workload.name)}"
    return Instruction("Delete the pod, after saving what is open in it", command, "sh")


def _processes(case: Case) -> tuple[Instruction, ...]:
    node = case.node
    if node is None:
        return ()
    uuids = [device.uuid for device in case.devices]
    if any(len(node.holdings.get(uuid, ())) != 1 for uuid in uuids):
        return ()  # Whose processes these are is not known.
    readings = [node.readings[uuid] for uuid in uuids if uuid in node.readings]
    found = {process.pid for reading in readings for process in reading.processes or ()}
    if not found or len(found) > _MOST_PROCESSES:
        return ()
    command = " ".join(["kill", *map(str, sorted(found))])
    return (Instruction("End the processes on these GPUs, after asking their user", command, "sh"),)


def _job(name: str) -> str:
    """A job's number, or its name where that is all that is known."""
    is_number = name.replace("_", "").isdecimal()
    return name if is_number else f"--name={_word(name)}"


def _word(text: str) -> str:
    return shlex.quote(text)


_KUBELET: Final = """\
# The kubelet's configuration; drain the node and remove cpu_manager_state and
# memory_manager_state from the kubelet's folder before it starts anew.
cpuManagerPolicy: static
memoryManagerPolicy: Static        # needs reservedMemory
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
# Only pods of the Guaranteed class with whole CPUs are bound: requests equal to limits."""


@dataclass(frozen=True, slots=True)
class NumaHome:
    """The NUMA node of a GPU's slot, with its CPUs and who should be there."""

    device: Device
    numa_node: int
    """Of the slot: never the node that a GPU's own memory is on some platforms."""
    cpus: str
    """Empty where nobody knows them."""
    pids: tuple[int, ...]


def home_of(case: Case, device: Device) -> NumaHome | None:
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
    return NumaHome(device, number, cpu_list(cpus), tuple(sorted({each.pid for each in processes})))


def binding_instructions(case: Case, homes: Sequence[NumaHome]) -> tuple[Instruction, ...]:
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


def _running(home: NumaHome) -> Iterator[str]:
    for pid in home.pids:
        if home.cpus:
            yield f"taskset -apc {home.cpus} {pid}"
        yield f"migratepages {pid} all {home.numa_node}"


def _numactl(home: NumaHome) -> Instruction:
    return Instruction(
        f"By hand: start what feeds GPU {home.device.index} on its node",
        f"CUDA_VISIBLE_DEVICES={home.device.uuid} "
        f"numactl --cpunodebind={home.numa_node} --membind={home.numa_node} COMMAND",
        "sh",
    )


def _systemd(home: NumaHome) -> Instruction:
    cpus = f"CPUAffinity={home.cpus}\n" if home.cpus else ""
    return Instruction(
        f"systemd: bind the unit that feeds GPU {home.device.index} (systemctl edit)",
        f"[Service]\n{cpus}NUMAPolicy=bind\nNUMAMask={home.numa_node}",
    )


def _container(home: NumaHome) -> Instruction:
    return Instruction(
        f"Containers: bind the one that feeds GPU {home.device.index}",
        f"docker run --cpuset-cpus={home.cpus} --cpuset-mems={home.numa_node} ...",
        "sh",
    )


_SHELL: Final = "sh"


def class_of(case: Case) -> WorkloadClass:
    """The workload's class; unknown where nobody holds the device."""
    return case.workload.workload_class if case.workload else WorkloadClass.UNKNOWN


def kind_of(case: Case) -> WorkloadKind | None:
    """Where the workload comes from; `None` where nobody holds the device."""
    return case.workload.kind if case.workload else None


def physical_uuid(device: Device) -> str:
    """That of the GPU that a device is on, which is what `nvidia-smi --id` takes."""
    return device.mig.parent_uuid if device.mig else device.uuid


def cpus_near(case: Case, device: Device) -> tuple[int, ...]:
    """The CPUs next to a device; empty where nobody knows."""
    topology = case.node.topology if case.node else None
    place = topology.placements.get(physical_uuid(device)) if topology else None
    return place.cpus if place else ()


def cpus_for_gpu(case: Case, device: Device) -> int | None:
    """How many of those near it a GPU may take if all GPUs there take as many."""
    cpus, topology = cpus_near(case, device), case.node.topology if case.node else None
    if not cpus or topology is None:
        return None
    sharing = sum(place.cpus == cpus for place in topology.placements.values())
    return max(1, len(cpus) // sharing)


def dump_stacks(devices: tuple[Device, ...], title: str) -> Instruction:
    """Where the threads of all that is on some devices stand."""
    return _for_each_process(devices, title, "xargs -rn1 sudo py-spy dump --native --pid")


def show_throttling(devices: tuple[Device, ...], title: str) -> Instruction:
    """How often the control groups of all that is on some devices were at their quota."""
    group = '"/sys/fs/cgroup$(grep ^0:: /proc/$pid/cgroup | cut -d: -f3)/cpu.stat"'
    return _for_each_process(devices, title, f"while read -r pid; do grep thr {group}; done")


def trace_kernels(title: str, name: str, reports: str) -> Instruction:
    """A minute of the program under Nsight Systems.

    Args:
        title: What for.
        name: Of the file that is written.
        reports: Those of `nsys stats`, by their names.
    """
    return Instruction(
        title=title,
        text=(
            f"nsys profile --trace=cuda,nvtx,osrt --delay=120 --duration=60 --output={name}"
            " COMMAND\n"
            f"nsys stats --report={reports} {name}.nsys-rep"
        ),
        language=_SHELL,
    )


def _for_each_process(devices: tuple[Device, ...], title: str, then: str) -> Instruction:
    """A command over the processes on some devices, one line for each GPU."""
    uuids = dict.fromkeys(physical_uuid(device) for device in devices)
    ask = "--query-compute-apps=pid --format=csv,noheader"
    text = "\n".join(f"nvidia-smi --id={uuid} {ask} | {then}" for uuid in uuids)
    return Instruction(title, text, _SHELL)
