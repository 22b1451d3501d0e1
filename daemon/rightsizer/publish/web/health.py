"""Whether the agent does what it is for, and if not, why."""

from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds, format_duration, seconds
from rightsizer.publish.freshness import FreshnessSettings, fresh_devices

__all__ = ["why_not_ready"]


def why_not_ready(
    report: Report | None, now: Nanoseconds, freshness: FreshnessSettings
) -> str | None:
    """Why no fresh sample of any device is at hand; `None` where one is."""
    if report is None:
        return "not ready: no sample has been taken yet"
    if not report.devices:
        return f"not ready: {report.agent.trouble or 'there are no GPUs'}"
    if fresh_devices(report, now, freshness):
        return None
    down = [device for device in report.devices if device.down is not None]
    if len(down) == len(report.devices) and down[0].down is not None:
        return f"not ready: no GPU answers; GPU {down[0].device.index}: {down[0].down.detail}"
    times = [device.last_sample for device in report.devices if device.last_sample is not None]
    if not times:
        return "not ready: no GPU has been read yet"
    return f"not ready: the last sample is {format_duration(seconds(now - max(times)))} old"
