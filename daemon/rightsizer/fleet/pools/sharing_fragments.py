"""What an operator applies so that several workloads of a pool get one GPU."""

from typing import Final

from rightsizer.domain.finding import Action, Instruction
from rightsizer.domain.workload import WorkloadKind

__all__ = ["sharing_fragments"]

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
