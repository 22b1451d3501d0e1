"""Commands and manifests for pools: remove nodes, scale by load, share GPUs."""

import shlex
from collections.abc import Sequence
from typing import Final

from rightsizer.advice.autoscale_schedule import ReplicaSchedule, spans_of
from rightsizer.model.finding import Action, Instruction
from rightsizer.model.workload import WorkloadKind

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


def follow_the_load(
    schedule: ReplicaSchedule, kind: WorkloadKind | None
) -> tuple[Instruction, ...]:
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


def _clock(hour: int, schedule: ReplicaSchedule) -> str:
    day, hour = divmod(hour, _DAY_HOURS)
    return f"{_DAYS[day]} {hour:02}:00" if schedule.is_weekly else f"{hour:02}:00"


_PLUGIN_KEYS: Final = {Action.SHARE_MPS: "mps", Action.SHARE_TIMESLICE: "timeSlicing"}


def sharing_fragments(
    action: Action, most_together: int, slices: tuple[str, ...], kind: WorkloadKind | None
) -> tuple[Instruction, ...]:
    """How GPUs of a node are given out several times, or in slices.

    Args:
        action: Which of the three ways.
        most_together: Workloads on one GPU.
        slices: MIG profiles of a GPU that is cut.
        kind: Who hands GPUs out.
    """
    if action is Action.SHARE_MIG:
        text = f"# The GPU must be empty.\nnvidia-smi mig -i UUID -cgi {','.join(slices)} -C\n"
        return (Instruction("Cut a GPU of the pool", text, "sh"),)
    if kind is WorkloadKind.SLURM:
        part = 100 // most_together
        text = (
            "# gres.conf, on the nodes that share\n"
            f"Name={'mps' if action is Action.SHARE_MPS else 'shard'} "
            f"Count={100 if action is Action.SHARE_MPS else most_together}\n"
            f"# and in the jobs: --gres={'mps' if action is Action.SHARE_MPS else 'shard'}:"
            f"{part if action is Action.SHARE_MPS else 1}\n"
        )
        return (Instruction("Slurm: give out parts of a GPU", text),)
    text = (
        "# The configuration file of the NVIDIA device plugin.\n"
        "version: v1\n"
        "sharing:\n"
        f"  {_PLUGIN_KEYS[action]}:\n"
        "    resources:\n"
        "      - name: nvidia.com/gpu\n"
        f"        replicas: {most_together}\n"
    )
    title = "Let the NVIDIA device plugin give out each GPU of the sharing nodes several times"
    return (Instruction(title, text, "yaml"),)
