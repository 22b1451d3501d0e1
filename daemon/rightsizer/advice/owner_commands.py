"""What an operator types to give a workload's GPUs back, by who owns it."""

import shlex
from typing import Final

from rightsizer.domain.finding import Case, Instruction
from rightsizer.domain.workload import Workload, WorkloadClass, WorkloadKind

__all__ = ["give_back"]

_MOST_PROCESSES: Final = 8
"""A command that nobody reads to its end is not reviewed."""


def give_back(case: Case) -> tuple[Instruction, ...]:
    """The command that ends the workload, or scales it to nothing, for a person to review.

    Nothing where nobody holds the GPUs: whoever hands them out has them already.
    """
    workload = case.workload
    if workload is None:
        return ()
    if workload.kind is WorkloadKind.KUBERNETES:
        return (_kubernetes(workload),)
    if workload.kind is WorkloadKind.SLURM:
        return (Instruction("End the Slurm job", f"scancel {_job(workload.name)}", "sh"),)
    if workload.kind is WorkloadKind.CONTAINER:
        container = workload.container or workload.name
        return (Instruction("Stop the container", f"docker stop {_word(container)}", "sh"),)
    if workload.kind is WorkloadKind.SYSTEMD:
        return (Instruction("Stop the unit", f"systemctl stop {_word(workload.name)}", "sh"),)
    return _processes(case)


def _kubernetes(workload: Workload) -> Instruction:
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
