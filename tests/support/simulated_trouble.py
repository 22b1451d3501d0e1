"""A small simulated node with faults of the test's choice."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pynvml

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import SimulatedSource
from simulated_driver import MIDNIGHT, Bench, driver_of

__all__ = ["driver_with", "one_field", "scenario_with", "snapshots"]

SECOND = NANOSECONDS_PER_SECOND
HEAD = """\
name: trouble
boards: [{board: H100-SXM5-80GB, count: 3}, {board: T4, persistence: false}]
workloads:
  - name: train
    gpus: [0, 1]
    memory_gib: 10
    allocator: growing
    phases: [{activity: matrix_training, state: compute_bound}]
  - name: cut
    instances: ["2/0"]
    memory_gib: 10
    allocator: growing
    phases: [{activity: matrix_training, state: compute_bound}]
faults:
"""
RECUT = "{kind: mig, gpus: [2], after: 30, for: 60, profiles: [3g.40gb, 2g.20gb]}"


def scenario_with(folder: Path, *faults: str) -> SimulatedScenario:
    """A small node with faults."""
    file = folder / "trouble.yaml"
    file.write_text(HEAD + "".join(f"  - {fault}\n" for fault in (RECUT, *faults)), "utf-8")
    return load_scenario(str(file), built_in())


def driver_with(folder: Path, *faults: str) -> AbstractContextManager[Bench]:
    """The library over such a node, initialized at its start."""
    node = SimulatedNode(scenario_with(folder, *faults), built_in(), MIDNIGHT)
    return driver_of(node, MIDNIGHT)


def snapshots(folder: Path, seconds: int, *faults: str) -> list[Snapshot]:
    """A snapshot of the model every second."""
    scenario = scenario_with(folder, *faults)
    source = SimulatedSource(
        scenario, built_in(), start=MIDNIGHT, interval=SECOND, duration=seconds * SECOND
    )
    return list(iter(source.read, None))


def one_field(gpu: Any, number: int, scope: int = 0) -> int:
    """The value of a field."""
    (found,) = pynvml.nvmlDeviceGetFieldValues(gpu, [(number, scope)])
    assert found.nvmlReturn == 0
    return int({1: found.value.uiVal, 3: found.value.ullVal}[found.valueType])
