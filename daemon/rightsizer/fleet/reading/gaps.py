"""Days of which a store has nothing, between days of which it has something."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.kept.grid import DAY
from rightsizer.fleet.source import SourceReport

__all__ = ["gaps_of"]

_SHOWN: Final = 5


def gaps_of(report: SourceReport, now: Nanoseconds) -> Iterator[str]:
    """A sentence where a source has whole days without samples since its first."""
    known = report.resolution_by_day.keys() | report.names_by_day.keys()
    if report.oldest is None or not known:
        return
    silent = [day for day in range(report.oldest // DAY + 1, now // DAY) if day not in known]
    if not silent:
        return
    shown = ", ".join(map(_date, silent[:_SHOWN])) + (", ..." if len(silent) > _SHOWN else "")
    days = f"{len(silent)} days" if len(silent) > 1 else "a day"
    yield (
        f"The store has no samples of {report.source} on {days} ({shown}): what happened then is "
        "unknown, and counts neither as idle nor as used."
    )


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY // NANOSECONDS_PER_SECOND, UTC):%Y-%m-%d}"
