"""A small simulated node on which every kind of slot is found at any hour, to be placed on."""

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from nvml_driver import patient_settings
from rightsizer.agent.settings import Settings
from rightsizer.broker.request import request_of
from rightsizer.cli.place import placement_of_node
from rightsizer.io.clock import FastClock
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.settings import SimulatedSettings
from simulated_driver import hour

__all__ = ["PLACED_NODE", "placed_node", "scenario_file"]

PLACED_NODE: Final = """\
name: placed-node
seed: 3
cores: 112
boards:
  - {board: H100-SXM5-80GB, count: 7}
  - {board: H100-SXM5-80GB, mig: [3g.40gb, 1g.10gb, 1g.10gb]}
workloads:
  - name: train
    class: batch
    allocator: growing
    gpus: [0]
    memory_gib: 60
    phases: [{activity: matrix_training, state: compute_bound}]
  - name: notebook
    class: notebook
    allocator: growing
    gpus: [5]
    memory_gib: 4
    phases: [{activity: nothing, state: idle_held}]
  - name: tagger
    class: serving
    allocator: growing
    instances: ["7/1"]
    memory_gib: 4
    phases: [{activity: request_serving, state: productive}]
faults:
  - {kind: ecc, gpus: [6], after: 0s, uncorrected: 1}
"""
"""GPU 0 is busy, 5 held and idle, 6 broken, an instance of 7 in use; all else is free."""


def scenario_file(folder: Path) -> Path:
    """The node as a file of a scenario."""
    path = folder / "placed-node.yaml"
    path.write_text(PLACED_NODE, encoding="utf-8")
    return path


def placed_node(scenario: Path | str, **words: str) -> Any:
    """The answer of a look at a scenario's driver, at noon of its day and without waiting."""
    settings = Settings()
    simulated = SimulatedSettings(scenario=str(scenario))
    sources = replace(settings.sources, nvml=patient_settings(), simulated=simulated)
    settings = replace(settings, sources=sources)
    try:
        return placement_of_node(settings, request_of(words), FastClock(hour(12)))
    finally:
        use_library(None)
