"""Poller of a dcgm-exporter on its own thread: current view, stalled collection, Xids."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.pcie import BusGpu, expected_gpus, kernel_address
from rightsizer.io.clock import Clock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.io.worker import FetchResult, PollingThread
from rightsizer.model.values import (
    CollectorOutcome,
    Device,
    Down,
    DriverError,
    Missing,
    Nanoseconds,
    Signal,
    XidLog,
    nanoseconds,
    seconds,
)
from rightsizer.telemetry.dcgm.node_gpus import NodeGpus
from rightsizer.telemetry.dcgm.series import (
    WORKLOADS_MAXIMUM,
    DcgmExpositionParser,
    ExporterDevice,
    ExporterPage,
)
from rightsizer.telemetry.dcgm.settings import DcgmSettings

_Evidence: TypeAlias = Mapping[Signal, float]
_GROWING_SIGNAL: Final = Signal.ENERGY_JOULES
_JITTERING_SIGNAL: Final = Signal.POWER_WATTS
_ACCEPT: Final = "text/plain;version=0.0.4"
_OURS: Final = "rightsizer_"
_STALLED: Final = Down(
    Missing.STALE, "dcgm-exporter repeats the same values: its collection stands still"
)
_LOST: Final = Down(Missing.LOST, "dcgm-exporter no longer lists it")


class ExporterView(Struct, frozen=True):
    """Current state of an exporter; without values older than their limit."""

    outcome: CollectorOutcome
    devices: tuple[Device, ...] = ()
    """All listed devices, including those that are down."""
    down: Mapping[str, Down] = {}
    readings: Mapping[str, ExporterDevice] = {}
    """By the exporter's own name of a device."""
    instances: Mapping[str, tuple[str, int]] = {}
    """GPU uuid and GPU instance id of each MIG instance."""
    xids: Mapping[str, XidLog] = {}
    driver_version: str | None = None


class StalledCollectionDetector:
    """Detects devices whose values repeat for longer than a running GPU's can.

    A GPU always draws power, so its energy counter grows with every collection. If the exporter
    omits energy, all values of the GPU must repeat, power draw included. Devices with neither
    follow their parent GPU, or else all the others.
    """

    def __init__(self, longest_age: Nanoseconds) -> None:
        self._longest_age = longest_age
        self._seen: dict[str, tuple[_Evidence, Nanoseconds]] = {}

    def update(self, page: ExporterPage, now: Nanoseconds) -> frozenset[str]:
        """Return the devices of a page whose values stand still."""
        seen: dict[str, tuple[_Evidence, Nanoseconds]] = {}
        for device, reading in page.readings.items():
            if (evidence := _evidence(reading.values)) is not None:
                before = self._seen.get(device, ({}, now))
                seen[device] = before if before[0] == evidence else (evidence, now)
        self._seen = seen
        still = {device for device, (_, since) in seen.items() if now - since > self._longest_age}
        is_all_still = bool(still) and len(still) == len(seen)
        for device in page.readings.keys() - seen.keys():
            parent, _ = page.instances.get(device, ("", 0))
            if parent in still or (parent not in seen and is_all_still):
                still.add(device)
        return frozenset(still)


def _evidence(values: Mapping[Signal, float]) -> _Evidence | None:
    """Return the values that cannot stay the same, or `None` if all may."""
    energy = values.get(_GROWING_SIGNAL)
    if energy:
        return {_GROWING_SIGNAL: energy}
    return values if values.get(_JITTERING_SIGNAL) else None


class XidGaugeTracker:
    """Counts changes of the Xid gauge; its first value may be old and is not counted."""

    def __init__(self) -> None:
        self._last: dict[str, int] | None = None
        self.logs: dict[str, XidLog] = {}
        """By uuid; the same code twice in a row counts once."""

    def update(self, xids: Mapping[str, int], wall_time: Nanoseconds) -> None:
        """Count the changes since the last page."""
        for uuid in xids.keys() - self.logs.keys():
            self.logs[uuid] = XidLog({})
        if self._last is not None:
            for uuid, code in xids.items():
                if self._last.get(uuid) != code:
                    self.logs[uuid] = self.logs[uuid].counted(code, wall_time)
        self._last = {**(self._last or {}), **xids}


