"""The calendar days of a span, and what all devices together did on each."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator

from rightsizer.domain.state import State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.publish.report.device_rows import HOUR, grouped
from rightsizer.publish.report.facts import ReportFacts
from rightsizer.publish.report.model import Day

__all__ = ["days_of"]


def days_of(facts: ReportFacts) -> tuple[Day, ...]:
    """Every day that the span touches; what begins on a day counts for it."""
    sums: dict[dt.date, Counter[State]] = {}
    for device in facts.devices:
        part = device.device.capacity_ratio
        for each in device.slices:
            counts = sums.setdefault(_date(each.start, facts.timezone), Counter())
            for state, time in each.states.items():
                counts[state] += round(time * part)
    return tuple(
        _day(facts, date, start, end, sums.get(date, Counter()))
        for date, start, end in _calendar(facts)
    )


def _day(
    facts: ReportFacts,
    date: dt.date,
    start: Nanoseconds,
    end: Nanoseconds,
    counts: Counter[State],
) -> Day:
    expected = sum(
        (end - start) * each.device.capacity_ratio / HOUR
        for each in facts.devices
        if not each.device.has_mig_instances
    )
    states: dict[str, float] = {state: counts[state] / HOUR for state in State if counts.get(state)}
    unrecorded = max(0.0, expected - sum(states.values()))
    return Day(date.isoformat(), grouped(states, unrecorded), states)


def _calendar(facts: ReportFacts) -> Iterator[tuple[dt.date, Nanoseconds, Nanoseconds]]:
    date = _date(facts.since, facts.timezone)
    start = facts.since
    while start < facts.until:
        date_after = date + dt.timedelta(days=1)
        midnight = dt.datetime.combine(date_after, dt.time(), facts.timezone)
        end = min(facts.until, int(midnight.timestamp()) * NANOSECONDS_PER_SECOND)
        yield date, start, end
        date, start = date_after, end


def _date(time: Nanoseconds, timezone: dt.tzinfo) -> dt.date:
    return dt.datetime.fromtimestamp(seconds(time), timezone).date()
