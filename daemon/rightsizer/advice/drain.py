"""How work is kept off a node, so that somebody can see to its hardware."""

from typing import Final

from rightsizer.domain.finding import Case, Instruction
from rightsizer.domain.workload import WorkloadKind

__all__ = ["drain_instructions"]

_HERE: Final = "$(hostname -s)"


def drain_instructions(case: Case, why: str) -> tuple[Instruction, ...]:
    """The commands of whoever schedules the workload; of both schedulers where nobody says.

    Args:
        case: Whose GPUs are in trouble.
        why: The reason that is left behind for others, without quotation marks.
    """
    kind = case.workload.kind if case.workload else None
    if kind is WorkloadKind.KUBERNETES:
        return _kubernetes()
    if kind is WorkloadKind.SLURM:
        return _slurm(why)
    return (*_kubernetes(), *_slurm(why))


def _kubernetes() -> tuple[Instruction, ...]:
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


def _slurm(why: str) -> tuple[Instruction, ...]:
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
