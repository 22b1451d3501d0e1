"""Several sources of one fleet as one: each device is read where most is known of it."""

from collections.abc import Sequence

from rightsizer.fleet.model import FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import FleetSource, MetricStore, SourceReport
from rightsizer.fleet.sources.kubernetes import KubernetesState
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.fleet.sources.slurm import SlurmState
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds


class CompositeSource:
    """Sources, the preferred ones first, and what others know of their devices.

    Where an agent and a dcgm-exporter watch one device, the agent is read: it sees every second,
    and who runs on it.
    """

    def __init__(
        self, sources: Sequence[FleetSource], settings: FleetSettings | None = None
    ) -> None:
        wanted = (settings or FleetSettings()).sources
        self._sources = [each for each in sources if not wanted or each.name in wanted]
        self._kubernetes, self._slurm = KubernetesState(settings), SlurmState()
        others = (self._kubernetes, self._slurm, ServingMetrics())
        self._others = [each for each in others if not wanted or each.name in wanted]

    def probe(
        self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
    ) -> tuple[SourceReport, ...]:
        """A report of each; one of no devices and no metrics found nothing."""
        reports = [each.probe(store, now, lookback) for each in self._sources]
        return (*reports, *(each.probe(store, now) for each in self._others))

    def inventory(
        self,
        store: MetricStore,
        reports: Sequence[SourceReport],
        now: Nanoseconds,
        lookback: Nanoseconds,
    ) -> FleetInventory:
        """All devices, each with the name of the first source that knows it."""
        found = FleetInventory()
        for source, report in self.readers(reports).values():
            if report.devices:
                found = _merged(found, source.name, source.inventory(store, report, now, lookback))
        there = {report.source for report in reports if report.metrics}
        if self._kubernetes.name in there:
            found = self._kubernetes.enrich(store, found, now)
        if self._slurm.name in there:
            found = self._slurm.enrich(store, found, now, lookback)
        return found

    def readers(
        self, reports: Sequence[SourceReport]
    ) -> dict[str, tuple[FleetSource, SourceReport]]:
        """The sources by name, each with its report."""
        sources = {source.name: source for source in self._sources}
        known = {report.source: report for report in reports}
        return {name: (each, known[name]) for name, each in sources.items() if name in known}


def _merged(better: FleetInventory, name: str, other: FleetInventory) -> FleetInventory:
    """With the devices that only the other knows."""
    known = {*better.devices, *(_slot(each) for each in better.devices.values())}
    added = {
        uuid: replace(device, source=name)
        for uuid, device in other.devices.items()
        if uuid not in known and _slot(device) not in known
    }
    return replace(
        better,
        devices={**better.devices, **added},
        workloads={**other.workloads, **better.workloads},
        teams={**other.teams, **better.teams},
        advice=(*better.advice, *other.advice),
        waiting=(*better.waiting, *other.waiting),
    )


def _slot(device: FleetDevice) -> str:
    """The place of a MIG instance, of which exporters know no uuid; else the uuid."""
    mig = device.device.mig
    return device.device.uuid if mig is None else f"{mig.parent_uuid}/gi{mig.gpu_instance_id}"
