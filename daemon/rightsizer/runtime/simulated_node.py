"""A simulated node in the place of the real one: below the bindings, and around the GPUs."""

from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.edge.clock import Clock
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.simulated.host import ScenarioHost
from rightsizer.telemetry.simulated.library import SimulatedLibrary
from rightsizer.telemetry.simulated.node import Node
from rightsizer.telemetry.simulated.owners import ScenarioOwners
from rightsizer.telemetry.simulated.scenario import load_scenario
from rightsizer.telemetry.surroundings import NodeEyes

__all__ = ["NOWHERE", "simulate"]

NOWHERE: Final = Path("/nonexistent")
"""A simulated node has no tree of sysfs; its topology is what its driver tells."""


def simulate(scenario_name: str, clock: Clock, catalogue: Catalogue) -> tuple[str, NodeEyes]:
    """Put a scenario's driver below the bindings; its name, and what is around its GPUs.

    Raises:
        ScenarioError: the scenario does not exist or contradicts itself.
    """
    scenario = load_scenario(scenario_name, catalogue)
    node = Node(scenario, catalogue, start=clock.wall_time())
    use_library(SimulatedLibrary(node, clock.wall_time))
    eyes = NodeEyes(ScenarioHost(node, clock.wall_time), ScenarioOwners(node), NOWHERE)
    return f"simulated ({scenario.name})", eyes
