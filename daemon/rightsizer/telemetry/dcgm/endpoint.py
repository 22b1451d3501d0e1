"""A dcgm-exporter that is looked at now and then, on a thread of its own."""

from collections.abc import Mapping
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.dcgm_names import DCGM_FIELDS
from rightsizer.domain.device import Device
from rightsizer.domain.errors import DriverError
from rightsizer.domain.reading import Missing
from rightsizer.domain.snapshot import Down
from rightsizer.domain.units import Nanoseconds, nanoseconds, seconds
from rightsizer.edge.clock import Clock
from rightsizer.edge.http import Failure, HttpClient
from rightsizer.telemetry.background import Background, Fetched
from rightsizer.telemetry.dcgm.exposition import Exposition, ExpositionReader
from rightsizer.telemetry.dcgm.settings import DcgmSettings
from rightsizer.telemetry.dcgm.stillness import Stillness
from rightsizer.telemetry.dcgm.view import Told, View
from rightsizer.telemetry.dcgm.xid_watch import XidWatch

__all__ = ["DcgmEndpoint"]

_ACCEPT: Final = "text/plain;version=0.0.4"
_OURS: Final = "rightsizer_"
_STANDS_STILL: Final = Down(
    Missing.STALE, "dcgm-exporter repeats the same values: its collection stands still"
)
_LOST: Final = Down(Missing.LOST, "dcgm-exporter no longer lists it")


class DcgmEndpoint:
    """One exporter's page: fetched in the background, judged and remembered by whoever asks."""

    name = "dcgm"

    def __init__(self, settings: DcgmSettings, catalogue: Catalogue, clock: Clock) -> None:
        """Fetches nothing before it is asked.

        Raises:
            ValueError: the settings name no address.
        """
        self._settings = settings
        self._clock = clock
        self._reader = ExpositionReader(catalogue)
        self._client = HttpClient(
            settings.address, settings.http, accept=_ACCEPT, token=settings.token
        )
        self._background = Background(
            self.name,
            self._fetch,
            interval_seconds=settings.interval_seconds,
            hold_seconds=2 * settings.interval_seconds,
            now=lambda: seconds(clock.time()),
        )
        self._stillness = Stillness(nanoseconds(settings.longest_age_seconds))
        self._xids = XidWatch()
        self._listed: dict[str, tuple[Device, Nanoseconds]] = {}
        self._judged: Fetched[Exposition] | None = None
        self._still: frozenset[str] = frozenset()
        self._view = View(Fetched(None, "nothing was fetched yet").outcome)

    def view(self, wait_seconds: float = 0.0) -> View:
        """What stands now; starts the next look when it is due, and waits for none by default."""
        fetched = self._background.latest(wait_seconds)
        if fetched is not self._judged:
            before = None if self._judged is None else self._judged.value
            self._judged = fetched
            if fetched.value is not None and fetched.value is not before:
                self._see(fetched.value)
            self._view = self._viewed(fetched)
        return self._view

    def close(self) -> None:
        """Let the thread end; one that hangs is left behind."""
        self._background.close()

    def _fetch(self) -> Exposition:
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
        page = self._reader.read(text, oldest=oldest)
        if not page.devices:
            raise DriverError("the page is empty: dcgm-exporter has collected nothing yet")
        return page

    def _see(self, page: Exposition) -> None:
        now = self._clock.time()
        self._still = self._stillness.see(page, now)
        self._xids.see(page.xids, self._clock.wall_time())
        self._listed.update({device.uuid: (device, now) for device in page.devices})
        retention = nanoseconds(self._settings.lost_retention_seconds)
        for uuid, (device, seen) in list(self._listed.items()):
            # An instance whose GPU is there without it was taken apart on purpose.
            is_dissolved = device.mig is not None and device.mig.parent_uuid in page.values
            if uuid not in page.values and (is_dissolved or now - seen > retention):
                del self._listed[uuid]

    def _viewed(self, fetched: Fetched[Exposition]) -> View:
        devices = tuple(device for device, _ in self._listed.values())
        page = fetched.value
        if page is None:
            away = Down(Missing.STALE, f"dcgm-exporter: {fetched.error}")
            down = {device.uuid: away for device in devices}
            return View(fetched.outcome, fetched.error, devices, down, xids=dict(self._xids.logs))
        down = {device.uuid: _LOST for device in devices if device.uuid not in page.values}
        down.update(dict.fromkeys(self._still, _STANDS_STILL))
        return View(
            outcome=fetched.outcome,
            error=fetched.error,
            devices=devices,
            down=down,
            told=_told(page, self._still),
            instances=page.instances,
            xids=dict(self._xids.logs),
            driver_version=page.driver_version,
        )


def _told(page: Exposition, still: frozenset[str]) -> Mapping[str, Told]:
    told: dict[str, Told] = {}
    for device, values in page.values.items():
        missing = page.missing.get(device, {})
        holdings = page.holdings.get(device, ())
        if device in still:
            stale = dict.fromkeys(values, Missing.STALE)
            told[device] = Told({}, {**missing, **stale}, frozenset(), holdings)
            continue
        profiled = frozenset(
            signal
            for signal, name in page.fields[device].items()
            if name in DCGM_FIELDS and DCGM_FIELDS[name].is_profiling
        )
        told[device] = Told(values, missing, profiled, holdings)
    return told