class DcgmEndpoint:
    """One exporter's page: fetched in the background, evaluated on the caller's thread."""

    name = "dcgm"

    def __init__(
        self,
        settings: DcgmSettings,
        catalogue: Catalogue,
        clock: Clock,
        *,
        sysfs: Path = Path("/sys"),
        workloads_maximum: int = WORKLOADS_MAXIMUM,
    ) -> None:
        """Create it; nothing is fetched before the first view.

        `sysfs` shows the GPUs on the bus; the holders of a page beyond the maximum become one.
        """
        self._settings = settings
        self._clock = clock
        self._sysfs = sysfs
        self._reader = DcgmExpositionParser(catalogue, workloads_maximum)
        self._client = HttpClient(
            settings.address, settings.http, accept=_ACCEPT, token=settings.token
        )
        self._background = PollingThread(
            self.name,
            self._fetch,
            interval_seconds=settings.interval_seconds,
            hold_seconds=2 * settings.interval_seconds,
            now=lambda: seconds(clock.time()),
        )
        self._stall_detector = StalledCollectionDetector(nanoseconds(settings.longest_age_seconds))
        self._xids = XidGaugeTracker()
        self._listed: dict[str, tuple[Device, Nanoseconds]] = {}
        self._listed_boards: frozenset[str] = frozenset()
        self._dismissed: set[str] = set()
        self._driver_devices: tuple[Device, ...] = ()
        self._bus: tuple[BusGpu, ...] = ()
        self._fetched: FetchResult[ExporterPage] | None = None
        self._stalled: frozenset[str] = frozenset()
        self._view = ExporterView(FetchResult(None, "nothing was fetched yet").outcome)

    def view(self, wait_seconds: float = 0.0) -> ExporterView:
        """Return the current view; start the next fetch if due, by default without waiting."""
        if self._dismissed:
            self._dismiss()
        fetched = self._background.latest(wait_seconds)
        if fetched is not self._fetched:
            before = None if self._fetched is None else self._fetched.value
            self._fetched = fetched
            if fetched.value is not None and fetched.value is not before:
                self._update(fetched.value)
            self._view = self._view_of(fetched)
        return self._view

    def forget(self, uuid: str) -> None:
        """Forget a device that the exporter no longer lists; thread-safe."""
        self._dismissed.add(uuid)

    def _dismiss(self) -> None:
        """Forget the devices that were asked for, unless the last page lists them."""
        dismissed = self._dismissed
        self._dismissed = set()
        for uuid, (device, _) in list(self._listed.items()):
            if {uuid, device.board_uuid} & dismissed and uuid in self._view.down:
                del self._listed[uuid]
        if self._fetched is not None:
            self._view = self._view_of(self._fetched)

    def _forget_listed(self) -> None:
        """Forget what was listed, as another node's: the next page may be the right one."""
        if self._listed:
            self._listed.clear()
            self._listed_boards = frozenset()
            self._xids = XidGaugeTracker()

    @property
    def node_gpus(self) -> NodeGpus:
        """GPUs of this node, as far as known."""
        return NodeGpus.of(self._driver_devices, self._bus, self._listed_boards)

    def close(self) -> None:
        """End the thread; a hung one is left behind."""
        self._background.close()

    def _fetch(self) -> ExporterPage:
        answer = self._client.request("GET", "")
        if isinstance(answer, Failure):
            raise DriverError(answer.message)
        text = str(answer.body)
        if text.startswith(_OURS) or f"\n{_OURS}" in text:
            raise DriverError(
                f"{self._settings.url} is the page of a Rightsizer agent; "
                "name the address of a dcgm-exporter"
            )
        oldest = self._clock.wall_time() - nanoseconds(self._settings.longest_age_seconds)
        # Read here, for a node may have hundreds of functions on its bus.
        self._bus = expected_gpus(self._sysfs)
        page = self._reader.read(text, oldest=oldest, node=self.node_gpus)
        if not page.devices:
            raise DriverError("the page is empty: dcgm-exporter has collected nothing yet")
        is_known = bool(self._driver_devices or self._bus or not self._listed_boards)
        if not is_known and self._listed_boards.isdisjoint(page.boards):
            raise DriverError(
                f"{self._settings.url} answered with other GPUs than before: name one node's "
                "exporter, not a service of several; if the GPUs were replaced, restart the agent"
            )
        return page

    def _update(self, page: ExporterPage) -> None:
        now = self._clock.time()
        self._stalled = self._stall_detector.update(page, now)
        self._xids.update(page.xids, self._clock.wall_time())
        self._listed.update({device.uuid: (device, now) for device in page.devices})
        retention = nanoseconds(self._settings.lost_retention_seconds)
        slots = {kernel_address(device.pci_bus_id) for device in page.devices if device.mig is None}
        slots.discard(None)
        for uuid, (device, seen) in list(self._listed.items()):
            # An instance missing from a present GPU was destroyed on purpose.
            is_dissolved = device.mig is not None and device.mig.parent_uuid in page.readings
            is_replaced = kernel_address(device.pci_bus_id) in slots
            is_over = is_dissolved or is_replaced or now - seen > retention
            if uuid not in page.readings and is_over:
                del self._listed[uuid]
        listed = (device.board_uuid for device, _ in self._listed.values())
        self._listed_boards = frozenset(listed)

    def _view_of(self, fetched: FetchResult[ExporterPage]) -> ExporterView:
        devices = tuple(device for device, _ in self._listed.values())
        xids = dict(self._xids.logs)
        page = fetched.value
        if page is None:
            away = Down(Missing.STALE, f"dcgm-exporter: {fetched.error}")
            down = dict.fromkeys(self._listed, away)
            return ExporterView(fetched.outcome, devices, down, xids=xids)
        down = {uuid: _LOST for uuid in self._listed if uuid not in page.readings}
        down.update(dict.fromkeys(self._stalled, _STALLED))
        outcome = fetched.outcome._replace(refusal=page.refusal)
        view = ExporterView(outcome, devices, down, xids=xids)
        readings = dict(page.readings)
        version = page.driver_version
        for device in self._stalled:
            exporter_device = readings[device]
            missing = {
                **exporter_device.missing,
                **dict.fromkeys(exporter_device.values, Missing.STALE),
            }
            readings[device] = ExporterDevice({}, missing, frozenset(), exporter_device.holdings)
        return replace(view, readings=readings, instances=page.instances, driver_version=version)
