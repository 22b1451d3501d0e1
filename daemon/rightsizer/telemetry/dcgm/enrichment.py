"""Enrichment of a snapshot by a dcgm-exporter: matched devices, merged readings, holders."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.pcie import kernel_address
from rightsizer.io.clock import Clock
from rightsizer.model.values import BY_INDEX, Device, Holding, Missing, Reading, Signal, Snapshot
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.workload_limits import WorkloadNameLimiter, with_names
from rightsizer.telemetry.dcgm.endpoint import DcgmEndpoint, ExporterView
from rightsizer.telemetry.dcgm.series import OTHER_NODE, ExporterDevice
from rightsizer.telemetry.dcgm.settings import DcgmSettings

DCGM: Final = "dcgm"
_GPM: Final = "gpm"

_UNSAID: Final = frozenset({Missing.NOT_SUPPORTED, Missing.NOT_READ})
_EMPTY: Final[Mapping[Signal, Missing]] = {}


def merge_readings(
    reading: Reading,
    values: Mapping[Signal, float],
    *,
    profiled: Collection[Signal] = (),
    missing: Mapping[Signal, Missing] = _EMPTY,
) -> Reading:
    """Add DCGM's values for the same device that are missing from the reading, or better.

    `profiled` are the signals that DCGM took from hardware counters.
    """
    taken = {
        signal: value
        for signal, value in values.items()
        if _is_better(reading, signal, value, is_profiled=signal in profiled)
    }
    reasons = {
        signal: reason
        for signal, reason in missing.items()
        if reading.why_missing(signal) in _UNSAID and signal not in taken
    }
    if not taken and all(reading.missing.get(signal) == reasons[signal] for signal in reasons):
        return reading
    still_missing = {
        signal: why for signal, why in {**reading.missing, **reasons}.items() if signal not in taken
    }
    return replace(reading.enriched(taken, DCGM), missing=still_missing)


def _is_better(reading: Reading, signal: Signal, value: float, *, is_profiled: bool) -> bool:
    ours = reading.values.get(signal)
    if ours is None:
        return True
    origin = reading.origins.get(signal)
    if origin == DCGM:
        return value != ours
    if value == 0 < ours:
        return False  # Profiling counters that have failed read 0 (dcgm-exporter#662).
    # NVML is read every tick, an exporter twice a minute; but a share of engine time says more than
    # a share of time with any kernel resident.
    return is_profiled and signal is Signal.GPU_BUSY and origin != _GPM


def matches(ours: Iterable[Device], view: ExporterView) -> Mapping[str, str]:
    """Return our uuid by the exporter's name of a device, for devices known to both.

    A MIG instance is matched by its uuid, or by its GPU and GPU instance id. If compute instances
    share a GPU instance, its values belong to none of them.
    """
    uuids: set[str] = set()
    slots: dict[str, str] = {}
    places: dict[tuple[str, int], list[str]] = {}
    for device in ours:
        uuids.add(device.uuid)
        if device.mig is not None:
            place = (device.mig.parent_uuid, device.mig.gpu_instance_id)
            places.setdefault(place, []).append(device.uuid)
        elif (address := kernel_address(device.pci_bus_id)) is not None:
            slots[address] = device.uuid
    devices = {device.uuid: device for device in view.devices}
    matched: dict[str, str] = {}
    for key in view.readings:
        if key in uuids:
            matched[key] = key
        elif key in view.instances:
            parent, number = view.instances[key]
            at = places.get((matched.get(parent, parent), number), [])
            if len(at) == 1:
                matched[key] = at[0]
        elif devices[key].uuid.startswith(BY_INDEX):
            # A device with a uuid is not matched by its address.
            slot = kernel_address(devices[key].pci_bus_id)
            matched |= {key: slots[slot]} if slot in slots else {}
    return matched


def _is_unmatched(device: Device, uuids: set[str], slots: set[str | None]) -> bool:
    """Whether only the exporter knows the device: it is not one of ours by another name."""
    if device.uuid in uuids or kernel_address(device.pci_bus_id) in slots:
        return False
    if device.uuid.startswith(BY_INDEX):
        return not uuids
    if device.mig is not None:
        return device.mig.parent_uuid not in uuids
    # An instance of unknown size, because its board is not in the catalogue.
    return "/gi" not in device.uuid and not device.uuid.startswith("MIG-")


def _numbered(ours: Iterable[Device], added: Iterable[Device]) -> tuple[Device, ...]:
    """Number the added devices after ours: the exporter's index may name another GPU here."""
    used = {device.index for device in ours}
    if not used:
        return tuple(added)
    first = max(used) + 1
    return tuple(replace(device, index=first + device.index, has_index=False) for device in added)


