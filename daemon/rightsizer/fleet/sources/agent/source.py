"""AgentSource: fleet inventory, node advice and days from the agents' own metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.fleet.cache.day_frame import DAY, Grid
from rightsizer.fleet.model import FleetDay, FleetDevice, FleetInventory, NodeAdvice
from rightsizer.fleet.settings import AgentSourceSettings, FleetSettings
from rightsizer.fleet.source import MetricStore, SampledSeries, SourceReport
from rightsizer.fleet.sources.agent.day import DayReader
from rightsizer.fleet.sources.agent.devices import (
    DEVICE_LABELS,
    NODE_LABELS,
    WORKLOAD_LABELS,
    Capacities,
    estate_devices,
    team_of,
    workloads_of,
)
from rightsizer.fleet.sources.agent.metrics import FIGURE
from rightsizer.fleet.sources.agent.probe import NAME, STATES, probe
from rightsizer.fleet.sources.series import word_of
from rightsizer.model.finding import Risk
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.state import Resource
from rightsizer.model.units import Nanoseconds

_LABELS: Final = "id, finding, reason, action, uuid, workload"
_DETAILS: Final = {
    "confidence": "rightsizer_advice_confidence_ratio",
    "risk": "rightsizer_advice_risk_ratio",
    "gpus": "rightsizer_advice_savings_gpus",
    "dollars": "rightsizer_advice_savings_dollars_per_hour",
    "opened": "rightsizer_advice_opened_timestamp_seconds",
}
_RISKS: Final = {0.01: Risk.VERY_LOW, 0.05: Risk.LOW, 0.15: Risk.MEDIUM, 1.0: Risk.HIGH}
"""By the upper bound that is exported; an unknown one is not."""

Key = tuple[str, str]
"""Id and instance: two nodes that advise the same of one workload give it the same id."""


def advice_query() -> str:
    """Which advice is open, by node; what the fleet itself exports is not a node's."""
    own = 'rightsizer_build_info{source="fleet"}'
    return f"max by (instance, {_LABELS}) (rightsizer_advice_info unless on (job, instance) {own})"


def advice_details_query() -> str:
    """How sure it is, and what it would save."""
    return " or ".join(
        f'label_replace(max by (instance, id) ({name}), "{FIGURE}", "{figure}", "", "")'
        for figure, name in _DETAILS.items()
    )


def node_advice(
    advice: Iterable[SampledSeries], details: Iterable[SampledSeries]
) -> tuple[NodeAdvice, ...]:
    """The pieces of advice, each with all of its devices."""
    figures: dict[Key, dict[str, float]] = {}
    for series in details:
        figures.setdefault(_key(series.labels), {})[series.labels.get(FIGURE, "")] = series.values[
            -1
        ]
    devices: dict[Key, set[str]] = {}
    told: dict[Key, Mapping[str, str]] = {}
    for series in advice:
        key = _key(series.labels)
        told.setdefault(key, series.labels)
        devices.setdefault(key, set()).add(series.labels.get("uuid", ""))
    return tuple(
        _piece(told[key], tuple(sorted(devices[key] - {""})), figures.get(key, {}))
        for key in sorted(told)
    )


def _piece(
    labels: Mapping[str, str], devices: tuple[str, ...], figures: Mapping[str, float]
) -> NodeAdvice:
    bound = figures.get("risk")
    risk = Risk.UNKNOWN if bound is None else _RISKS.get(bound, Risk.UNKNOWN)
    return NodeAdvice(
        id=labels.get("id", ""),
        finding=labels.get("finding", ""),
        reason=labels.get("reason", ""),
        action=labels.get("action", ""),
        workload=labels.get("workload", ""),
        devices=devices,
        confidence=figures.get("confidence"),
        risk=risk.value,
        savings_gpus=figures.get("gpus"),
        savings_dollars_per_hour=figures.get("dollars"),
        opened_seconds=figures.get("opened"),
    )


def _key(labels: Mapping[str, str]) -> Key:
    return labels.get("id", ""), labels.get("instance", "")


_RECORDED: Final = "last_over_time(uuid:rightsizer_device_info:last5m[10m])"
"""Of the days whose scrapes are gone."""
_NEED: Final = 'max by (uuid, resource) (rightsizer_need_ratio{window="current"})'


