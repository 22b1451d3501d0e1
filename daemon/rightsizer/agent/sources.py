"""Selection of the source by the settings: this node's driver, or a simulated one."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.process_cache import CachedProcessTable
from rightsizer.io.clock import Clock
from rightsizer.model.values import nanoseconds, seconds
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.workload_limits import WorkloadNameLimiter
from rightsizer.telemetry.host_context import HostContextCollector, NodeHostProbe
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.settings import SourceSettings
from rightsizer.telemetry.source import ReleaseController, SecondarySource


class NamedSource(Struct, frozen=True):
    """A live source with its display name and its controls."""

    source: LiveSource
    name: str
    controls: ReleaseController


def live_source(settings: Settings, clock: Clock) -> NamedSource:
    """Return the live source, over the real or a simulated driver.

    Raises:
        ScenarioError: the scenario does not exist or contradicts itself.
        ConfigurationError: the operator's catalogue of boards has faults.
    """
    controls = ReleaseController(clock)
    catalogue = read_catalogue(settings.catalogue.boards_path)
    name_limiter = WorkloadNameLimiter.of(settings.sources.owners)
    name, sysfs, probe = _node(settings, clock, catalogue, name_limiter)
    secondary = _secondary_sources(settings.sources, clock, catalogue, sysfs, name_limiter)
    source = LiveSource(
        clock=clock,
        interval=nanoseconds(settings.sampling.interval),
        settings=settings.sources.nvml,
        catalogue=catalogue,
        host_context=HostContextCollector(probe),
        sysfs=sysfs,
        secondary=tuple(secondary),
        controls=controls,
    )
    return NamedSource(source, name, controls)


def _node(
    settings: Settings, clock: Clock, catalogue: Catalogue, name_limiter: WorkloadNameLimiter
) -> tuple[str, Path, NodeHostProbe]:
    """Return the node's display name, its sysfs, and the probe of its host."""
    if scenario := settings.sources.simulated.scenario:
        # Imported on use: a real node would load 1.4 MiB of simulator.
        from rightsizer.agent.simulated_node import NOWHERE, simulate  # noqa: PLC0415

        name, probe = simulate(scenario, clock, catalogue, settings.sources.simulated.midnight)
        return name, NOWHERE, probe
    procfs = Path(settings.path.procfs)
    sysfs = Path(settings.path.sysfs)
    cgroups = sysfs / "fs" / "cgroup"
    processes = CachedProcessTable(procfs, clock.time)
    host = ProcHostCollector(
        procfs,
        cgroups,
        clock,
        sysfs=sysfs,
        settings=settings.sources.host,
        processes=processes,
    )
    owners = OwnerResolver.on_host(
        procfs,
        sysfs=sysfs,
        settings=settings.sources.owners,
        name_limiter=name_limiter,
        processes=processes,
    )
    return "nvml", sysfs, NodeHostProbe(host, owners, sysfs, processes)


def _secondary_sources(
    settings: SourceSettings,
    clock: Clock,
    catalogue: Catalogue,
    sysfs: Path,
    name_limiter: WorkloadNameLimiter,
) -> Iterator[SecondarySource]:
    """Yield the configured secondary sources; others are not even imported."""
    if settings.dcgm.url:
        from rightsizer.telemetry.dcgm.enrichment import DcgmSecondarySource  # noqa: PLC0415

        yield DcgmSecondarySource(
            settings.dcgm, catalogue, clock, sysfs=sysfs, name_limiter=name_limiter
        )
    if settings.serving.endpoints:
        from rightsizer.telemetry.serving.source import ServingEngineCollector  # noqa: PLC0415

        # By the agent's clock, so that what is simulated in fast motion is related to its time.
        yield ServingEngineCollector(settings.serving, now=lambda: seconds(clock.time()))
