"""Runs nvitop-exporter on the simulated driver that the agent is measured on."""

import importlib
import sys
import time

from rightsizer.catalogue.catalogue import built_in
from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.nvml.library import use_library


def main(port: str) -> None:
    """Serve on loopback until killed."""
    catalogue = built_in()
    node = SimulatedNode(load_scenario("eight-gpu-node", catalogue), catalogue, time.time_ns())
    use_library(SimulatedLibrary(node, time.time_ns))
    exporter = importlib.import_module("nvitop_exporter.cli")
    sys.argv = ["nvitop-exporter", "--hostname", "127.0.0.1", "--port", port, "--interval", "1"]
    exporter.main()


if __name__ == "__main__":
    main(sys.argv[1])