class InventoryReader:
    """Asks for the estate at a moment.

    Args:
        store: Who is asked.
        settings: Which labels name pools, clusters and teams.
        catalogue: What is known of boards.
        provisioning: The margins that the agents' needs have in them.
    """

    def __init__(
        self,
        store: MetricStore,
        settings: FleetSettings,
        catalogue: Catalogue,
        provisioning: ProvisioningSettings,
    ) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = catalogue
        self._provisioning = provisioning

    def read(self, now: Nanoseconds, lookback: Nanoseconds) -> FleetInventory:
        """What there is now, and devices that were there when one of the days before ended."""
        store, settings = self._store, self._settings
        labels = (*WORKLOAD_LABELS, *settings.team_labels)
        infos = store.instant(_infos("rightsizer_workload_info", labels), now)
        teams = {
            series.labels["workload"]: team_of(series.labels, settings.team_labels)
            for series in infos
            if series.labels.get("workload")
        }
        demands = self._demands(now)
        advice = store.instant(advice_query(), now)
        details = store.instant(advice_details_query(), now) if advice else ()
        return FleetInventory(
            devices={
                uuid: replace(each, demands=demands.get(uuid, {}))
                for uuid, each in self._devices(now, lookback).items()
            },
            workloads=workloads_of(infos),
            teams={key: team for key, team in teams.items() if team},
            advice=node_advice(advice, details),
        )

    def _devices(self, now: Nanoseconds, lookback: Nanoseconds) -> dict[str, FleetDevice]:
        store, settings = self._store, self._settings
        labels = (*DEVICE_LABELS, *NODE_LABELS, settings.cluster_label, *settings.pool_labels)
        query = f"{_infos('rightsizer_device_info', labels)} or {_infos(_RECORDED, labels)}"
        capacities = Capacities(
            shares=_values(store, "rightsizer_device_capacity_ratio", now),
            memory_bytes=_values(store, "rightsizer_memory_total_bytes", now),
            power_limit_watts=_values(store, "rightsizer_power_limit_watts", now),
        )
        # Of what left meanwhile, the end of its last whole day is near enough.
        moments = (now, *range(now - now % DAY, now - lookback, -DAY))
        infos = (series.labels for moment in moments for series in store.instant(query, moment))
        return estate_devices(infos, capacities, self._catalogue, settings)

    def _demands(self, now: Nanoseconds) -> dict[str, dict[Resource, float]]:
        """What is needed of each device, less the margin that its agent adds."""
        found: dict[str, dict[Resource, float]] = {}
        settings = self._provisioning
        for series in self._store.instant(_NEED, now):
            resource = word_of(Resource, series.labels.get("resource", ""))
            if resource is not None:
                is_memory = resource is Resource.MEMORY
                margin = settings.memory_margin_ratio if is_memory else settings.margin_ratio
                demands = found.setdefault(series.labels.get("uuid", ""), {})
                demands[resource] = series.values[-1] / (1 + margin)
        return found


def _values(store: MetricStore, name: str, now: Nanoseconds) -> dict[str, float]:
    answer = store.instant(f"max by (uuid) ({name})", now)
    return {series.labels.get("uuid", ""): series.values[-1] for series in answer}


def _infos(name: str, labels: Iterable[str]) -> str:
    by = ", ".join(dict.fromkeys(labels))
    return f"max by ({by}) ({name})"


@dataclass(frozen=True, slots=True)
class AgentSource:
    """A `Source` of the metrics that docs/metrics.md lists."""

    catalogue: Catalogue
    fleet: FleetSettings = field(default_factory=FleetSettings)
    settings: AgentSourceSettings = field(default_factory=AgentSourceSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    """As the agents have it: what they need has its margins in it."""

    @property
    def name(self) -> str:
        """As in `SourceReport.source`."""
        return NAME

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution."""
        return probe(store, now, lookback, self.settings)

    def estate(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """What is there now, and devices that were when one of the days before ended."""
        if report.oldest is not None:
            lookback = min(lookback, now - report.oldest)
        reader = InventoryReader(store, self.fleet, self.catalogue, self.provisioning)
        return reader.read(now, lookback)

    def day(
        self, store: MetricStore, report: SourceReport, devices: Sequence[FleetDevice], grid: Grid
    ) -> FleetDay:
        """One day of some devices, from recording rules that were there when it began."""
        names = report.names_by_day.get(grid.day)
        if names is None:
            # Whatever came in the middle of a day has all of it as scrapes, if these were kept.
            scraped = frozenset(name for name in report.metrics if ":" not in name)
            names = scraped if STATES in scraped else report.metrics
        return DayReader(store, names, devices, grid, self.usage).read()
