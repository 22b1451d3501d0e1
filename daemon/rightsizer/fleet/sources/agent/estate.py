"""The estate as our agents export it: devices, their holders, demands and advice."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from rightsizer.accounting.provisioning import ProvisioningSettings
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.estate import Estate, EstateDevice
from rightsizer.fleet.kept.grid import DAY
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.sources.agent.devices import (
    DEVICE_LABELS,
    NODE_LABELS,
    Capacities,
    estate_devices,
)
from rightsizer.fleet.sources.agent.node_advice import (
    advice_details_query,
    advice_query,
    node_advice,
)
from rightsizer.fleet.sources.agent.workloads import (
    WORKLOAD_LABELS,
    team_of,
    workloads_of,
)
from rightsizer.fleet.sources.labels import word_of
from rightsizer.fleet.store import Store

__all__ = ["EstateReader"]

_RECORDED: Final = "last_over_time(uuid:rightsizer_device_info:last5m[10m])"
"""Of the days whose scrapes are gone."""
_NEED: Final = 'max by (uuid, resource) (rightsizer_need_ratio{window="current"})'


class EstateReader:
    """Asks for the estate at a moment.

    Args:
        store: Who is asked.
        settings: Which labels name pools, clusters and teams.
        catalogue: What is known of boards.
        provisioning: The margins that the agents' needs have in them.
    """

    def __init__(
        self,
        store: Store,
        settings: FleetSettings,
        catalogue: Catalogue,
        provisioning: ProvisioningSettings,
    ) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = catalogue
        self._provisioning = provisioning

    def read(self, now: Nanoseconds, lookback: Nanoseconds) -> Estate:
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
        return Estate(
            devices={
                uuid: replace(each, demands=demands.get(uuid, {}))
                for uuid, each in self._devices(now, lookback).items()
            },
            workloads=workloads_of(infos),
            teams={key: team for key, team in teams.items() if team},
            advice=node_advice(advice, details),
        )

    def _devices(self, now: Nanoseconds, lookback: Nanoseconds) -> dict[str, EstateDevice]:
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


def _values(store: Store, name: str, now: Nanoseconds) -> dict[str, float]:
    answer = store.instant(f"max by (uuid) ({name})", now)
    return {series.labels.get("uuid", ""): series.values[-1] for series in answer}


def _infos(name: str, labels: Iterable[str]) -> str:
    by = ", ".join(dict.fromkeys(labels))
    return f"max by ({by}) ({name})"
