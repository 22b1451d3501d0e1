"""Log of a source: devices that go down and come up, a slow driver, no devices at all."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rightsizer.io.log import Logger
from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TELL_AFTER: Final[Nanoseconds] = 30 * NANOSECONDS_PER_SECOND
"""GPUs become slow one after another; by then it shows which, and what is put off."""
_TELL_EVERY: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_REMEDY: Final = (
    "readings come at the pace that the driver allows; see what else keeps it busy, or switch "
    "what it is slow at off in sources.nvml.disabled_collectors"
)
_SUMMARY_FROM: Final = 3
"""Devices that go, or come, in one tick, from which on one line names all of them."""
_LASTS: Final[Nanoseconds] = 30 * NANOSECONDS_PER_SECOND
"""An outage of a device that was logged before is logged again from then on."""
_FIGURE: Final = re.compile(r"\d[\d.]*")
"""How long a call has hung is another number each time, and no other trouble."""


class SlowDriverLog:
    """Says so in the log when GPUs become slow, when more is affected, and when none is."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._reported: set[tuple[str, str]] = set()
        self._tell_at: Nanoseconds | None = None

    def tell(self, snapshot: Snapshot) -> None:
        """Say what is new since the last time; further GPUs and collectors now and then."""
        if not (slow := snapshot.slow):
            if self._reported:
                self._log.info("driver_recovered", pace="normal")
            self._reported.clear()
            self._tell_at = None
            return
        if self._tell_at is None:
            self._tell_at = snapshot.time + _TELL_AFTER
        found = {(uuid, name) for uuid, of in slow.items() for name in ("", *of.postponed)}
        if found <= self._reported or snapshot.time < self._tell_at:
            return
        self._reported |= found
        self._tell_at = snapshot.time + _TELL_EVERY
        postponed = sorted({name for of in slow.values() for name in of.postponed})
        self._log.warning(
            "driver_slow",
            gpus=",".join(str(each.index) for each in snapshot.devices if each.uuid in slow),
            longest_round_seconds=round(max(of.round_seconds for of in slow.values()), 1),
            asked_less_often=",".join(postponed),
            remedy=_REMEDY,
        )


@dataclass(frozen=True, slots=True)
class _Outage:
    """A device that is down, or was in the last minutes; times are of the source's clock."""

    began: Nanoseconds
    is_reported: bool = False
    """Whether the log says that it is down."""
    quiet_until: Nanoseconds = 0
    """Short outages are not told before."""
    unreported: int = 0
    """Outages since the last line that no line is about."""


class DeviceLog:
    """Says of each device that it is down, since when and why, and that it is up again.

    A device that comes and goes is told of once in ten minutes; an outage that lasts is told of
    after half a minute.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._outages: dict[str, _Outage] = {}
        self._down: frozenset[str] = frozenset()

    def tell(self, snapshot: Snapshot) -> None:
        """Say what is new since the last snapshot."""
        if snapshot.trouble is not None or not (snapshot.down or self._outages):
            return  # One line of its own is about a source without devices.
        # An instance goes with its board.
        gone = snapshot.down
        devices = [e for e in snapshot.devices if e.mig is None or e.mig.parent_uuid not in gone]
        down = frozenset(each.uuid for each in devices if each.uuid in snapshot.down)
        self._end([each for each in devices if each.uuid in self._down - down], snapshot)
        for uuid in down - self._down:
            known = self._outages.get(uuid, _Outage(0))
            self._outages[uuid] = replace(known, began=snapshot.time, is_reported=False)
        silent = (each for each in devices if each.uuid in down)
        self._tell_down([each for each in silent if self._is_due(each, snapshot.time)], snapshot)
        self._down = down
        self._forget(snapshot.time)

    def _is_due(self, device: Device, now: Nanoseconds) -> bool:
        outage = self._outages[device.uuid]
        return not outage.is_reported and (
            now >= outage.quiet_until or now - outage.began >= _LASTS
        )

    def _tell_down(self, due: Sequence[Device], snapshot: Snapshot) -> None:
        if len(due) >= _SUMMARY_FROM:
            reasons = {str(snapshot.down[each.uuid].reason): None for each in due}
            details = {snapshot.down[each.uuid].detail: None for each in due}
            began = min(self._outages[each.uuid].began for each in due)
            self._log.warning(
                "devices_down",
                gpus=",".join(each.title for each in due),
                of=len(snapshot.devices),
                reason=",".join(reasons),
                detail="; ".join(details),
                since=_utc_text(snapshot.wall_time_of(began)),
            )
        for device in due:
            outage, found = self._outages[device.uuid], snapshot.down[device.uuid]
            if len(due) < _SUMMARY_FROM:
                self._log.warning(
                    "device_down",
                    gpu=device.title,
                    uuid=device.uuid,
                    reason=str(found.reason),
                    detail=found.detail,
                    since=_utc_text(snapshot.wall_time_of(outage.began)),
                    **({"times_before": outage.unreported} if outage.unreported else {}),
                )
            quiet_until = snapshot.time + _TELL_EVERY
            self._outages[device.uuid] = _Outage(outage.began, True, quiet_until)

    def _end(self, up: Sequence[Device], snapshot: Snapshot) -> None:
        reported = [each for each in up if self._outages[each.uuid].is_reported]
        if len(reported) >= _SUMMARY_FROM:
            self._log.info("devices_up", gpus=",".join(each.title for each in reported))
        for device in up:
            outage = self._outages[device.uuid]
            if outage.is_reported and len(reported) < _SUMMARY_FROM:
                down = round((snapshot.time - outage.began) / NANOSECONDS_PER_SECOND)
                self._log.info("device_up", gpu=device.title, uuid=device.uuid, down_seconds=down)
            unreported = outage.unreported + (not outage.is_reported)
            self._outages[device.uuid] = replace(outage, is_reported=False, unreported=unreported)

    def _forget(self, now: Nanoseconds) -> None:
        """End the quiet time of devices that are up; say how often they were down in it."""
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
    """Log of what a source offers: devices that go and come, a slow driver, no devices at all."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._troubles: dict[str, Nanoseconds] = {}
        self._trouble: str | None = None
        self._released: str | None = None
        self._slow = SlowDriverLog(log)
        self._devices = DeviceLog(log)

    def tell(self, snapshot: Snapshot) -> None:
        """Say what has changed since the last snapshot."""
        self._tell_released(snapshot.released)
        self._tell_trouble(snapshot.trouble, snapshot.time)
        self._slow.tell(snapshot)
        self._devices.tell(snapshot)

    def _tell_released(self, released: str | None) -> None:
        if released != self._released:
            if released is not None:
                self._log.info("released", what=released)
            else:
                self._log.info("resumed")
            self._released = released

    def _tell_trouble(self, trouble: str | None, now: Nanoseconds) -> None:
        """That there are no devices and why, and that there are again.

        A driver that hangs here and there has the same reasons in turns: each is told now and then.
        """
        reported = None if trouble is None else _FIGURE.sub("", trouble)
        if reported != self._trouble:
            self._trouble = reported
            if reported is None:
                self._log.info("devices_found")
                self._troubles.clear()
            elif now >= self._troubles.get(reported, now):
                self._log.warning("devices_absent", reason=trouble)
                self._troubles[reported] = now + _TELL_EVERY
