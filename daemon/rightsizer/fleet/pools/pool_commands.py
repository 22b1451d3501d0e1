"""What an operator types to take nodes out of a pool, or to let it follow its load."""

import shlex
from collections.abc import Sequence
from typing import Final

from rightsizer.advice.autoscale_schedule import Schedule
from rightsizer.advice.scaled_object import spans_of
from rightsizer.domain.finding import Instruction
from rightsizer.domain.workload import WorkloadKind

__all__ = ["follow_the_load", "pack_tightly", "take_out"]

_MOST_NODES: Final = 16
_DAY_HOURS: Final = 24
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def take_out(nodes: Sequence[str], kind: WorkloadKind | None) -> tuple[Instruction, ...]:
    """How to empty nodes, so that they can be given back; for a person to review."""
    named = tuple(nodes[:_MOST_NODES])
    if not named:
        return ()
    title = f"Empty {named[0]}" if len(nodes) == 1 else f"Empty {len(nodes)} nodes"
    if kind is WorkloadKind.SLURM:
        lines = [
            f"scontrol update nodename={shlex.quote(node)} state=drain reason=spare"
            for node in named
        ]
    else:
        lines = [
            f"kubectl drain {shlex.quote(node)} --ignore-daemonsets --delete-emptydir-data"
            for node in named
        ]
    if len(nodes) > len(named):
        lines.append(f"# and {len(nodes) - len(named)} more, the next emptiest")
    return (Instruction(title, "\n".join(lines), "sh"),)


def follow_the_load(schedule: Schedule, kind: WorkloadKind | None) -> tuple[Instruction, ...]:
    """How to let nodes come and go: the hours, and what the scheduler's own scaling is told."""
    lines = [
        f"{_clock(start, schedule)}-{_clock(end, schedule)} UTC: {nodes} nodes"
        for start, end, nodes in spans_of(schedule)
    ]
    hours = Instruction("Nodes by the hour", "\n".join(lines))
    if kind is WorkloadKind.SLURM:
        text = (
            "SuspendTime=1800\n"
            f"ResumeTimeout={max(600, round(2 * schedule.lead_seconds))}\n"
            f"SuspendExcNodes=NODES:{min(schedule.replicas)}\n"
            "# SuspendProgram and ResumeProgram turn machines off and on.\n"
        )
        return (hours, Instruction("Slurm: power saving (slurm.conf)", text))
    text = (
        "# Arguments of the cluster autoscaler; the pool's own bounds are "
        f"{min(schedule.replicas)} to {max(schedule.replicas)} nodes.\n"
        "--scale-down-unneeded-time=30m\n"
        "--scale-down-gpu-utilization-threshold=0.5\n"
        "--expander=least-waste\n"
    )
    return (hours, Instruction("Kubernetes: let the cluster autoscaler follow it", text))


def pack_tightly(kind: WorkloadKind | None) -> tuple[Instruction, ...]:
    """How to let the scheduler fill nodes one after the other."""
    if kind is WorkloadKind.SLURM:
        text = (
            "SelectTypeParameters=CR_Core_Memory,CR_Pack_Nodes\n# and no LLN=yes on the partition\n"
        )
        return (Instruction("Slurm: fill nodes one after the other (slurm.conf)", text),)
    text = (
        "# The configuration file of kube-scheduler, named by its --config.\n"
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "  - pluginConfig:\n"
        "      - name: NodeResourcesFit\n"
        "        args:\n"
        "          scoringStrategy:\n"
        "            type: MostAllocated\n"
        "            resources:\n"
        "              - name: nvidia.com/gpu\n"
        "                weight: 10\n"
    )
    return (Instruction("Kubernetes: fill nodes one after the other", text, "yaml"),)


def _clock(hour: int, schedule: Schedule) -> str:
    day, hour = divmod(hour, _DAY_HOURS)
    return f"{_DAYS[day]} {hour:02}:00" if schedule.is_weekly else f"{hour:02}:00"
