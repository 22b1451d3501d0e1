"""What is said of a driver that is slow: once, with what is done about it, and when it is over."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from rightsizer.model.metric_family import series_key
from rightsizer.model.snapshot import Slow, Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TELL_AFTER: Final[Nanoseconds] = 30 * NANOSECONDS_PER_SECOND
"""GPUs become slow one after another; by then it shows which, and what is put off."""
_TELL_EVERY: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_REMEDY: Final = (
    "readings come at the pace that the driver allows; see what else keeps it busy, or switch "
    "what it is slow at off in sources.nvml.disabled_collectors"
)


class SlowDriverLog:
    """Says so in the log when GPUs become slow, when more is affected, and when none is."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        """Nothing was said."""
        self._log = log
        self._told: set[tuple[str, str]] = set()
        self._tell_at: Nanoseconds | None = None

    def tell(self, snapshot: Snapshot) -> None:
        """Say what is new since the last time; further GPUs and collectors now and then."""
        slow = snapshot.slow
        if not slow:
            if self._told:
                self._log.info("driver_recovered", pace="normal")
            self._told.clear()
            self._tell_at = None
            return
        if self._tell_at is None:
            self._tell_at = snapshot.time + _TELL_AFTER
        found = {(uuid, name) for uuid, of in slow.items() for name in ("", *of.postponed)}
        if found <= self._told or snapshot.time < self._tell_at:
            return
        self._told |= found
        self._tell_at = snapshot.time + _TELL_EVERY
        postponed = sorted({name for of in slow.values() for name in of.postponed})
        self._log.warning(
            "driver_slow",
            gpus=",".join(str(each.index) for each in snapshot.devices if each.uuid in slow),
            longest_round_seconds=round(max(of.round_seconds for of in slow.values()), 1),
            asked_less_often=",".join(postponed),
            remedy=_REMEDY,
        )


def slow_driver_gauges(snapshot: Snapshot) -> dict[str, float]:
    """The gauges of a driver that is slow, by series; nothing of a source without a driver."""
    slow: Mapping[str, Slow] = snapshot.slow
    postponed = Counter(name for of in slow.values() for name in of.postponed)
    return {
        **{
            series_key("rightsizer_device_slow", uuid=device.uuid): float(device.uuid in slow)
            for device in snapshot.devices
            if device.mig is None
        },
        **{
            series_key("rightsizer_device_round_duration_seconds", uuid=uuid): of.round_seconds
            for uuid, of in slow.items()
        },
        **{
            series_key("rightsizer_collector_postponed_devices", collector=name): float(count)
            for name, count in postponed.items()
        },
    }
