"""Simulated node in place of the real one: driver below the bindings, and host around it."""

from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.io.clock import Clock
from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from rightsizer.simulator.node import ScenarioHost, SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.host_context import NodeHostProbe
from rightsizer.telemetry.nvml.library import use_library

NOWHERE: Final = Path("/nonexistent")
"""Path that does not exist: a simulated node has no sysfs; its driver reports the topology."""


def simulate(
    scenario_name: str, clock: Clock, catalogue: Catalogue, midnight_seconds: float = 0.0
) -> tuple[str, NodeHostProbe]:
    """Install a scenario's driver below the bindings; return its name and the probe of its host.

    Raises:
        ScenarioError: the scenario does not exist or contradicts itself.
    """
    scenario = load_scenario(scenario_name, catalogue, midnight_seconds)
    node = SimulatedNode(scenario, catalogue, start=clock.wall_time())
    use_library(SimulatedLibrary(node, clock.wall_time))
    probe = NodeHostProbe(ScenarioHost(node, clock.wall_time), node.workloads, NOWHERE)
    return f"simulated ({scenario.name})", probe
