"""Several sources of one estate as one: each device is read where most is known of it."""

from collections.abc import Mapping, Sequence

from rightsizer.fleet.model import FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import FleetSource, MetricStore, SourceReport
from rightsizer.fleet.sources.kubernetes import KubernetesState
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.fleet.sources.slurm import SlurmState
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload


class CompositeSource:
    """Sources in the order in which they are believed, and what others know of their devices.

    Where an agent and a dcgm-exporter watch one device, the agent's word counts: it sees every
    second, and who runs on it.
    """

    def __init__(
        self,
        sources: Sequence[FleetSource],
        settings: FleetSettings | None = None,
        *,
        kubernetes: KubernetesState | None = None,
        slurm: SlurmState | None = None,
        serving: ServingMetrics | None = None,
    ) -> None:
        """Asks nobody yet.

        Args:
            sources: The best first.
            settings: Which of them are wanted.
            kubernetes: Pools, teams and pods that wait.
            slurm: Names of jobs, accounts and jobs that wait.
            serving: Engines' queues, which whoever reads devices asks for itself.
        """
        wanted = (settings or FleetSettings()).sources
        self._sources = [each for each in sources if not wanted or each.name in wanted]
        self._kubernetes = kubernetes or KubernetesState(settings)
        self._slurm = slurm or SlurmState()
        self._serving = serving or ServingMetrics()
        self._is_wanted = {
            each.name: not wanted or each.name in wanted
            for each in (self._kubernetes, self._slurm, self._serving)
        }

    def probe(
        self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
    ) -> tuple[SourceReport, ...]:
        """A report of each that is wanted; one of no devices and no metrics found nothing."""
        others = (
            each.probe(store, now)
            for each in (self._kubernetes, self._slurm, self._serving)
            if self._is_wanted[each.name]
        )
        return (*(each.probe(store, now, lookback) for each in self._sources), *others)

    def estate(
        self,
        store: MetricStore,
        reports: Sequence[SourceReport],
        now: Nanoseconds,
        lookback: Nanoseconds,
    ) -> FleetInventory:
        """All devices, each with the name of the first source that knows it."""
        found = FleetInventory()
        by_name = _by_name(reports)
        for source in self._sources:
            report = by_name.get(source.name)
            if report is not None and report.devices:
                found = _merged(found, source.name, source.estate(store, report, now, lookback))
        if _has(by_name, self._kubernetes.name):
            found = self._kubernetes.enrich(store, found, now)
        if _has(by_name, self._slurm.name):
            found = self._slurm.enrich(store, found, now, lookback)
        return found

    def readers(
        self, reports: Sequence[SourceReport]
    ) -> dict[str, tuple[FleetSource, SourceReport]]:
        """Who reads the devices of each source, by its name, with what its probe found."""
        by_name = _by_name(reports)
        return {
            source.name: (source, by_name[source.name])
            for source in self._sources
            if source.name in by_name
        }


def _by_name(reports: Sequence[SourceReport]) -> Mapping[str, SourceReport]:
    return {report.source: report for report in reports}


def _has(reports: Mapping[str, SourceReport], name: str) -> bool:
    return name in reports and bool(reports[name].metrics)


def _merged(better: FleetInventory, name: str, other: FleetInventory) -> FleetInventory:
    """With the devices that only the other knows."""
    known = {*better.devices, *(_slot(each) for each in better.devices.values())}
    added = {
        uuid: replace(device, source=name)
        for uuid, device in other.devices.items()
        if uuid not in known and _slot(device) not in known
    }
    workloads: dict[str, Workload] = {**other.workloads, **better.workloads}
    return replace(
        better,
        devices={**better.devices, **added},
        workloads=workloads,
        teams={**other.teams, **better.teams},
        advice=(*better.advice, *other.advice),
        waiting=(*better.waiting, *other.waiting),
    )


def _slot(device: FleetDevice) -> str:
    """What a MIG instance is whatever it is called: exporters know no uuid of it."""
    mig = device.device.mig
    return device.device.uuid if mig is None else f"{mig.parent_uuid}/gi{mig.gpu_instance_id}"
