"""Context of one run: sources, devices and fetch plan, known after the probe."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.fleet.clusters import clusters_in, inventory_in, joined, unclear_clusters
from rightsizer.fleet.fetch import FetchPlan, PlannedSource
from rightsizer.fleet.foreign import left_out, unnamed_nodes, why_nothing
from rightsizer.fleet.model import Cluster, FleetDevice, FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.prometheus.endpoint import WaitingCallback
from rightsizer.fleet.settings import FleetConfig, FleetSettings
from rightsizer.fleet.source import FleetSource, MetricStore, SourceReport
from rightsizer.fleet.sources.agent.source import AgentSource
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.kubernetes import KubernetesState
from rightsizer.fleet.sources.node_witnesses import with_witnesses
from rightsizer.fleet.sources.pod_owners import LookbackSpan
from rightsizer.fleet.sources.series import last_seen
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.fleet.sources.slurm import SlurmState
from rightsizer.model.values import (
    ConfigurationError,
    Nanoseconds,
    StoreError,
    Workload,
    format_duration,
    nanoseconds,
    seconds,
)


def sources_of(settings: FleetConfig, catalogue: Catalogue) -> tuple[FleetSource, ...]:
    """Return the sources of devices, best first."""
    accounting = settings.accounting
    fleet = settings.fleet
    usage = accounting.books.usage
    provisioning = accounting.provisioning
    return (
        AgentSource(catalogue, fleet, fleet.agents, usage, provisioning),
        DcgmExporterSource(fleet, accounting.books, catalogue),
    )


class CompositeSource:
    """Sources in order of preference, enriched by sources that add facts.

    If both an agent and a dcgm-exporter watch a device, the agent is read: it sees every second,
    and the processes.
    """

    def __init__(
        self, sources: Sequence[FleetSource], settings: FleetSettings | None = None
    ) -> None:
        wanted = (settings or FleetSettings()).sources
        self._sources = [source for source in sources if not wanted or source.name in wanted]
        self._schedulers: tuple[KubernetesState | SlurmState, ...] = (
            KubernetesState(settings),
            SlurmState(),
        )
        others = (*self._schedulers, ServingMetrics())
        self._others = [other for other in others if not wanted or other.name in wanted]

    def probe(
        self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
    ) -> tuple[SourceReport, ...]:
        """Probe all sources; a report without devices and metrics found nothing."""
        reports = [source.probe(store, now, lookback) for source in self._sources]
        return (*reports, *(_probed(other, store, now, lookback) for other in self._others))

    def inventory(
        self,
        store: MetricStore,
        reports: Sequence[SourceReport],
        now: Nanoseconds,
        lookback: Nanoseconds,
    ) -> FleetInventory:
        """Return all devices, each by the first source that knows it."""
        fleet_inventory = FleetInventory()
        for source, report in self.readers(reports):
            if report.devices:
                fleet_inventory = _merged(
                    fleet_inventory, source.name, source.inventory(store, report, now, lookback)
                )
        times = {report.source: report.time or now for report in reports if report.metrics}
        # Of two schedulers, what is there now wins over what has gone.
        for scheduler in sorted(self._schedulers, key=lambda one: times.get(one.name, 0)):
            if (time := times.get(scheduler.name)) is not None:
                waiting = fleet_inventory.waiting
                fleet_inventory = scheduler.enrich(store, fleet_inventory, time, lookback)
                fleet_inventory = (
                    fleet_inventory if time == now else replace(fleet_inventory, waiting=waiting)
                )
        return with_witnesses(store, fleet_inventory, now, lookback)

    def readers(self, reports: Sequence[SourceReport]) -> list[tuple[FleetSource, SourceReport]]:
        """Pair the sources with their reports."""
        source_reports = {report.source: report for report in reports}
        return [
            (source, source_reports[source.name])
            for source in self._sources
            if source.name in source_reports
        ]


_GONE: Final = "No series for {}: what it tells is as of then; work that waits is not known."


def _probed(
    source: KubernetesState | SlurmState | ServingMetrics,
    store: MetricStore,
    now: Nanoseconds,
    lookback: Nanoseconds,
) -> SourceReport:
    """Return what a source tells now, else when it was there last: it may be down."""
    report = source.probe(store, now)
    if report.metrics or (last := last_seen(store, source.names, now, lookback)) is None:
        return report
    report = source.probe(store, last)
    if not report.metrics:  # Nothing tells that it ever was there.
        return report
    gone = _GONE.format(format_duration(seconds(now - last)))
    return replace(report, time=last, can=(), warnings=(gone, *report.warnings))


def _merged(better: FleetInventory, name: str, other: FleetInventory) -> FleetInventory:
    """Add another source's devices. Agents are installed, and removed, node by node."""
    devices = dict(better.devices)
    slots = {_slot(device) for device in devices.values()}
    for uuid, device in other.devices.items():
        fleet_device = devices.get(uuid)
        if fleet_device and fleet_device.seen[1] >= device.seen[1]:
            devices[uuid] = replace(fleet_device, former=name)
        elif fleet_device or _slot(device) not in slots:
            devices[uuid] = replace(device, source=name)
    return replace(better.merged(other), devices=devices)


def _slot(device: FleetDevice) -> str:
    """Return the slot of a MIG instance, whose uuid exporters lack, else the uuid."""
    mig = device.device.mig
    return device.device.uuid if mig is None else f"{mig.parent_uuid}/gi{mig.gpu_instance_id}"


