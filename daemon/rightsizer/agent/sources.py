"""Which source the settings ask for: the driver of this node, or a simulated one below it."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.host.collector import ProcHostCollector
from rightsizer.io.clock import Clock
from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import nanoseconds
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.telemetry.host_context import HostContextCollector, NodeHostProbe
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.settings import SourceSettings
from rightsizer.telemetry.source import (
    ReleaseController,
    SecondarySource,
    SnapshotSource,
    StillHeld,
)


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source with what people call it, and what can be asked of it while it runs."""

    source: SnapshotSource
    name: str
    controls: ReleaseController
    still_held: StillHeld
    expect: Callable[[Iterable[Device]], None]


def live_source(settings: Settings, clock: Clock) -> NamedSource:
    """The live source, over the real driver or over a simulated one.

    Raises:
        ScenarioError: the scenario does not exist or contradicts itself.
        ConfigurationError: the operator's file of boards has faults.
    """
    controls = ReleaseController(clock)
    catalogue = read_catalogue(settings.catalogue.boards_path)
    name, sysfs, eyes = _node(settings, clock, catalogue)
    source = LiveSource(
        clock=clock,
        interval=nanoseconds(settings.sampling.interval),
        settings=settings.sources.nvml,
        catalogue=catalogue,
        host_context=HostContextCollector(eyes),
        sysfs=sysfs,
        secondary=tuple(_neighbors(settings.sources, clock, catalogue)),
        controls=controls,
    )
    return NamedSource(source, name, controls, source.still_held, source.expect)


def _node(
    settings: Settings, clock: Clock, catalogue: Catalogue
) -> tuple[str, Path, NodeHostProbe]:
    """What people call the node, where its sysfs is, and what looks around its GPUs."""
    if scenario := settings.sources.simulated.scenario:
        # An agent on a real node does not load the model of another: 1.4 MiB.
        from rightsizer.agent.simulated_node import NOWHERE, simulate  # noqa: PLC0415

        name, eyes = simulate(scenario, clock, catalogue)
        return name, NOWHERE, eyes
    procfs, sysfs = Path(settings.path.procfs), Path(settings.path.sysfs)
    cgroups = sysfs / "fs" / "cgroup"
    host = ProcHostCollector(procfs, cgroups, clock, sysfs=sysfs, settings=settings.sources.host)
    owners = OwnerResolver.on_host(procfs, sysfs=sysfs, settings=settings.sources.owners)
    return "nvml", sysfs, NodeHostProbe(host, owners, sysfs)


def _neighbors(
    settings: SourceSettings, clock: Clock, catalogue: Catalogue
) -> Iterator[SecondarySource]:
    """Those that an operator has named; what is not asked for is not even loaded."""
    if settings.dcgm.url:
        from rightsizer.telemetry.dcgm.endpoint import DcgmEndpoint  # noqa: PLC0415
        from rightsizer.telemetry.dcgm.enrichment import DcgmSecondarySource  # noqa: PLC0415

        yield DcgmSecondarySource(DcgmEndpoint(settings.dcgm, catalogue, clock))
    if settings.serving.endpoints:
        from rightsizer.telemetry.serving.source import ServingEngineCollector  # noqa: PLC0415

        yield ServingEngineCollector(settings.serving)
