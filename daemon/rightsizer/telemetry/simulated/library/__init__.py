"""A simulated `libnvidia-ml.so.1`, one file for each family of functions."""

from rightsizer.telemetry.simulated.library.assembly import SimulatedLibrary
from rightsizer.telemetry.simulated.library.faults import Faults
from rightsizer.telemetry.simulated.library.latency import assumed_latency

__all__ = ["Faults", "SimulatedLibrary", "assumed_latency"]