ProgressCallback = Callable[[str, int, int], None]
"""Receives a stage, and the numbers of done and total parts."""


def waiting_for_store(progress: ProgressCallback, waited: float, patience: float) -> None:
    """Show that the store is being waited for."""
    progress("waiting", int(waited), max(int(patience), int(waited) + 1))


class FleetContext(Struct, frozen=True):
    """What is known before anything is read."""

    now: Nanoseconds
    reports: tuple[SourceReport, ...]
    inventory: FleetInventory
    plan: FetchPlan
    store: PrometheusStore
    readers: Mapping[str, tuple[FleetSource, SourceReport]]
    """By report key."""
    queries: int
    """Number of queries of the whole look, with those of the probe."""
    notes: tuple[str, ...] = ()
    """Notes on its clusters."""


def fleet_context(
    settings: FleetConfig,
    catalogue: Catalogue,
    plan: Callable[[Sequence[PlannedSource]], FetchPlan],
    now: Nanoseconds,
    progress: ProgressCallback,
) -> FleetContext:
    """Probe the store, and plan what to read.

    Raises:
        StoreError: the store does not answer, or has no devices.
        ConfigurationError: its address or credentials are invalid.
    """
    fleet = settings.fleet
    lookback = nanoseconds(fleet.lookback_seconds)
    store = store_of(fleet, waiting=partial(waiting_for_store, progress))
    progress("probing", 0, 1)
    all_clusters, notes = clusters_in(store, fleet.cluster_label, now, lookback)
    clusters = tuple(cluster for cluster in all_clusters if fleet.part.has_cluster(cluster.name))
    if fleet.shard and not fleet.part.is_by_node:
        there = ", ".join(cluster.name or "the one without a name" for cluster in clusters)
        among = f"Shard {fleet.shard} has {len(clusters)} of {len(all_clusters)} clusters"
        notes = (*notes, f"{among}: {there or 'none'}.")
    reports: list[SourceReport] = []
    inventories: list[tuple[Cluster, FleetInventory]] = []
    readers: dict[str, tuple[FleetSource, SourceReport]] = {}
    for done, cluster in enumerate(clusters, start=1):
        sources = CompositeSource(sources_of(settings, catalogue), fleet)
        part = store.within(cluster.matchers) if cluster.matchers else store
        probed = [
            replace(source_report, cluster=cluster)
            for source_report in sources.probe(part, now, lookback)
        ]
        reports += probed
        fleet_inventory = sources.inventory(part, probed, now, lookback)
        inventories.append((cluster, inventory_in(cluster, fleet_inventory)))
        readers |= {reader[1].key: reader for reader in sources.readers(probed)}
        progress("probing", done, len(clusters) + 1)
    if not any(report.devices for report in reports) and (clusters or not all_clusters):
        raise StoreError(f"the store at {fleet.store.url} {why_nothing(store, now, lookback)}")
    notes = (*notes, *unclear_clusters(inventories), *left_out(store, now))
    inventory = joined(cluster_inventory for _, cluster_inventory in inventories)
    notes = (*notes, *unnamed_nodes(inventory))
    fetch_plan = plan(
        [
            PlannedSource(
                report,
                tuple(
                    device
                    for device in inventory.devices.values()
                    if report.source in (device.source, device.former)
                    and device.cluster == report.cluster.name
                ),
            )
            for _, report in readers.values()
        ]
    )
    queries = store.use.queries + _queries_of(fetch_plan, readers)
    progress("probing", 1, 1)
    return FleetContext(now, tuple(reports), inventory, fetch_plan, store, readers, queries, notes)


def _queries_of(plan: FetchPlan, readers: Mapping[str, tuple[FleetSource, SourceReport]]) -> int:
    """Return how many queries the shards of a plan take."""
    return sum(
        source.queries(report, [shard.grid for shard in plan.shards if shard.source == key])
        for key, (source, report) in readers.items()
    )


def teams_of_ended(
    context: FleetContext, settings: FleetSettings, workloads: Mapping[str, Workload]
) -> dict[str, str]:
    """Return the teams that the labels of pods named that are gone, by workload."""
    kubernetes = KubernetesState(settings)
    teams = dict[str, str]()
    listed = context.inventory.workloads.keys() | context.inventory.teams.keys()
    ended = [workload for key, workload in workloads.items() if key not in listed]
    span = LookbackSpan(context.now, nanoseconds(settings.lookback_seconds))
    for report in context.reports:
        if report.source == kubernetes.name and "kube_pod_labels" in report.metrics:
            cluster = report.cluster
            of_cluster = (
                workload
                for workload in ended
                if workload.key.startswith(cluster.named("kubernetes:"))
            )
            store = context.store.within(cluster.matchers)
            teams |= kubernetes.teams_of_pods(store, of_cluster, span)
    return teams


def store_of(
    settings: FleetSettings,
    workers: int = 1,
    *,
    waiting: WaitingCallback = lambda *_: None,
    has_answered: bool = False,
) -> PrometheusStore:
    """Create the store client of a worker process; workers share the allowed concurrency."""
    concurrency = max(1, settings.store.concurrency // workers)
    try:
        return PrometheusStore(
            replace(settings.store, concurrency=concurrency),
            settings.matchers,
            waiting=waiting,
            has_answered=has_answered,
        )
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
