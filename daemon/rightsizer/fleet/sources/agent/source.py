"""AgentSource: fleet inventory, node advice and days from the agents' own metrics."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, completed, mig_instance
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.model import FleetDay, FleetDevice, FleetInventory, NodeAdvice
from rightsizer.fleet.settings import AgentSourceSettings, FleetSettings
from rightsizer.fleet.source import MetricStore, SampledSeries, SourceReport
from rightsizer.fleet.sources.agent.day import (
    WORKLOAD_LABELS,
    DayReader,
    queries_of,
    workloads_of,
)
from rightsizer.fleet.sources.agent.probe import NAME, STATES, AgentProbe
from rightsizer.fleet.sources.figures import FIGURE
from rightsizer.fleet.sources.series import (
    NODE_LABELS,
    at_moment,
    divided,
    first_label,
    node_of,
    seen_over,
    spans_of,
    word_of,
)
from rightsizer.model.values import Device, MigInstance, Nanoseconds, Resource, Risk, Signal

DEVICE_LABELS: Final = (
    "uuid",
    "gpu",
    "pci_bus_id",
    "model",
    "architecture",
    "parent_uuid",
    "mig_profile",
    "numa_node",
)


def devices_of(
    infos: Iterable[Mapping[str, str]],
    shares: Mapping[str, float],
    figures: Mapping[str, Mapping[str, float]],
    catalogue: Catalogue,
    settings: FleetSettings,
) -> dict[str, FleetDevice]:
    """Return the devices by uuid.

    `infos` has labels of `rightsizer_device_info`, latest first per device; `shares` are ratios of
    a whole GPU, and `figures` by field of `Device`, both by uuid.
    """
    latest: dict[str, Mapping[str, str]] = {}
    for labels in infos:
        if labels.get("uuid"):
            latest.setdefault(labels["uuid"], labels)
    # An instance that has ended divides no GPU that is there now.
    parents = {
        parent
        for uuid, labels in latest.items()
        if (parent := labels.get("parent_uuid")) and (uuid in shares or parent not in shares)
    }
    devices = {}
    for uuid, labels in latest.items():
        board = catalogue.find(labels.get("model", ""))
        device_figures = {name: values.get(uuid) for name, values in figures.items()}
        device = _device(labels, board, shares.get(uuid, 1.0), device_figures)
        key = board.key if board else device.name or "unknown"
        devices[uuid] = FleetDevice(
            device=replace(device, has_mig_instances=uuid in parents),
            node=node_of(labels),
            pool=first_label(labels, settings.pool_labels) or key,
        )
    return devices


def _device(
    labels: Mapping[str, str], board: Board | None, share: float, figures: Mapping[str, Any]
) -> Device:
    mig = None
    parent = labels.get("parent_uuid", "")
    profile = labels.get("mig_profile", "")
    index, _, instance = labels.get("gpu", "").partition(":")
    if parent or profile:
        number = _whole(instance) or 0
        mig = None if board is None else mig_instance(board, profile, parent, number)
        mig = mig or MigInstance(
            parent, profile, number, 0, compute_share=share, memory_share=share
        )
    device = Device(
        uuid=labels["uuid"],
        index=_whole(index) or 0,
        name=labels.get("model", ""),
        architecture=labels.get("architecture") or None,
        pci_bus_id=labels.get("pci_bus_id") or None,
        numa_node=_whole(labels.get("numa_node")),
        mig=mig,
        **figures,
    )
    return device if board is None else completed(device, board)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


_TEXTS: Final = ("id", "finding", "reason", "action", "workload")
_LABELS: Final = "id, finding, reason, action, uuid, workload"
_RISK: Final = "rightsizer_advice_risk_ratio"
_DETAILS: Final = {
    "confidence": "rightsizer_advice_confidence_ratio",
    "savings_gpus": "rightsizer_advice_savings_gpus",
    "savings_dollars_per_hour": "rightsizer_advice_savings_dollars_per_hour",
    "opened_seconds": "rightsizer_advice_opened_timestamp_seconds",
}
"""By fields of `NodeAdvice`."""
_RISKS: Final = {0.01: Risk.VERY_LOW, 0.05: Risk.LOW, 0.15: Risk.MEDIUM, 1.0: Risk.HIGH}
"""By the exported upper bound; an unknown risk has none."""
_ADVICE: Final = (
    f"max by (instance, {_LABELS}) (rightsizer_advice_info"
    ' unless on (job, instance) rightsizer_build_info{source="fleet"})'
)
"""Excludes advice exported by a fleet itself."""
_ADVICE_DETAILS: Final = " or ".join(
    f'label_replace(max by (instance, id) ({name}), "{FIGURE}", "{figure}", "", "")'
    for figure, name in {**_DETAILS, "risk": _RISK}.items()
)


def node_advice(
    advice: Iterable[SampledSeries], details: Iterable[SampledSeries]
) -> tuple[NodeAdvice, ...]:
    """Return the open advice of the nodes, each with all of its devices."""
    figures: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for series in details:
        figures[_advice_key(series)][series.labels.get(FIGURE, "")] = series.value
    by_key: dict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
    for series in advice:
        by_key[_advice_key(series)].append(series.labels)
    recommendations = []
    for key, (labels, *others) in sorted(by_key.items()):
        facts: dict[str, Any] = {name: labels.get(name, "") for name in _TEXTS}
        facts |= {name: figures[key].get(name) for name in _DETAILS}
        risk = _RISKS.get(figures[key].get("risk", 0.0), Risk.UNKNOWN).value
        uuids = {some.get("uuid", "") for some in (labels, *others)} - {""}
        recommendations.append(NodeAdvice(**facts, devices=tuple(sorted(uuids)), risk=risk))
    return tuple(recommendations)


def _advice_key(series: SampledSeries) -> tuple[str, str]:
    """Return the id and the node: two nodes may give advice on one workload the same id."""
    return series.labels.get("id", ""), series.labels.get("instance", "")


_RECORDED: Final = "last_over_time(uuid:rightsizer_device_info:last5m[10m])"
"""For days whose scrapes are gone."""
_NEED: Final = 'max by (uuid, resource) (rightsizer_need_ratio{window="current"})'


class AgentSource(Struct, frozen=True):
    """`FleetSource` of the metrics listed in docs/metrics.md."""

    catalogue: Catalogue
    fleet: FleetSettings = FleetSettings()
    settings: AgentSourceSettings = AgentSourceSettings()
    usage: UsageSettings = UsageSettings()
    provisioning: ProvisioningSettings = ProvisioningSettings()
    """Same settings as the agents', whose exported needs include margins."""
    name: ClassVar[str] = NAME

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """Find what there is, how far back and at which resolution."""
        return AgentProbe(store, now, lookback, self.settings).report()

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """Return current devices, and those present at the end of any earlier day."""
        if report.oldest is not None:
            lookback = min(lookback, now - report.oldest)
        fleet = self.fleet
        labels = (*DEVICE_LABELS, "instance", *NODE_LABELS, *fleet.pool_labels)
        by = ", ".join(dict.fromkeys(labels))
        query = f"max by ({by}) (rightsizer_device_info) or max by ({by}) ({_RECORDED})"
        answers = divided(store, at_moment(query, now))
        # For devices that left since, the end of their last whole day is accurate enough.
        if moments := range(now - now % DAY, now - lookback, -DAY):
            former = seen_over(store, query, (moments[-1], now), DAY)
            answers += sorted(former, key=lambda series: series.span[1], reverse=True)
        seen = spans_of(answers)
        shares = _values(store, "rightsizer_device_capacity_ratio", now)
        names = ("memory_total_bytes", "power_limit_watts")
        figures = {name: _values(store, f"rightsizer_{name}", now) for name in names}
        infos = (series.labels for series in answers)
        devices = devices_of(infos, shares, figures, self.catalogue, fleet)
        by = ", ".join(dict.fromkeys((*WORKLOAD_LABELS, *fleet.team_labels)))
        workloads = store.instant(f"max by ({by}) (rightsizer_workload_info)", now)
        teams = {
            key: team
            for series in workloads
            if (key := series.labels.get("workload", ""))
            and (team := first_label(series.labels, fleet.team_labels))
        }
        readings = _readings(store, now)
        demands = _demands(divided(store, at_moment(_NEED, now)), self.provisioning)
        advice = store.instant(_ADVICE, now)
        details = store.instant(_ADVICE_DETAILS, now) if advice else ()
        return FleetInventory(
            devices={
                uuid: replace(
                    device,
                    demands=demands.get(uuid, {}),
                    readings=readings.get(uuid, {}),
                    seen=seen[uuid],
                )
                for uuid, device in devices.items()
            },
            workloads=workloads_of(workloads),
            teams=teams,
            advice=node_advice(advice, details),
        )

    def queries(self, report: SourceReport, grids: Sequence[Grid]) -> int:
        """See `FleetSource`."""
        return sum(queries_of(_names(report, grid), report.tier) for grid in grids)

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """Return one day of some devices, from recording rules present at its start."""
        return DayReader(store, _names(report, grid), devices, grid, self.usage).read()


