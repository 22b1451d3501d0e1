"""Log of a source: devices and collectors that fail and recover, a slow driver, no devices."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.log import Logger
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Device, Nanoseconds, Refusal, Snapshot
from rightsizer.owners.extension import loaded_extensions

_TELL_AFTER: Final[Nanoseconds] = 30 * NANOSECONDS_PER_SECOND
"""GPUs become slow one after another; after this time the affected ones are known."""
_LOG_EVERY: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_REMEDY: Final = (
    "readings come at the pace that the driver allows; see what else keeps it busy, or switch "
    "what it is slow at off in sources.nvml.disabled_collectors"
)
_SUMMARY_FROM: Final = 3
"""Number of devices that go or come in one tick from which one line names them all."""
_LASTS: Final[Nanoseconds] = 30 * NANOSECONDS_PER_SECOND
"""Age at which an outage is logged again, for a device whose outages were logged before."""
_FIGURE: Final = re.compile(r"\d[\d.]*")
"""Numbers in a message: the duration of a hang changes, and is no new trouble."""


class SlowDriverLog:
    """Logs when GPUs become slow, when more are affected, and when the driver has recovered."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._reported: set[tuple[str, str]] = set()
        self._log_at: Nanoseconds | None = None

    def log(self, snapshot: Snapshot) -> None:
        """Log what is new since the last call; further GPUs and collectors at intervals."""
        if not (slow := snapshot.slow):
            if self._reported:
                self._log.info("driver_recovered", pace="normal")
            self._reported.clear()
            self._log_at = None
            return
        if self._log_at is None:
            self._log_at = snapshot.time + _TELL_AFTER
        slow_parts = {(uuid, name) for uuid, of in slow.items() for name in ("", *of.postponed)}
        if slow_parts <= self._reported or snapshot.time < self._log_at:
            return
        self._reported |= slow_parts
        self._log_at = snapshot.time + _LOG_EVERY
        postponed = sorted({name for of in slow.values() for name in of.postponed})
        self._log.warning(
            "driver_slow",
            gpus=",".join(str(device.index) for device in snapshot.devices if device.uuid in slow),
            longest_round_seconds=round(max(of.round_seconds for of in slow.values()), 1),
            asked_less_often=",".join(postponed),
            remedy=_REMEDY,
        )


class _Outage(Struct, frozen=True):
    """Present or recent outage of a device; times are of the source's clock."""

    device: Device
    began: Nanoseconds
    is_reported: bool = False
    """Whether this outage has been logged."""
    quiet_until: Nanoseconds = 0
    """Time before which short outages are not logged."""
    unreported: int = 0
    """Outages since the last line that were not logged."""


def log_extensions(log: Logger) -> None:
    """Log what other packages add, and what of it was left out."""
    for extension in loaded_extensions():
        name = str(extension)
        if extension.fault:
            log.warning("extension_left_out", extension=name, detail=extension.fault)
        else:
            log.info("extension_found", extension=name)