class _AddedDevices(Struct, frozen=True):
    """Devices that a view adds to ours; `None` if it has none of the node's."""

    view: ExporterView
    ours: tuple[Device, ...]
    devices: tuple[Device, ...] | None


class DcgmSecondarySource(DcgmEndpoint):
    """A dcgm-exporter next to NVML."""

    def __init__(
        self,
        settings: DcgmSettings,
        catalogue: Catalogue,
        clock: Clock,
        *,
        sysfs: Path = Path("/sys"),
        name_limiter: WorkloadNameLimiter | None = None,
    ) -> None:
        """Create it; `name_limiter` is shared with the node's other sources of workloads."""
        if name_limiter is None:
            name_limiter = WorkloadNameLimiter.of(OwnerSettings())
        self._name_limiter = name_limiter
        maximum = self._name_limiter.workloads_maximum
        super().__init__(settings, catalogue, clock, sysfs=sysfs, workloads_maximum=maximum)
        self._added: _AddedDevices | None = None

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """Merge the exporter's current page into the snapshot; never waits.

        Readings of devices that the driver offers are improved, never duplicated. Devices that only
        the exporter knows are added, with a reading at the snapshot's time while their values are
        current.
        """
        self._driver_devices = snapshot.devices
        view = self.view()
        uuids = {device.uuid for device in snapshot.devices}
        added = self._added_devices(snapshot.devices, view)
        if added is None:
            # The page was read before the driver offered its GPUs.
            self._forget_listed()
            outcome = view.outcome._replace(success=False, failure=OTHER_NODE)
            return replace(snapshot, collectors={**snapshot.collectors, self.name: outcome})
        exported = {
            uuid: view.readings[key] for key, uuid in matches(snapshot.devices, view).items()
        }
        readings = dict(snapshot.readings)
        for uuid in readings.keys() & exported.keys():
            exporter_device = exported[uuid]
            readings[uuid] = merge_readings(
                readings[uuid],
                exporter_device.values,
                profiled=exporter_device.profiled,
                missing=exporter_device.missing,
            )
        for device in added:
            uuid = device.uuid
            if uuid in view.readings and uuid not in view.down:
                exporter_device = exported[uuid] = view.readings[uuid]
                bare = Reading(uuid, snapshot.time, {}, exporter_device.missing)
                readings[uuid] = bare.enriched(exporter_device.values, DCGM)
        listed = uuids | {device.uuid for device in added}
        down = {device.uuid: view.down[device.uuid] for device in added if device.uuid in view.down}
        driver = {} if view.driver_version is None else {"driver_version": view.driver_version}
        xids = {uuid: log for uuid, log in view.xids.items() if uuid in listed}
        return replace(
            snapshot,
            devices=(*snapshot.devices, *_numbered(snapshot.devices, added)),
            readings=readings,
            down={**snapshot.down, **down},
            holdings=self._with_holdings(snapshot, readings, exported),
            collectors={**snapshot.collectors, self.name: view.outcome},
            driver={**driver, **snapshot.driver},
            xids={**xids, **snapshot.xids},
            trouble=snapshot.trouble if snapshot.devices or not added else None,
        )

    def _added_devices(
        self, ours: tuple[Device, ...], view: ExporterView
    ) -> tuple[Device, ...] | None:
        """Return the devices that only the exporter knows; `None` if it knows none of the node's.

        They are found again only if the page or our devices change.
        """
        added_devices = self._added
        if added_devices is not None and added_devices.view is view and added_devices.ours == ours:
            return added_devices.devices
        uuids = {device.uuid for device in ours}
        slots = {kernel_address(device.pci_bus_id) for device in ours} - {None}
        unmatched = [device for device in view.devices if _is_unmatched(device, uuids, slots)]
        own_boards = self.node_gpus.own(
            {device.board_uuid: device.pci_bus_id for device in unmatched}
        )
        devices = tuple(device for device in unmatched if device.board_uuid in own_boards)
        is_foreign = bool(uuids and unmatched) and len(unmatched) == len(view.devices)
        self._added = _AddedDevices(view, ours, None if is_foreign and not devices else devices)
        return self._added.devices

    def _with_holdings(
        self,
        snapshot: Snapshot,
        readings: Mapping[str, Reading],
        exported: Mapping[str, ExporterDevice],
    ) -> Mapping[str, tuple[Holding, ...]]:
        """Return our holdings, and the exporter's (the kubelet's allocations) for other devices."""
        holdings = dict(snapshot.holdings)
        for uuid, device in exported.items():
            if not device.holdings or holdings.get(uuid):
                continue
            reading = readings.get(uuid)
            is_empty = reading is not None and reading.processes == ()
            named = with_names(device.holdings, self._name_limiter.name)
            holdings[uuid] = tuple(replace(holding, has_process=not is_empty) for holding in named)
        return holdings
