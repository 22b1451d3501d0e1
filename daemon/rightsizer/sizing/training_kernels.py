"""What kernels of a training framework reach, and what they move."""

from dataclasses import dataclass

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.compute_format import compute_format
from rightsizer.sizing.requirement import Parallelism, Recompute, Requirement, Task
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_traffic import FULL_SHARDING

__all__ = ["Kernels", "training_precision"]

_HOPPER = "Hopper"


@dataclass(frozen=True, slots=True)
class Kernels:
    """Of the framework that would run it."""

    product_ratio: float
    """What a layer's products reach of the speed of large ones."""
    element_traffic: float
    """Bytes for each element of a layer's width and each token."""
    repeated_ratio: float
    """What recomputation adds."""

    @classmethod
    def of(
        cls,
        requirement: Requirement,
        layout: Parallelism,
        board: Board,
        settings: TrainingSettings,
    ) -> "Kernels":
        """The kernels that a requirement and a layout ask for."""
        is_fused = _is_fused(requirement, layout)
        product = settings.hopper_ratio if board.architecture == _HOPPER else 1.0
        # Products in 8 bits were measured with the casts that fused kernels do elsewhere.
        if not (is_fused and training_precision(board, requirement) is not Precision.BF16):
            product *= settings.linear_ratio
        return cls(
            product_ratio=product,
            element_traffic=settings.element_traffic
            * (settings.fused_traffic_ratio if is_fused else 1.0),
            repeated_ratio=_repeated(requirement.training.recompute, settings, is_fused=is_fused),
        )


def training_precision(board: Board, requirement: Requirement) -> Precision:
    """What a board multiplies in: the narrower of weights and activations where it can.

    QLoRA unpacks its weights to what activations are in.
    """
    precisions = requirement.precision
    if requirement.task is Task.FINETUNE_QLORA:
        return compute_format(board, precisions.activations)
    formats = (precisions.weights, precisions.activations)
    return compute_format(board, min(formats, key=lambda each: each.bytes_per_parameter))


def _is_fused(requirement: Requirement, layout: Parallelism) -> bool:
    """Whether a framework with fused kernels runs it: those that split layers, or train in fp8.

    Adapters sit between kernels and keep them apart.
    """
    if requirement.task is not Task.TRAINING or requirement.training.zero_stage >= FULL_SHARDING:
        return False
    splits = layout.tensor * layout.pipeline > 1
    return splits or any(
        each.is_quantized
        for each in (requirement.precision.activations, requirement.precision.weights)
    )


def _repeated(recompute: Recompute, settings: TrainingSettings, *, is_fused: bool) -> float:
    if recompute is Recompute.NONE:
        return 0.0
    if recompute is Recompute.SELECTIVE:
        return settings.selective_ratio
    return settings.fused_recompute_ratio if is_fused else settings.recompute_ratio
