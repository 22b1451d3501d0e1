"""Which source the settings ask for: the driver of this node, or a simulated one below it."""

from dataclasses import dataclass
from pathlib import Path

from rightsizer.catalogue.catalogue import built_in
from rightsizer.domain.units import nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.settings import Settings
from rightsizer.telemetry.host import ProcHost
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.owners.known import KnownOwners
from rightsizer.telemetry.simulated.host import ScenarioHost
from rightsizer.telemetry.simulated.library import SimulatedLibrary
from rightsizer.telemetry.simulated.node import Node
from rightsizer.telemetry.simulated.owners import ScenarioOwners
from rightsizer.telemetry.simulated.scenario import load_scenario
from rightsizer.telemetry.source import Source

__all__ = ["NamedSource", "live_source"]


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source with what people call it."""

    source: Source
    name: str


def live_source(settings: Settings, clock: Clock) -> NamedSource:
    """The live source, over the real driver or over a simulated one.

    Raises:
        ScenarioError: the scenario does not exist or contradicts itself.
    """
    scenario = settings.sources.simulated.scenario
    if scenario:
        return _simulated(scenario, settings, clock)
    procfs, sysfs = Path(settings.path.procfs), Path(settings.path.sysfs)
    source = LiveSource(
        clock=clock,
        interval=nanoseconds(settings.sampling.interval),
        settings=settings.sources.nvml,
        catalogue=built_in(),
        owners=KnownOwners.on_host(procfs),
        host=ProcHost(procfs, sysfs / "fs" / "cgroup", clock),
        sysfs=sysfs,
    )
    return NamedSource(source, "nvml")


def _simulated(name: str, settings: Settings, clock: Clock) -> NamedSource:
    catalogue = built_in()
    scenario = load_scenario(name, catalogue)
    node = Node(scenario, catalogue, start=clock.wall_time())
    use_library(SimulatedLibrary(node, clock.wall_time))
    source = LiveSource(
        clock=clock,
        interval=nanoseconds(settings.sampling.interval),
        settings=settings.sources.nvml,
        catalogue=catalogue,
        owners=ScenarioOwners(node),
        host=ScenarioHost(node, clock.wall_time),
        sysfs=Path(settings.path.sysfs),
    )
    return NamedSource(source, f"simulated ({scenario.name})")
