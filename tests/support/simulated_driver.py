"""A simulated driver library below the real bindings, for tests of driver readers."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pynvml

from instrumented_library import InstrumentedLibrary
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START
from rightsizer.telemetry.nvml.library import use_library

__all__ = ["MIDNIGHT", "Bench", "driver_of", "hour", "node_of", "simulated_driver"]

MIDNIGHT: Final[Nanoseconds] = DEFAULT_START


def hour(hours: float) -> Nanoseconds:
    """A time of the first simulated day."""
    return MIDNIGHT + round(hours * 3600) * NANOSECONDS_PER_SECOND


def node_of(scenario: str, start: Nanoseconds | None = MIDNIGHT) -> SimulatedNode:
    """The node of a packaged scenario."""
    return SimulatedNode(_packaged(scenario), built_in(), start)


@cache
def _packaged(scenario: str) -> SimulatedScenario:
    """Cached: it is constant, and takes as long to read as a tick of its node."""
    return load_scenario(scenario, built_in())


@dataclass
class Bench:
    """A node, the library over it, and the clock that both follow."""

    node: SimulatedNode
    library: InstrumentedLibrary
    time: Nanoseconds

    def pass_seconds(self, seconds: float) -> None:
        """Advance the time."""
        self.time += round(seconds * NANOSECONDS_PER_SECOND)

    def gpu(self, index: int) -> Any:
        """The bindings' handle of a GPU."""
        return pynvml.nvmlDeviceGetHandleByIndex(index)

    def instance(self, index: int, number: int) -> Any:
        """The bindings' handle of a MIG instance."""
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self.gpu(index), number)


@contextmanager
def driver_of(node: SimulatedNode, time: Nanoseconds) -> Iterator[Bench]:
    """A library of a node below the bindings, initialized, at a time."""
    bench = Bench(node, InstrumentedLibrary(node, lambda: bench.time), time)
    use_library(bench.library)
    pynvml.nvmlInit()
    try:
        yield bench
    finally:
        bench.library.faults.clear()
        use_library(None)


def simulated_driver(scenario: str, hours: float = 12.0) -> AbstractContextManager[Bench]:
    """The driver of a packaged scenario, at a time of its day."""
    return driver_of(node_of(scenario, hour(hours - 1.0)), hour(hours))
