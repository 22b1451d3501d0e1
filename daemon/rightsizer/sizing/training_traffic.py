"""What the GPUs of a training run tell each other, and what of it computing does not hide."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.sizing.collective import all_reduce_seconds
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_shape import TrainingShape

__all__ = ["FULL_SHARDING", "Telling", "expert_seconds", "replica_seconds", "tensor_seconds"]

FULL_SHARDING: Final = 3
"""The stage of ZeRO that shards weights, too; FSDP does the same."""
_HALF_BYTES: Final = 2.0
"""Of an element in 16 bits."""
_LAYER_SUMS: Final = 4
"""Of a tensor parallel layer, forward and backward."""
_REPEATED_SUMS: Final = 6
"""The same where the forward pass is computed again."""
_LAYER_EXCHANGES: Final = 4
"""Of a layer with experts: to them and back, forward and backward."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Boards in a layout."""

    board: Board
    layout: Parallelism
    settings: TrainingSettings

    @property
    def linked(self) -> int:
        """GPUs that its links, or one server, join."""
        return max(self.settings.node_gpus, self.board.linked_gpu_count or 1)

    def sum_seconds(self, gpus: int, payload_bytes: float) -> float:
        """A sum over so many of them, beyond a server over the network too."""
        if gpus <= 1 or payload_bytes <= 0.0:
            return 0.0
        if gpus * self.layout.tensor <= self.linked:
            return all_reduce_seconds(self.board, gpus, payload_bytes)
        inside = all_reduce_seconds(self.board, min(gpus, self.linked), payload_bytes)
        return inside / self.settings.network_ratio


def tensor_seconds(
    telling: Telling, shape: TrainingShape, tokens: float, *, recomputes: bool
) -> float:
    """Of one micro batch in tensor parallel: sums of the activations of each layer."""
    if telling.layout.tensor == 1:
        return 0.0
    sums = (_REPEATED_SUMS if recomputes else _LAYER_SUMS) * shape.layers / telling.layout.pipeline
    payload = tokens * shape.hidden * _HALF_BYTES
    return sums * all_reduce_seconds(telling.board, telling.layout.tensor, payload)


def expert_seconds(telling: Telling, shape: TrainingShape, tokens: float) -> float:
    """Of one micro batch: every token goes to its experts and back, half a sum's way."""
    gpus = min(telling.layout.gpus, telling.linked)
    if gpus == 1 or not shape.experts_per_token:
        return 0.0
    payload = tokens * shape.experts_per_token * shape.hidden * _HALF_BYTES
    payload /= telling.layout.tensor
    exchanges = _LAYER_EXCHANGES * shape.layers / telling.layout.pipeline
    return exchanges * telling.sum_seconds(gpus, payload / gpus) / 2.0


def replica_seconds(
    telling: Telling, held: float, trained: float, zero_stage: int, batches: float
) -> float:
    """Of one micro batch: gradients once a step; fully sharded, weights twice and gradients each.

    Args:
        telling: The boards.
        held: Parameters of the model.
        trained: Those of them that have gradients.
        zero_stage: What is sharded over replicas.
        batches: Micro batches of a step.
    """
    layout = telling.layout
    if layout.data == 1:
        return 0.0
    share = _HALF_BYTES / (layout.tensor * layout.pipeline)
    if zero_stage >= FULL_SHARDING:
        # Gathering, or scattering, is half of a sum.
        payload = (2.0 * held + trained) / 2.0 * share
    else:
        payload = trained * share / batches
    return telling.settings.exposed_ratio * telling.sum_seconds(layout.data, payload)
