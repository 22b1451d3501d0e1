"""A short word for what the page shows beside its moving figures: it changes when that does."""

import hashlib
from typing import Final

from rightsizer.domain.report import Report
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.publish.freshness import FreshnessSettings, fresh_devices

__all__ = ["revision_of"]

_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND
_LENGTH: Final = 12


def revision_of(report: Report | None, now: Nanoseconds, freshness: FreshnessSettings) -> str:
    """The word for a report: devices and whether they answer, advice, and the minute.

    Strips, needs and tables move no faster than by the minute.
    """
    if report is None:
        return "none"
    fresh = fresh_devices(report, now, freshness)
    parts = (
        report.wall_time // _MINUTE,
        report.agent.trouble,
        tuple((each.device.uuid, each.device.uuid in fresh) for each in report.devices),
        tuple((p.id, p.state, p.finding.severity, p.finding.summary) for p in report.advice),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_LENGTH]