def _names(report: SourceReport, grid: Grid) -> AbstractSet[str]:
    """Return the metrics present at the start of some days."""
    if (names := report.names_by_day.get(grid.day)) is not None:
        return names
    # Names that appeared during a day have all of it as scrapes, if these were kept.
    scraped = frozenset(name for name in report.metrics if ":" not in name)
    return scraped if STATES in scraped else report.metrics


def _values(store: MetricStore, name: str, now: Nanoseconds) -> dict[str, float]:
    answer = divided(store, at_moment(f"max by (uuid) ({name})", now))
    return {series.labels.get("uuid", ""): series.value for series in answer}


_READINGS: Final = {
    # Signals that show whether the host of a device was observed.
    Signal.CPU: Signal.CPU.metric_name,
    Signal.CPU_PRESSURE: Signal.CPU_PRESSURE.metric_name,
    Signal.IO_PRESSURE: Signal.IO_PRESSURE.metric_name,
    Signal.CLOCK_EVENT_REASONS: "rightsizer_clock_event_reason",
    # An agent with one has both; the other is exported only with details.
    Signal.SM_ACTIVE: "rightsizer_sm_work_ratio",
    Signal.FP32_ACTIVE: "rightsizer_sm_work_ratio",
}


def _readings(store: MetricStore, now: Nanoseconds) -> dict[str, dict[Signal, float]]:
    """Return the agents' readings of hosts and clocks now, by device: continuously measured."""
    readings: dict[str, dict[Signal, float]] = defaultdict(dict)
    for signal, name in _READINGS.items():
        for uuid, value in _values(store, name, now).items():
            readings[uuid][signal] = value
    return readings


def _demands(
    answer: Iterable[SampledSeries], settings: ProvisioningSettings
) -> dict[str, dict[Resource, float]]:
    """Return the needs of each device, less the margin that its agent adds."""
    demands_by_uuid: dict[str, dict[Resource, float]] = {}
    for series in answer:
        if (resource := word_of(Resource, series.labels.get("resource", ""))) is not None:
            is_memory = resource is Resource.MEMORY
            margin = settings.memory_margin_ratio if is_memory else settings.margin_ratio
            demands = demands_by_uuid.setdefault(series.labels.get("uuid", ""), {})
            demands[resource] = series.value / (1 + margin)
    return demands_by_uuid
