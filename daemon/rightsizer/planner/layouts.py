"""Layouts that a search tries, and why GPUs of a kind cannot have one."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.planner.requirement_checks import layout_fault
from rightsizer.sizing.collectives import SERVER_GPUS
from rightsizer.sizing.mig import is_slice
from rightsizer.sizing.models import RecommenderModel, Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement

_PCIE_TENSOR: Final = 2
_TENSOR_RANKS: Final = (1, 2, 4, 8)
_EXPERT_SPREADS: Final = (2, 4, 8, 16, 32, 64)
_ATTENTION: Final = (1, 2, 4)
"""Tensor parallel ranks of one attention, beside distributed experts."""
_STAGES: Final = (1, 2, 4, 8, 16)


def possible_layouts(
    requirement: Requirement, gpu_maximum: int, node_gpus: int, joined: int
) -> Sequence[Parallelism]:
    """Return the layouts to try: of one serving replica, or by total GPUs in training.

    Serving uses pipeline stages only beyond one server. In training, more replicas help memory
    only if state is sharded over them, and never exceed the sequences of a step. For equal
    numbers of GPUs, layouts with less traffic come first: replicas communicate the least, and
    tensor parallel ranks wait the least for each other. `joined`: GPUs that share links, or a node.
    """
    stated = () if requirement.tensor is None else (requirement.tensor,)
    training = requirement.training
    trains = requirement.task.trains
    replicas = [1]
    replica_maximum = gpu_maximum
    if training.global_batch is not None:
        replica_maximum = min(
            replica_maximum, max(1, training.global_batch // training.micro_batch)
        )
    while trains and training.zero_stage > 0 and replicas[-1] * 2 <= replica_maximum:
        replicas.append(replicas[-1] * 2)
    # Image networks are small; they are replicated.
    is_divided = isinstance(requirement.model, Transformer | RecommenderModel)
    layouts = [
        layout
        for stages in _STAGES
        for tensor in stated or (_TENSOR_RANKS if trains or stages == 1 else (SERVER_GPUS,))
        for data in replicas
        if is_divided or stages * tensor == 1
        for spread in _spreads(requirement, tensor, data, (node_gpus, joined))
        if (layout := Parallelism(tensor, stages, data, spread)).gpus <= gpu_maximum
        and layout_fault(requirement.model, layout) is None
    ]
    if trains:
        layouts.sort(
            key=lambda parallelism: (
                parallelism.gpus,
                parallelism.tensor * parallelism.pipeline,
                parallelism.pipeline,
            )
        )
    return layouts


def _spreads(
    requirement: Requirement, tensor: int, data: int, near: Sequence[int]
) -> Sequence[int]:
    """Return over how many replicas to spread the experts of a mixture in training.

    Within each of `near` (GPUs of a usual server, and of those joined by links), over several
    servers, and not at all, to be compared.
    """
    if not requirement.task.trains or requirement.why_experts_stay:
        return (1,)
    spread_maximum = min(data, _EXPERT_SPREADS[-1])
    # Replicas are powers of 2, and divide by the spread.
    powers = (2 ** int(math.log2(gpus)) for gpus in near)
    within = (min(spread_maximum, max(1, gpus // tensor)) for gpus in powers)
    return tuple(dict.fromkeys((*within, spread_maximum, 1)))


def expert_layouts(requirement: Requirement, gpu_maximum: int) -> Sequence[Parallelism]:
    """Return layouts of a serving mixture: data-parallel attention, one shared copy of experts.

    Fewest GPUs first, also over several servers; with whole attention on one GPU, no reductions
    are needed, and a latent cache is stored once.
    """
    model = requirement.model
    is_mixture = isinstance(model, Transformer) and model.experts > 1
    if requirement.task.trains or not is_mixture or requirement.tensor is not None:
        return ()
    ways = product(_EXPERT_SPREADS, _ATTENTION)
    layouts = (Parallelism(tensor, 1, spread, spread) for spread, tensor in ways)
    possible = [layout for layout in layouts if layout.gpus <= gpu_maximum]
    possible = [parallelism for parallelism in possible if layout_fault(model, parallelism) is None]
    return sorted(possible, key=lambda parallelism: (parallelism.gpus, parallelism.tensor))


def replicated(layout: Parallelism, replicas: int) -> Parallelism:
    """Return a layout with so many times its replicas."""
    return replace(layout, data=layout.data * replicas)


def link_fault(requirement: Requirement, board: Board, layout: Parallelism) -> str | None:
    """Return why the links of GPUs do not support a layout, or `None`.

    Tensor parallel training moves all activations twice per layer, for which PCIe suffices only
    between two GPUs.
    """
    linked = max(board.linked_gpu_count or 1, _PCIE_TENSOR)
    if requirement.task.trains and layout.tensor > linked:
        fault = f"tensor parallel over {layout.tensor} GPUs, of which {linked} are joined at most"
        return f"{fault}; take pipeline or data parallel"
    return None


def slice_fault(requirement: Requirement, board: Board, layout: Parallelism) -> str | None:
    """Return why slices cannot form a layout, or `None`.

    A process uses one slice, and slices only communicate through the host; serving replicas
    are independent.
    """
    of_replica = layout.tensor * layout.pipeline * layout.expert
    joined = layout.gpus if requirement.task.trains else of_replica
    if joined == 1 or not is_slice(board.key):
        return None
    return f"{joined} slices of MIG cannot be joined; take a larger slice, or whole GPUs"
