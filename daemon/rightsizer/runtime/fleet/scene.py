"""What is known of an estate before anything is read of it: sources, devices, and the plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.errors import ConfigurationError, StoreError
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.fleet.estate import Estate
from rightsizer.fleet.kept.shelf import Shelf
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.reading.absence import why_nothing
from rightsizer.fleet.reading.plan import Plan, PlannedSource, plan_of
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.composite import Composite
from rightsizer.runtime.fleet.settings import WholeSettings
from rightsizer.runtime.fleet.sources import sources_of

__all__ = ["Progress", "Scene", "scene_of", "store_of"]

Progress = Callable[[str, int, int], None]
"""Is told of a stage how many of its parts are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known before anything is read."""

    now: Nanoseconds
    reports: tuple[SourceReport, ...]
    estate: Estate
    plan: Plan
    store: PrometheusStore
    sources: Composite


def scene_of(
    settings: WholeSettings,
    catalogue: Catalogue,
    shelf: Shelf,
    now: Nanoseconds,
    progress: Progress,
) -> Scene:
    """Probe the store, and plan what is to be read.

    Args:
        settings: Everything that an operator may set.
        catalogue: Of GPUs.
        shelf: Knows which days are kept.
        now: Wall time.
        progress: Is told how far it has come.

    Raises:
        StoreError: the store does not answer, or has no device.
        ConfigurationError: its address or credentials are at fault.
    """
    fleet = settings.fleet
    lookback, store = nanoseconds(fleet.lookback_seconds), store_of(fleet)
    sources = Composite(sources_of(settings, catalogue), fleet)
    progress("probing", 0, 1)
    reports = sources.probe(store, now, lookback)
    if not any(report.devices for report in reports):
        reason = why_nothing(store, now, lookback)
        raise StoreError(f"the store at {fleet.store.url} {reason}")
    estate = _with_hosts(sources.estate(store, reports, now, lookback))
    planned = [
        PlannedSource(
            report,
            tuple(each for each in estate.devices.values() if each.source == report.source),
        )
        for _, report in sources.readers(reports).values()
    ]
    plan = plan_of(planned, shelf.done, now, fleet)
    progress("probing", 1, 1)
    return Scene(now, reports, estate, plan, store, sources)


def store_of(settings: FleetSettings, workers: int = 1) -> PrometheusStore:
    """A process's own; those of all processes together ask as much at once as is allowed."""
    concurrency = max(1, settings.store.concurrency // workers)
    try:
        return PrometheusStore(replace(settings.store, concurrency=concurrency), settings.matchers)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _with_hosts(estate: Estate) -> Estate:
    """So that whatever names a device says where it stands."""
    devices = {
        uuid: replace(each, device=replace(each.device, host=each.node))
        for uuid, each in estate.devices.items()
    }
    return replace(estate, devices=devices)
