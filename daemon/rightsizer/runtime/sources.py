"""Which source the settings ask for: the driver of this node, or a simulated one below it."""

from dataclasses import dataclass
from pathlib import Path

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.operator_file import read_catalogue
from rightsizer.domain.units import nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.control import StillHeld
from rightsizer.runtime.settings import Settings, SourceSettings
from rightsizer.telemetry.controls import Controls
from rightsizer.telemetry.host import ProcHost
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.neighbor import Neighbor
from rightsizer.telemetry.owners.known import KnownOwners
from rightsizer.telemetry.source import Source
from rightsizer.telemetry.surroundings import NodeEyes, Surroundings

__all__ = ["NamedSource", "live_source"]


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source with what people call it, and what can be asked of it while it runs."""

    source: Source
    name: str
    controls: Controls
    still_held: StillHeld


def live_source(
    settings: Settings, clock: Clock, *, controls: Controls | None = None
) -> NamedSource:
    """The live source, over the real driver or over a simulated one.

    Args:
        settings: Everything that an operator may set.
        clock: The clock to live by.
        controls: What is asked of the source while it runs; nothing yet unless given.

    Raises:
        ScenarioError: the scenario does not exist or contradicts itself.
        ConfigurationError: the operator's file of boards has faults.
    """
    controls = controls or Controls(clock)
    catalogue = read_catalogue(settings.catalogue.boards_path)
    name, sysfs, eyes = _node(settings, clock, catalogue)
    source = LiveSource(
        clock=clock,
        interval=nanoseconds(settings.sampling.interval),
        settings=settings.sources.nvml,
        catalogue=catalogue,
        surroundings=Surroundings(eyes),
        sysfs=sysfs,
        neighbors=_neighbors(settings.sources, clock, catalogue),
        controls=controls,
    )
    return NamedSource(source, name, controls, source.still_held)


def _node(settings: Settings, clock: Clock, catalogue: Catalogue) -> tuple[str, Path, NodeEyes]:
    """What people call the node, where its sysfs is, and what looks around its GPUs."""
    scenario = settings.sources.simulated.scenario
    if scenario:
        # An agent on a real node does not load the model of another: 1.4 MiB.
        from rightsizer.runtime.simulated_node import NOWHERE, simulate  # noqa: PLC0415

        name, eyes = simulate(scenario, clock, catalogue)
        return name, NOWHERE, eyes
    procfs, sysfs = Path(settings.path.procfs), Path(settings.path.sysfs)
    cgroups = sysfs / "fs" / "cgroup"
    host = ProcHost(procfs, cgroups, clock, sysfs=sysfs, settings=settings.sources.host)
    owners = KnownOwners.on_host(procfs, sysfs=sysfs, settings=settings.sources.owners)
    return "nvml", sysfs, NodeEyes(host, owners, sysfs)


def _neighbors(
    settings: SourceSettings, clock: Clock, catalogue: Catalogue
) -> tuple[Neighbor, ...]:
    """Those that an operator has named; what nobody asks for is not even loaded."""
    neighbors: list[Neighbor] = []
    if settings.dcgm.url:
        from rightsizer.telemetry.dcgm.endpoint import DcgmEndpoint  # noqa: PLC0415
        from rightsizer.telemetry.dcgm.supplement import DcgmNeighbor  # noqa: PLC0415

        neighbors.append(DcgmNeighbor(DcgmEndpoint(settings.dcgm, catalogue, clock)))
    if settings.serving.endpoints:
        from rightsizer.telemetry.serving.neighbor import ServingNeighbor  # noqa: PLC0415
        from rightsizer.telemetry.serving.serving_engines import ServingEngines  # noqa: PLC0415

        neighbors.append(ServingNeighbor(ServingEngines(settings.serving)))
    return tuple(neighbors)
