"""Freshness of readings, and coverage of an exported window."""

from typing import Annotated, Final

from msgspec import Struct

from rightsizer.model.values import (
    DeviceReport,
    Nanoseconds,
    Provisioning,
    Report,
    Spec,
    nanoseconds,
)


class FreshnessSettings(Struct, frozen=True):
    """Validity of a device's last reading.

    Attributes:
        stale_intervals: Number of sampling intervals after which a reading is stale.
            Source: the same as for the state `unknown`
        stale_minimum_seconds: Age below which no reading is stale, regardless of the interval.
            Source: the same as for the state `unknown`
    """

    stale_intervals: Annotated[float, Spec(within=(1.0, 1000.0))] = 3.0
    stale_minimum_seconds: Annotated[float, Spec(within=(0.0, 3600.0))] = 5.0


def is_fresh(
    device: DeviceReport, report: Report, now: Nanoseconds, settings: FreshnessSettings
) -> bool:
    """Whether a device's last reading still describes its present state.

    A report that is not renewed ages, too, so that a stopped sampler is detected.
    """
    if device.down is not None or device.last_sample is None:
        return False
    limit = max(
        settings.stale_minimum_seconds, settings.stale_intervals * report.agent.interval_seconds
    )
    return max(now, report.wall_time) - device.last_sample <= nanoseconds(limit)


def fresh_devices(report: Report, now: Nanoseconds, settings: FreshnessSettings) -> frozenset[str]:
    """Return the uuids of devices with fresh readings."""
    return frozenset(
        device.device.uuid for device in report.devices if is_fresh(device, report, now, settings)
    )


WINDOW_SECONDS: Final = {"24h": 86_400.0, "7d": 604_800.0}
"""Windows with a fixed length; `current` fades and has none."""


def window_coverage_ratio(window: str, provisioning: Provisioning) -> float:
    """Return known time over the window's length: an hour-old agent covers little of a day.

    Without a fixed length it is the known share since the first reading.
    """
    if (length := WINDOW_SECONDS.get(window)) is None:
        return provisioning.coverage_ratio
    return min(1.0, provisioning.known_seconds / length)
