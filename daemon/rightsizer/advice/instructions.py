"""Instructions of recommendations: texts of `instructions.yaml`, owners' commands."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from rightsizer.advice.board_status import placement_of
from rightsizer.io.codec import convert
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import BY_ADDRESS, BY_INDEX, Case, Device, Instruction, cpu_list
from rightsizer.owners.owner import NumaHome, shell
from rightsizer.owners.registry import owner_of, schedulers_of

_INSTRUCTIONS: Final[Mapping[str, Instruction]] = convert(
    load_beside(__file__, "instructions.yaml"), dict[str, Instruction]
)


def instruction(name: str, uuid: str = "") -> Instruction:
    """Instruction by name, for a GPU's uuid if it refers to one.

    Raises:
        KeyError: no such instruction.
    """
    template = _INSTRUCTIONS[name]
    return replace(template, text=template.text.replace("{uuid}", nvidia_smi_id(uuid)))


def nvidia_smi_id(uuid: str) -> str:
    """Return what nvidia-smi takes for a GPU: its UUID, or the index or address in place of one."""
    return uuid.removeprefix(BY_INDEX).removeprefix(BY_ADDRESS)


def instructions(*names: str) -> tuple[Instruction, ...]:
    """Instructions by name."""
    return tuple(map(instruction, names))


_SHELL: Final = "sh"


def drain_instructions(case: Case, why: str) -> tuple[Instruction, ...]:
    """Commands to drain the node; for all schedulers if the workload has none.

    The reason is stored by the scheduler and must not contain quotation marks.
    """
    return tuple(step for owner in schedulers_of(kind_of(case)) for step in owner.drain(why))


def home_of(case: Case, device: Device) -> NumaHome | None:
    """Local CPUs and processes of a device; `None` if its NUMA node is unknown."""
    node = case.node
    placement = placement_of(case, device)
    number = device.numa_node if placement is None else placement.numa_node
    if node is None or number is None:
        return None
    if not (cpus := cpus_near(case, device)) and node.topology is not None:
        cpus = node.topology.numa_nodes.get(number, ())
    reading = node.readings.get(device.uuid)
    processes = () if reading is None else reading.processes or ()
    return NumaHome(
        device, number, cpu_list(cpus), tuple(sorted({process.pid for process in processes}))
    )


def binding_instructions(case: Case, homes: Sequence[NumaHome]) -> tuple[Instruction, ...]:
    """Commands to move running processes, then to bind the next start."""
    running = []
    for home in homes:
        for pid in home.pids:
            running += [f"taskset -apc {home.cpus} {pid}"] if home.cpus else []
            running += [f"migratepages {pid} all {home.numa_node}"]
    move = shell("Move what is running, until it restarts", "\n".join(running))
    return (
        *(move if running else ()),
        *owner_of(kind_of(case)).bind(homes),
        *(
            Instruction(
                f"By hand: start what feeds {home.device.title} on its node",
                f"CUDA_VISIBLE_DEVICES={home.device.uuid} "
                f"numactl --cpunodebind={home.numa_node} --membind={home.numa_node} COMMAND",
                _SHELL,
            )
            for home in homes
        ),
    )


def kind_of(case: Case) -> str | None:
    """Kind of the workload; `None` for a free device."""
    return case.workload.kind if case.workload else None


def cpus_near(case: Case, device: Device) -> tuple[int, ...]:
    """CPUs local to a device; empty if unknown."""
    placement = placement_of(case, device)
    return placement.cpus if placement else ()


def cpus_for_gpu(case: Case, device: Device) -> int | None:
    """Fair share of the local CPUs per GPU; `None` if unknown."""
    cpus = cpus_near(case, device)
    topology = case.node.topology if case.node else None
    if not cpus or topology is None:
        return None
    sharing = sum(place.cpus == cpus for place in topology.placements.values())
    return max(1, len(cpus) // sharing)


def dump_stacks(devices: tuple[Device, ...], title: str) -> Instruction:
    """Dump the stacks of all processes on some devices."""
    return _for_each_process(devices, title, "xargs -rn1 sudo py-spy dump --native --pid")


def show_throttling(devices: tuple[Device, ...], title: str) -> Instruction:
    """Show the throttling counters of the control groups of all processes on some devices."""
    group = '"/sys/fs/cgroup$(grep ^0:: /proc/$pid/cgroup | cut -d: -f3)/cpu.stat"'
    return _for_each_process(devices, title, f"while read -r pid; do grep thr {group}; done")


def trace_kernels(title: str, name: str, reports: str) -> Instruction:
    """Trace a minute of the program with Nsight Systems and summarize it by `nsys stats`."""
    profile = "nsys profile --trace=cuda,nvtx,osrt --delay=120 --duration=60"
    text = f"{profile} --output={name} COMMAND\nnsys stats --report={reports} {name}.nsys-rep"
    return Instruction(title, text, _SHELL)


def _for_each_process(devices: tuple[Device, ...], title: str, then: str) -> Instruction:
    uuids = dict.fromkeys(device.board_uuid for device in devices)
    ask = "--query-compute-apps=pid --format=csv,noheader"
    text = "\n".join(f"nvidia-smi --id={nvidia_smi_id(uuid)} {ask} | {then}" for uuid in uuids)
    return Instruction(title, text, _SHELL)
