"""Context of one run: sources, devices and fetch plan, known after the probe."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.clusters import clusters_in, inventory_in, joined, unclear_clusters
from rightsizer.fleet.fetch import FetchPlan, PlannedSource
from rightsizer.fleet.model import Cluster, FleetDevice, FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.prometheus.endpoint import WaitingCallback
from rightsizer.fleet.settings import FleetConfig, FleetSettings
from rightsizer.fleet.source import FleetSource, MetricStore, SourceReport
from rightsizer.fleet.sources.agent.source import AgentSource
from rightsizer.fleet.sources.dcgm_exporter.probe import spellings
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.kubernetes import KubernetesState
from rightsizer.fleet.sources.series import one_of
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.fleet.sources.slurm import SlurmState
from rightsizer.model.dcgm_fields import DCGM_FIELDS, EXPORTER
from rightsizer.model.errors import ConfigurationError, StoreError, StoreLimitError
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, format_duration, nanoseconds

_NAMES: Final = (
    *("rightsizer_device_up", "uuid:rightsizer_device_info:last5m"),
    *spellings(DCGM_FIELDS["DCGM_FI_DEV_FB_USED"]),
    *spellings(DCGM_FIELDS["DCGM_FI_DEV_GPU_UTIL"]),
)
_FOREIGN: Final[Mapping[str, str]] = {
    "nvidia_smi_utilization_gpu_ratio": "nvidia_gpu_exporter, which reads nvidia-smi",
    "nvidia_gpu_duty_cycle": "nvidia_gpu_prometheus_exporter",
    "nvidia_smi_utilization_gpu": "Telegraf, which reads nvidia-smi",
    "gpu_dcgm_utilization": "OpenTelemetry's DCGM receiver",
    "hw_gpu_utilization": "OpenTelemetry's conventions for hardware",
    "nv_gpu_utilization": "a Triton server, for itself",
    "kubernetes_io:node_accelerator_duty_cycle": "Google's system metrics",
    "gpu_gfx_activity": "AMD's device-metrics-exporter, and AMD's GPUs are not read",
    "amd_gpu_gfx_activity": "AMD's device-metrics-exporter, and AMD's GPUs are not read",
    "amd_gpu_use_percent": "AMD's amd_smi_exporter, and AMD's GPUs are not read",
    "neuroncore_utilization_ratio": "AWS's Neuron monitor, and its devices are not read",
    "habanalabs_utilization": "Intel's Gaudi exporter, and its devices are not read",
}
"""GPU-related metrics of other exporters, by name."""
_BESIDE: Final = frozenset({"nv_gpu_utilization", "kubernetes_io:node_accelerator_duty_cycle"})
"""Metrics of GPUs that usually have another exporter, too."""
_ABOUT_GPUS: Final = "(?i).*(gpu|dcgm|nvidia|nvml|accelerator).*"
_SHOWN: Final = 3
_JUST_NOW: Final = (900, 3600)
"""Seconds that unsynchronized clocks may differ."""


def why_nothing(store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> str:
    """Return why a store has no devices now, with the remedy; begins with "has no".

    Raises:
        StoreError: it does not answer.
    """
    names = one_of("__name__", _NAMES)
    if store.instant(f'count({{{names},UUID="",uuid=""}})', now):
        return (
            "has series of GPUs that name no GPU: keep the label UUID of dcgm-exporter where "
            "series are relabeled; a node's index names no GPU of a fleet"
        )
    selector = f"{{{names}}}"
    latest = ((span, f"count(last_over_time({selector}[{span}s]))") for span in _JUST_NOW)
    age: float | None = next((span for span, query in latest if store.instant(query, now)), None)
    if age is None:
        start = now - lookback // COARSE_STEP * COARSE_STEP
        found = store.range(f"count({selector})", start, now, COARSE_STEP)
        last = max((each.span[1] for each in found), default=None)
        age = None if last is None else (now - last) / NANOSECONDS_PER_SECOND
    if age is not None:
        return (
            f"has no series of GPUs now; the last are about {format_duration(age)} old: see "
            "whether it still scrapes, and whether this machine's clock is ahead of its own; to "
            "look back from a time before that, give --at"
        )
    for name in _foreign(store, now):
        return (
            f"has no series of GPUs that are read: {name} is by {_FOREIGN[name]}; let it scrape "
            "the agents or dcgm-exporter"
        )
    if others := _others(store, now):
        return (
            f"has no series of GPUs that are read, but of {', '.join(others)}: by another "
            "exporter, or renamed; let it scrape the agents or dcgm-exporter, and keep their names"
        )
    return (
        "has no series of GPUs: neither rightsizer_device_info nor DCGM_FI_DEV_*; let it scrape "
        "the agents, or check fleet.matchers, tenant and sources"
    )


def _others(store: MetricStore, now: Nanoseconds) -> list[str]:
    """Return some metrics that are about GPUs by their names."""
    query = f'topk({_SHOWN}, count by (__name__) ({{__name__=~"{_ABOUT_GPUS}"}}))'
    try:
        return sorted(each.labels["__name__"] for each in store.instant(query, now))
    except StoreError:  # Not all stores look for parts of names.
        return []


def _foreign(store: MetricStore, now: Nanoseconds) -> dict[str, int]:
    """Return the number of series of each unsupported exporter, by metric name."""
    others = one_of("__name__", sorted(_FOREIGN))
    found = store.instant(f"count by (__name__) ({{{others}}})", now)
    counts = {each.labels.get("__name__", ""): int(each.value) for each in found}
    return {name: count for name, count in counts.items() if name in _FOREIGN}


def _left_out(store: MetricStore, now: Nanoseconds) -> Iterator[str]:
    """Yield a sentence for each exporter that may be the only one of some GPUs."""
    try:
        found = _foreign(store, now)
    except StoreLimitError:  # A refusal to count is not fatal.
        return
    for name in sorted(found.keys() - _BESIDE):
        yield (
            f"Left out: {found[name]} series of {name}, which are by {_FOREIGN[name]}. GPUs that "
            "neither an agent nor dcgm-exporter watches are missing here."
        )


def _unnamed_nodes(inventory: FleetInventory) -> Iterator[str]:
    """Yield a sentence if GPUs are known by the pods of their exporters alone."""
    if count := sum(EXPORTER in each.node for each in inventory.devices.values()):
        yield (
            f"The nodes of {count} GPUs or instances are named by the pods of their exporters, "
            "which change with each restart: set NODE_NAME in dcgm-exporter's environment, add a "
            "label `node` where it is scraped, or scrape kube-state-metrics."
        )


def sources_of(settings: FleetConfig, catalogue: Catalogue) -> tuple[FleetSource, ...]:
    """Return the sources of devices, best first."""
    accounting, fleet = settings.accounting, settings.fleet
    usage, provisioning = accounting.books.usage, accounting.provisioning
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
        self._sources = [each for each in sources if not wanted or each.name in wanted]
        self._kubernetes, self._slurm = KubernetesState(settings), SlurmState()
        others = (self._kubernetes, self._slurm, ServingMetrics())
        self._others = [each for each in others if not wanted or each.name in wanted]

    def probe(
        self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
    ) -> tuple[SourceReport, ...]:
        """Probe all sources; a report without devices and metrics found nothing."""
        reports = [each.probe(store, now, lookback) for each in self._sources]
        return (*reports, *(each.probe(store, now) for each in self._others))

    def inventory(
        self,
        store: MetricStore,
        reports: Sequence[SourceReport],
        now: Nanoseconds,
        lookback: Nanoseconds,
    ) -> FleetInventory:
        """Return all devices, each by the first source that knows it."""
        found = FleetInventory()
        for source, report in self.readers(reports):
            if report.devices:
                found = _merged(found, source.name, source.inventory(store, report, now, lookback))
        there = {report.source for report in reports if report.metrics}
        if self._kubernetes.name in there:
            found = self._kubernetes.enrich(store, found, now)
        if self._slurm.name in there:
            found = self._slurm.enrich(store, found, now, lookback)
        return found

    def readers(self, reports: Sequence[SourceReport]) -> list[tuple[FleetSource, SourceReport]]:
        """Pair the sources with their reports."""
        known = {report.source: report for report in reports}
        return [(each, known[each.name]) for each in self._sources if each.name in known]


def _merged(better: FleetInventory, name: str, other: FleetInventory) -> FleetInventory:
    known = {*better.devices, *(_slot(each) for each in better.devices.values())}
    added = {
        uuid: replace(device, source=name)
        for uuid, device in other.devices.items()
        if uuid not in known and _slot(device) not in known
    }
    return better.merged(replace(other, devices=added))


def _slot(device: FleetDevice) -> str:
    """Return the slot of a MIG instance, whose uuid exporters lack, else the uuid."""
    mig = device.device.mig
    return device.device.uuid if mig is None else f"{mig.parent_uuid}/gi{mig.gpu_instance_id}"


ProgressCallback = Callable[[str, int, int], None]
"""Receives a stage, and the numbers of done and total parts."""


def waiting_for_store(progress: ProgressCallback, waited: float, patience: float) -> None:
    """Show that the store is being waited for."""
    progress("waiting", int(waited), max(int(patience), int(waited) + 1))


@dataclass(frozen=True, slots=True)
class FleetContext:
    """What is known before anything is read."""

    now: Nanoseconds
    reports: tuple[SourceReport, ...]
    inventory: FleetInventory
    plan: FetchPlan
    store: PrometheusStore
    readers: Mapping[str, tuple[FleetSource, SourceReport]]
    """By report key."""
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
    found, notes = clusters_in(store, fleet.cluster_label, now, lookback)
    shard = fleet.part
    clusters = tuple(each for each in found if shard.has_cluster(each.name))
    if fleet.shard and not shard.is_by_node:
        there = ", ".join(each.name or "the one without a name" for each in clusters) or "none"
        among = f"Shard {fleet.shard} has {len(clusters)} of {len(found)} clusters"
        notes = (*notes, f"{among}: {there}.")
    reports: list[SourceReport] = []
    inventories: list[tuple[Cluster, FleetInventory]] = []
    readers: dict[str, tuple[FleetSource, SourceReport]] = {}
    for done, cluster in enumerate(clusters, start=1):
        sources = CompositeSource(sources_of(settings, catalogue), fleet)
        part = store.within(cluster.matchers) if cluster.matchers else store
        probed = [replace(each, cluster=cluster) for each in sources.probe(part, now, lookback)]
        reports += probed
        own = sources.inventory(part, probed, now, lookback)
        inventories.append((cluster, inventory_in(cluster, own)))
        readers |= {each[1].key: each for each in sources.readers(probed)}
        progress("probing", done, len(clusters) + 1)
    if not any(report.devices for report in reports) and (clusters or not found):
        raise StoreError(f"the store at {fleet.store.url} {why_nothing(store, now, lookback)}")
    notes = (*notes, *unclear_clusters(inventories), *_left_out(store, now))
    inventory = joined(each for _, each in inventories)
    notes = (*notes, *_unnamed_nodes(inventory))
    fetch_plan = plan(
        [
            PlannedSource(
                report,
                tuple(
                    each
                    for each in inventory.devices.values()
                    if (each.source, each.cluster) == (report.source, report.cluster.name)
                ),
            )
            for _, report in readers.values()
        ]
    )
    progress("probing", 1, 1)
    return FleetContext(now, tuple(reports), inventory, fetch_plan, store, readers, notes)


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
