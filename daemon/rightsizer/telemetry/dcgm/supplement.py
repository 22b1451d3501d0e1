"""A snapshot with what a dcgm-exporter knows: better values, holders, and GPUs of its own."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from rightsizer.domain.device import Device
from rightsizer.domain.reading import Reading
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.workload import Holding
from rightsizer.telemetry.dcgm.endpoint import DcgmEndpoint
from rightsizer.telemetry.dcgm.matching import matches, strangers
from rightsizer.telemetry.dcgm.view import Told
from rightsizer.telemetry.merge import DCGM, merge

__all__ = ["DcgmNeighbor", "supplement"]

_DRIVER_VERSION: Final = "driver_version"


def supplement(snapshot: Snapshot, endpoint: DcgmEndpoint) -> Snapshot:
    """The snapshot and what stands of the exporter's page; waits for nothing.

    Devices that the driver offers are read better, never twice. Devices that the exporter alone
    knows are added, with a reading at the snapshot's own time while their values hold.
    """
    view = endpoint.view()
    told = {
        uuid: view.told[key]
        for key, uuid in matches(snapshot.devices, view).items()
        if key in view.told
    }
    readings = {
        uuid: _merged(reading, told.get(uuid)) for uuid, reading in snapshot.readings.items()
    }
    added = strangers(snapshot.devices, view)
    for device in added:
        known = view.told.get(device.uuid)
        if known is not None and device.uuid not in view.down:
            readings[device.uuid] = _reading(device.uuid, snapshot, known)
            told[device.uuid] = known
    listed = {device.uuid for device in (*snapshot.devices, *added)}
    down = {device.uuid: view.down[device.uuid] for device in added if device.uuid in view.down}
    driver = {} if view.driver_version is None else {_DRIVER_VERSION: view.driver_version}
    xids = {uuid: log for uuid, log in view.xids.items() if uuid in listed}
    return replace(
        snapshot,
        devices=(*snapshot.devices, *_numbered(snapshot.devices, added)),
        readings=readings,
        down={**snapshot.down, **down},
        holdings=_with_holdings(snapshot, readings, told),
        collectors={**snapshot.collectors, endpoint.name: view.outcome},
        driver={**driver, **snapshot.driver},
        xids={**xids, **snapshot.xids},
        trouble=snapshot.trouble if snapshot.devices or not added else None,
    )


def _merged(reading: Reading, told: Told | None) -> Reading:
    if told is None:
        return reading
    return merge(reading, told.values, profiled=told.profiled, missing=told.missing)


def _reading(uuid: str, snapshot: Snapshot, told: Told) -> Reading:
    origins = dict.fromkeys(told.values, DCGM)
    return Reading(uuid, snapshot.time, told.values, told.missing, origins=origins)


def _with_holdings(
    snapshot: Snapshot, readings: Mapping[str, Reading], told: Mapping[str, Told]
) -> Mapping[str, tuple[Holding, ...]]:
    """Ours, and the exporter's where we know of nobody: what the kubelet has given to whom."""
    holdings = dict(snapshot.holdings)
    for uuid, known in told.items():
        if not known.holdings or holdings.get(uuid):
            continue
        reading = readings.get(uuid)
        is_empty = reading is not None and reading.processes == ()
        holdings[uuid] = tuple(
            replace(holding, has_process=not is_empty) for holding in known.holdings
        )
    return holdings


def _numbered(ours: Iterable[Device], added: Iterable[Device]) -> tuple[Device, ...]:
    """The added devices with indices that none of ours has; instances keep their GPU's."""
    used = {device.index for device in ours}
    if not used:
        return tuple(added)
    first = max(used) + 1
    return tuple(replace(device, index=first + device.index) for device in added)


class DcgmNeighbor:
    """A dcgm-exporter as a neighbor; says once what ails it."""

    def __init__(self, endpoint: DcgmEndpoint) -> None:
        """Says nothing before the first snapshot."""
        self._endpoint = endpoint
        self._told: str | None = None
        self._log = structlog.get_logger(component="dcgm")

    def supplement(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the exporter knows."""
        error = self._endpoint.view().error
        if error != self._told and error is not None:
            self._log.warning("dcgm_unread", reason=error)
        self._told = error
        return supplement(snapshot, self._endpoint)

    def close(self) -> None:
        """Let the thread end."""
        self._endpoint.close()
