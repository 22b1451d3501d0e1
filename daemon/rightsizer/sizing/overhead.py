"""What a framework takes beside the model: context, communication, graphs, fragments."""

from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.requirement import Parallelism, Task

__all__ = ["communication_bytes", "graph_bytes", "headroom_bytes", "usable_bytes"]

_PAIR = 2
_GRAPH_STEP = 8
"""Serving engines capture a graph of 1, 2, 4 and every eighth batch size."""


def communication_bytes(layout: Parallelism, settings: MemorySettings, *, trains: bool) -> float:
    """NCCL's buffers, where GPUs talk to each other; replicas that serve do not."""
    group = layout.gpus if trains else layout.tensor * layout.pipeline
    if group < _PAIR:
        return 0.0
    return (
        settings.communication_pair_bytes if group == _PAIR else settings.communication_group_bytes
    )


def graph_bytes(layers: int, concurrency: float, settings: MemorySettings) -> float:
    """CUDA graphs of all batch sizes up to the concurrency."""
    largest = min(concurrency, settings.graph_batch_maximum)
    return layers * settings.graph_bytes * (1.0 + largest / _GRAPH_STEP)


def usable_bytes(board_memory_bytes: float, settings: MemorySettings) -> float:
    """What of the memory that NVML reports processes can have; never less than nothing."""
    return max(0.0, board_memory_bytes - settings.driver_reserved_bytes)


def headroom_bytes(usable: float, task: Task, settings: MemorySettings) -> float:
    """What should stay free of the memory that processes can have."""
    if task is Task.INFERENCE:
        return usable * settings.inference_headroom_ratio
    least = min(usable, settings.headroom_minimum_bytes)
    return max(usable * settings.training_headroom_ratio, least)
