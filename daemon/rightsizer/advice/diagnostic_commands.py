"""Commands that look closer at a workload, filled in with what is known of its node."""

from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Instruction
from rightsizer.model.workload import WorkloadClass, WorkloadKind

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
