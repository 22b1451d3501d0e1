"""A program that runs the simulator with all of an agent's modules, and prints its memory."""

import json
import sys
from typing import Final

import pynvml
from process import memory_mebibytes

import rightsizer.agent.service  # noqa: F401 - an agent has loaded it.
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.nvml.library import use_library

_START: Final[Nanoseconds] = 1_767_571_200 * NANOSECONDS_PER_SECOND
_TICKS: Final = 60


def main() -> None:
    """Ask eight simulated H100 for a minute."""
    catalogue = built_in()
    now = _START
    node = SimulatedNode(load_scenario("eight-gpu-node", catalogue), catalogue, _START)
    use_library(SimulatedLibrary(node, lambda: now))
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
    for _ in range(_TICKS):
        now += NANOSECONDS_PER_SECOND
        for handle in handles:
            pynvml.nvmlDeviceGetUtilizationRates(handle)
            pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
            pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    json.dump({"mebibytes": memory_mebibytes()}, sys.stdout)


if __name__ == "__main__":
    main()
