"""AgentSource: fleet inventory, node advice and days from the agents' own metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

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
    devices_of,
    team_of,
    workloads_of,
)
from rightsizer.fleet.sources.agent.metrics import FIGURE
from rightsizer.fleet.sources.agent.probe import NAME, STATES, AgentProbe
from rightsizer.fleet.sources.series import word_of
from rightsizer.model.finding import Risk
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.state import Resource
from rightsizer.model.units import Nanoseconds

_TEXTS: Final = ("id", "finding", "reason", "action", "workload")
_LABELS: Final = "id, finding, reason, action, uuid, workload"
_DETAILS: Final = {
    "confidence": "rightsizer_advice_confidence_ratio",
    "risk": "rightsizer_advice_risk_ratio",
    "gpus": "rightsizer_advice_savings_gpus",
    "dollars": "rightsizer_advice_savings_dollars_per_hour",
    "opened": "rightsizer_advice_opened_timestamp_seconds",
}
_RISKS: Final = {0.01: Risk.VERY_LOW, 0.05: Risk.LOW, 0.15: Risk.MEDIUM, 1.0: Risk.HIGH}
"""By the upper bound that is exported; an unknown risk has none."""

Key = tuple[str, str]
"""Id and instance: two nodes that advise the same of one workload give it the same id."""


_ADVICE: Final = (
    f"max by (instance, {_LABELS}) (rightsizer_advice_info"
    ' unless on (job, instance) rightsizer_build_info{source="fleet"})'
)
"""What a fleet itself exports is not a node's."""
_ADVICE_DETAILS: Final = " or ".join(
    f'label_replace(max by (instance, id) ({name}), "{FIGURE}", "{figure}", "", "")'
    for figure, name in _DETAILS.items()
)


def node_advice(
    advice: Iterable[SampledSeries], details: Iterable[SampledSeries]
) -> tuple[NodeAdvice, ...]:
    """The open advice of the nodes, each with all of its devices."""
    figures: dict[Key, dict[str, float]] = {}
    for series in details:
        of_advice = figures.setdefault(_key(series.labels), {})
        of_advice[series.labels.get(FIGURE, "")] = series.values[-1]
    devices: dict[Key, set[str]] = {}
    labels: dict[Key, Mapping[str, str]] = {}
    for series in advice:
        key = _key(series.labels)
        labels.setdefault(key, series.labels)
        devices.setdefault(key, set()).add(series.labels.get("uuid", ""))
    return tuple(
        NodeAdvice(
            **{name: labels[key].get(name, "") for name in _TEXTS},
            devices=tuple(sorted(devices[key] - {""})),
            confidence=(own := figures.get(key, {})).get("confidence"),
            risk=_RISKS.get(own.get("risk", 0.0), Risk.UNKNOWN).value,
            savings_gpus=own.get("gpus"),
            savings_dollars_per_hour=own.get("dollars"),
            opened_seconds=own.get("opened"),
        )
        for key in sorted(labels)
    )


def _key(labels: Mapping[str, str]) -> Key:
    return labels.get("id", ""), labels.get("instance", "")


_RECORDED: Final = "last_over_time(uuid:rightsizer_device_info:last5m[10m])"
"""Of the days whose scrapes are gone."""
_NEED: Final = 'max by (uuid, resource) (rightsizer_need_ratio{window="current"})'


@dataclass(frozen=True, slots=True)
class AgentSource:
    """A `FleetSource` of the metrics that docs/metrics.md lists."""

    catalogue: Catalogue
    fleet: FleetSettings = field(default_factory=FleetSettings)
    settings: AgentSourceSettings = field(default_factory=AgentSourceSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    """As the agents have it: what they need has its margins in it."""
    name: ClassVar[str] = NAME

    def probe(self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> SourceReport:
        """What there is, how far back and at which resolution."""
        return AgentProbe(store, now, lookback, self.settings).report()

    def inventory(
        self, store: MetricStore, report: SourceReport, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """What is there now, and devices that were when one of the days before ended."""
        if report.oldest is not None:
            lookback = min(lookback, now - report.oldest)
        team_labels = self.fleet.team_labels
        query = _infos("rightsizer_workload_info", (*WORKLOAD_LABELS, *team_labels))
        infos = store.instant(query, now)
        teams = {
            key: team
            for series in infos
            if (key := series.labels.get("workload", ""))
            and (team := team_of(series.labels, team_labels))
        }
        demands = self._demands(store, now)
        advice = store.instant(_ADVICE, now)
        details = store.instant(_ADVICE_DETAILS, now) if advice else ()
        return FleetInventory(
            devices={
                uuid: replace(each, demands=demands.get(uuid, {}))
                for uuid, each in self._devices(store, now, lookback).items()
            },
            workloads=workloads_of(infos),
            teams=teams,
            advice=node_advice(advice, details),
        )

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

    def _devices(
        self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
    ) -> dict[str, FleetDevice]:
        settings = self.fleet
        labels = (*DEVICE_LABELS, *NODE_LABELS, settings.cluster_label, *settings.pool_labels)
        query = f"{_infos('rightsizer_device_info', labels)} or {_infos(_RECORDED, labels)}"
        shares = _values(store, "rightsizer_device_capacity_ratio", now)
        figures = {
            "memory_total_bytes": _values(store, "rightsizer_memory_total_bytes", now),
            "power_limit_watts": _values(store, "rightsizer_power_limit_watts", now),
        }
        # Of what left meanwhile, the end of its last whole day is near enough.
        moments = (now, *range(now - now % DAY, now - lookback, -DAY))
        infos = (series.labels for moment in moments for series in store.instant(query, moment))
        return devices_of(infos, shares, figures, self.catalogue, settings)

    def _demands(self, store: MetricStore, now: Nanoseconds) -> dict[str, dict[Resource, float]]:
        """What is needed of each device, less the margin that its agent adds."""
        found: dict[str, dict[Resource, float]] = {}
        settings = self.provisioning
        for series in store.instant(_NEED, now):
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
