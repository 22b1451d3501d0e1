"""A requirement on one layout: its memory, and its serving speed."""

from rightsizer.catalogue.board import Board
from rightsizer.sizing.memory import training_memory
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving import Server, Serving
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.settings import MemorySettings


def estimate_memory(
    requirement: Requirement,
    layout: Parallelism,
    concurrency: float | None = None,
    settings: MemorySettings | None = None,
) -> MemoryEstimate:
    """Memory of the fullest GPU, with the given number of requests or the load's."""
    settings = settings or MemorySettings()
    if requirement.task.trains:
        return training_memory(requirement, layout, settings)
    asked = requirement.load.concurrency if concurrency is None else concurrency
    return ServingMemory(requirement, layout, settings).at(1.0 if asked is None else asked)


def serve(  # noqa: PLR0913 - the planner's question, and two things that a site may know better.
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float,
    *,
    available_bytes: float | None = None,
    settings: ServingModelSettings | None = None,
) -> Serving:
    """Serve exactly the given number of requests on all GPUs; those that do not fit wait."""
    memory = ServingMemory(requirement, layout)
    settings = settings or ServingModelSettings()
    return Server(memory, board, available_bytes, settings).at(concurrency)
