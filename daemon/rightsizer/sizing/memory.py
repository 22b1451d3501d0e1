"""What a requirement needs of each GPU of a layout."""

from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.overhead import headroom_bytes, usable_bytes
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving_memory import serving_memory
from rightsizer.sizing.training_memory import training_memory

__all__ = ["available_bytes", "estimate_memory"]

_DEFAULTS = MemorySettings()


def estimate_memory(
    requirement: Requirement,
    layout: Parallelism,
    concurrency: float | None = None,
    settings: MemorySettings = _DEFAULTS,
) -> MemoryEstimate:
    """What the fullest GPU of a layout needs.

    Args:
        requirement: The model, its task and load.
        layout: How it is spread.
        concurrency: Requests in flight on all GPUs together; those of the load where it is not
            given, and one where the load does not say.
        settings: What is taken for granted of the software.
    """
    if requirement.task.trains:
        return training_memory(requirement, layout, settings)
    asked = requirement.load.concurrency if concurrency is None else concurrency
    return serving_memory(requirement, layout, settings).at(1.0 if asked is None else asked)


def available_bytes(
    requirement: Requirement, board_memory_bytes: float, settings: MemorySettings = _DEFAULTS
) -> float:
    """What of the memory that NVML reports a workload may fill."""
    usable = usable_bytes(board_memory_bytes, settings)
    return usable - headroom_bytes(usable, requirement.task, settings)