class CollectorLog:
    """Logs that a collector fails and why, that it works again, and what it leaves out of answers.

    What comes and goes is logged at intervals.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._failing: set[str] = set()
        self._refusing: set[str] = set()
        self._quiet_until: dict[str, Nanoseconds] = {}

    def log(self, snapshot: Snapshot) -> None:
        """Log the changes since the last snapshot."""
        for name, outcome in snapshot.collectors.items():
            is_quiet = snapshot.time < self._quiet_until.get(name, snapshot.time)
            if outcome.success and name in self._failing:
                self._failing.remove(name)
                self._log.info("collector_recovered", collector=name)
            elif outcome.failure is not None and name not in self._failing and not is_quiet:
                self._failing.add(name)
                self._quiet_until[name] = snapshot.time + _LOG_EVERY
                self._log.warning("collector_failed", collector=name, detail=outcome.failure)
            if outcome.refusal is not None or name in self._refusing:
                self._log_refusal(name, outcome.refusal, snapshot.time)

    def _log_refusal(self, name: str, refusal: Refusal | None, now: Nanoseconds) -> None:
        key = f"{name} refusal"
        if refusal is None:
            self._refusing.remove(name)
        elif name not in self._refusing:
            self._refusing.add(name)
            if now >= self._quiet_until.get(key, now):
                self._quiet_until[key] = now + _LOG_EVERY
                self._log.warning(
                    "collector_refused", collector=name, items=refusal.items, detail=refusal.reason
                )


class DeviceLog:
    """Logs for each device that it is down, since when and why, and that it is up again.

    A flapping device is logged once in ten minutes; an outage that lasts is logged after half a
    minute.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._outages: dict[str, _Outage] = {}
        self._down: frozenset[str] = frozenset()

    def log(self, snapshot: Snapshot) -> None:
        """Log the changes since the last snapshot."""
        if snapshot.trouble is not None or not (snapshot.down or self._outages):
            return  # A source without devices has its own line.
        # An instance goes down with its board.
        gone = snapshot.down
        devices = [e for e in snapshot.devices if e.mig is None or e.mig.parent_uuid not in gone]
        down = frozenset(device.uuid for device in devices if device.uuid in snapshot.down)
        self._end([device for device in devices if device.uuid in self._down - down], snapshot)
        self._end_unlisted(snapshot)
        for device in devices:
            if device.uuid in down - self._down:
                outage = self._outages.get(device.uuid, _Outage(device, snapshot.time))
                self._outages[device.uuid] = replace(outage, began=snapshot.time, is_reported=False)
        silent = (device for device in devices if device.uuid in down)
        self._log_down(
            [device for device in silent if self._is_due(device, snapshot.time)], snapshot
        )
        self._down = down
        self._forget(snapshot.time)

    def _is_due(self, device: Device, now: Nanoseconds) -> bool:
        outage = self._outages[device.uuid]
        return not outage.is_reported and (
            now >= outage.quiet_until or now - outage.began >= _LASTS
        )

    def _log_down(self, due: Sequence[Device], snapshot: Snapshot) -> None:
        if len(due) >= _SUMMARY_FROM:
            reasons = {str(snapshot.down[device.uuid].reason): None for device in due}
            details = {snapshot.down[device.uuid].detail: None for device in due}
            began = min(self._outages[device.uuid].began for device in due)
            self._log.warning(
                "devices_down",
                gpus=",".join(device.title for device in due),
                of=len(snapshot.devices),
                reason=",".join(reasons),
                detail="; ".join(details),
                since=_utc_text(snapshot.wall_time_of(began)),
            )
        for device in due:
            outage = self._outages[device.uuid]
            down = snapshot.down[device.uuid]
            if len(due) < _SUMMARY_FROM:
                self._log.warning(
                    "device_down",
                    gpu=device.title,
                    uuid=device.uuid,
                    reason=str(down.reason),
                    **({"cause": down.cause} if down.cause else {}),
                    detail=down.detail,
                    since=_utc_text(snapshot.wall_time_of(outage.began)),
                    **({"times_before": outage.unreported} if outage.unreported else {}),
                )
            quiet_until = snapshot.time + _LOG_EVERY
            self._outages[device.uuid] = _Outage(device, outage.began, True, quiet_until)

    def _end(self, up: Sequence[Device], snapshot: Snapshot) -> None:
        reported = [device for device in up if self._outages[device.uuid].is_reported]
        if len(reported) >= _SUMMARY_FROM:
            self._log.info("devices_up", gpus=",".join(device.title for device in reported))
        for device in up:
            outage = self._outages[device.uuid]
            if outage.is_reported and len(reported) < _SUMMARY_FROM:
                down = round((snapshot.time - outage.began) / NANOSECONDS_PER_SECOND)
                self._log.info("device_up", gpu=device.title, uuid=device.uuid, down_seconds=down)
            unreported = outage.unreported + (not outage.is_reported)
            self._outages[device.uuid] = replace(outage, is_reported=False, unreported=unreported)

    def _end_unlisted(self, snapshot: Snapshot) -> None:
        """Log the end of outages of devices that were identified or removed meanwhile."""
        listed = {device.uuid for device in snapshot.devices}
        for uuid in self._down - listed:
            outage = self._outages.pop(uuid)
            if outage.is_reported:
                self._log.info("device_unlisted", gpu=outage.device.title, uuid=uuid)

    def _forget(self, now: Nanoseconds) -> None:
        """Forget outages of devices that stayed up; log how many went unreported."""
        over = {
            uuid: outage
            for uuid, outage in self._outages.items()
            if uuid not in self._down and now >= outage.quiet_until
        }
        for uuid, outage in over.items():
            del self._outages[uuid]
            if outage.unreported:
                self._log.warning("device_was_down", uuid=uuid, times=outage.unreported)


def _utc_text(time: Nanoseconds) -> str:
    return datetime.fromtimestamp(time // NANOSECONDS_PER_SECOND, UTC).isoformat()


class SourceLog:
    """Logs changes of what a source offers: devices, a slow driver, absence of devices."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._troubles: dict[str, Nanoseconds] = {}
        self._trouble: str | None = None
        self._released: str | None = None
        self._slow = SlowDriverLog(log)
        self._devices = DeviceLog(log)
        self._collectors = CollectorLog(log)

    def log(self, snapshot: Snapshot) -> None:
        """Log the changes since the last snapshot."""
        self._log_released(snapshot.released)
        self._log_trouble(snapshot.trouble, snapshot.time)
        self._slow.log(snapshot)
        self._devices.log(snapshot)
        self._collectors.log(snapshot)

    def _log_released(self, released: str | None) -> None:
        if released != self._released:
            if released is not None:
                self._log.info("released", what=released)
            else:
                self._log.info("resumed")
            self._released = released

    def _log_trouble(self, trouble: str | None, now: Nanoseconds) -> None:
        """Log that there are no devices and why, and that there are again.

        A driver that hangs on and off alternates between reasons: each is logged at intervals.
        """
        reported = None if trouble is None else _FIGURE.sub("", trouble)
        if reported != self._trouble:
            self._trouble = reported
            if reported is None:
                self._log.info("devices_found")
                self._troubles.clear()
            elif now >= self._troubles.get(reported, now):
                self._log.warning("devices_absent", reason=trouble)
                self._troubles[reported] = now + _LOG_EVERY
