"""The ways to spread a model that a plan tries, the fewest GPUs first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.domain.settings import setting
from rightsizer.sizing.mig_board import is_slice
from rightsizer.sizing.models import Recommender, Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.soundness import layout_fault

__all__ = ["PlanSettings", "link_fault", "serving_layouts", "slice_fault", "training_layouts"]

_NODE_GPUS: Final = 8
"""Of a usual server, whatever joins them."""
_PCIE_TENSOR: Final = 2
_TENSOR: Final = (1, 2, 4, 8)
_STAGES: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How far a plan looks."""

    gpu_maximum: int = setting(
        512,
        help="The most GPUs of a candidate that a search proposes; a layout given may have more.",
        minimum=1,
    )
    layouts_per_gpu: int = setting(
        3,
        help="Of the layouts that fit on a kind of GPU, how many are compared.",
        minimum=1,
    )
    alternatives: int = setting(
        3,
        help="For how many of the best candidates other formats and slices are looked at.",
        minimum=0,
    )
    growth_candidates: int = setting(
        5,
        help="How many of the best candidates are looked at again for each month of growth.",
        minimum=1,
    )
    switch_saving_ratio: float = setting(
        0.1,
        help="What another kind of GPU has to save of the rest of the growth, that changing over "
        "to it is advised.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="assumed: what moving a service takes",
    )


def serving_layouts(requirement: Requirement, gpu_maximum: int) -> Iterator[Parallelism]:
    """Of one replica; stages only beyond what one server holds."""
    for stages in _STAGES:
        for tensor in _TENSOR if stages == 1 else (_NODE_GPUS,):
            layout = Parallelism(tensor=tensor, pipeline=stages)
            if layout.gpus <= gpu_maximum and _is_possible(requirement, layout):
                yield layout


def training_layouts(requirement: Requirement, gpu_maximum: int) -> tuple[Parallelism, ...]:
    """By the number of GPUs; of as many, those with less traffic first.

    More replicas help memory only where state is sharded over them, and never are more than the
    sequences of a step.
    """
    training = requirement.training
    replicas = [1]
    if training.zero_stage > 0:
        while replicas[-1] * 2 <= _most_replicas(requirement, gpu_maximum):
            replicas.append(replicas[-1] * 2)
    layouts = [
        Parallelism(tensor=tensor, pipeline=stages, data=data)
        for tensor in _TENSOR
        for stages in _STAGES
        for data in replicas
    ]
    possible = (
        each for each in layouts if each.gpus <= gpu_maximum and _is_possible(requirement, each)
    )
    return tuple(sorted(possible, key=_traffic))


def link_fault(requirement: Requirement, board: Board, layout: Parallelism) -> str | None:
    """Why GPUs of a kind are not joined well enough for a layout, or `None`.

    Training in tensor parallel moves all activations twice a layer, which PCIe carries between two
    GPUs at most.
    """
    linked = max(board.linked_gpu_count or 1, _PCIE_TENSOR)
    if requirement.task.trains and layout.tensor > linked:
        return (
            f"tensor parallel over {layout.tensor} GPUs, of which {linked} are joined at most;"
            " take pipeline or data parallel"
        )
    return None


def slice_fault(requirement: Requirement, board: Board, layout: Parallelism) -> str | None:
    """Why slices cannot be joined to a layout, or `None`.

    A process sees one slice, and nothing copies between slices but the host; replicas that serve
    need nothing of each other.
    """
    replicas = layout.data if requirement.task.trains else 1
    joined = layout.tensor * layout.pipeline * replicas
    if joined > 1 and is_slice(board):
        return f"{joined} slices of MIG cannot be joined; take a larger slice, or whole GPUs"
    return None


def _traffic(layout: Parallelism) -> tuple[int, ...]:
    """Replicas exchange the least, tensor parallel ranks wait the least for one another."""
    return layout.gpus, layout.tensor * layout.pipeline, layout.pipeline


def _most_replicas(requirement: Requirement, gpu_maximum: int) -> int:
    training = requirement.training
    if training.global_batch is None:
        return gpu_maximum
    return min(gpu_maximum, max(1, training.global_batch // training.micro_batch))


def _is_possible(requirement: Requirement, layout: Parallelism) -> bool:
    model = requirement.model
    if not isinstance(model, Transformer | Recommender) and layout.tensor * layout.pipeline > 1:
        # Networks for images are small; they are replicated.
        return False
    return layout_fault(model, layout) is None
