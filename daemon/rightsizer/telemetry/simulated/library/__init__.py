"""A simulated `libnvidia-ml.so.1`, one file for each family of functions."""

from rightsizer.telemetry.simulated.library.assembly import SimulatedLibrary
from rightsizer.telemetry.simulated.library.faults import Faults

__all__ = ["Faults", "SimulatedLibrary"]
