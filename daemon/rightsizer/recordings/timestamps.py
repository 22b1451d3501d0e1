"""Timestamps in the spellings of logs, and assumed times for lines without one."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from operator import sub
from typing import Final

from rightsizer.model.values import (
    DAY,
    HOUR,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    parse_epoch,
    storable,
)
from rightsizer.recordings.row import RecordingNotes

_FORMATS: Final = (
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
    "%a %b %d %H:%M:%S %Y",
    "%b %d %H:%M:%S %Y",
    "%b %d %Y @ %H:%M:%S",
    "%a %b %d %Y %H:%M:%S %z",
    "%a %d %b %Y %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a %b %d %I:%M:%S %p %Y",
    "%a %d %b %Y %I:%M:%S %p",
)
"""Of spreadsheets, `date`, Kibana, JavaScript, HTTP and its servers. With slashes and 24 hours, the
order of day and month is ambiguous."""
_COMPACT: Final = re.compile(r"(\d{4})(\d\d)(\d\d)[-_T ](\d\d):?(\d\d):?(\d\d(?:\.\d+)?)Z?")
_DAY_AND_MONTH: Final = re.compile(
    r"(\d\d?)[/-](\d\d?)[/-](\d{4})[ T,]+(\d\d?)((?::\d\d){1,2}[\d.]*)(?: ?([AP]M))?"
)
"""In either order."""
_HALF_DAY_HOURS: Final = 12
_STEADIER: Final = 4
"""Ratio of the longest steps in either order from which the shorter ones tell it: to read days as
months makes steps of a month."""
_MONTHS: Final = 12
_EPOCH: Final = re.compile(r"[\d.]+(?:[eE]\+?\d+)?")
_ZONE: Final = re.compile(r" [A-Z]{3,4}\b")
"""Zone names are ambiguous, so they are ignored."""
_NOISE: Final = re.compile(rf"{_ZONE.pattern}|(?<=:\d\d)[.,]\d+|,|\(.*\)")
_STAMP: Final = re.compile(
    r"\s*\[?(?P<stamp>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d{9,}(?:\.\d+)?|(?P<yearless>[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d))\]?[\s:,]+"
)
_TIME_OF_DAY: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_DATED: Final = re.compile(r"[\s#=*[-]*(?:\d{4}[-/]|\d{10}|[A-Z][a-z]{2} )")
_AROUND: Final = " \t\r\n#=*[]-"
"""What scripts write around a date."""
CLOCKS_SET: Final[Nanoseconds] = 946_684_800 * NANOSECONDS_PER_SECOND
"""The year 2000: a node without a clock begins in 1970."""
_LEAP_YEAR: Final = 1972
_FRACTION: Final = re.compile(r"(?<=:\d\d)[.,](\d+)")
_DATE_MARKS: Final = ("-", "/")
_SECOND_END: Final = 19
_REMEMBERED: Final = 4096
_SECONDS: Final[dict[str, Nanoseconds]] = {}
_FRACTIONS: Final[dict[str, Nanoseconds]] = {}
"""Whole seconds and fractions by their texts: devices of a poll, files and passes share them."""


def parse_timestamp(text: str) -> Nanoseconds:
    """Parse a date with time or an epoch; `ValueError` for anything else."""
    whole = _SECONDS.get(text[:_SECOND_END])
    below = _FRACTIONS.get(text[_SECOND_END:])
    if whole is not None and below is not None:
        return whole + below
    if text[4:5] in _DATE_MARKS and text[:4].isdigit():
        return parse_calendar(_ZONE.sub("", text) if text[-3:].isalpha() else text)
    if _EPOCH.fullmatch(text):
        return parse_epoch(text)
    if match := _COMPACT.fullmatch(text):
        year, month, day, *time = match.groups()
        return parse_calendar(f"{year}-{month}-{day} {':'.join(time)}")
    return _parse_date(text)


class DayAndMonth:
    """Order of day and month, if the dates of a file tell it: by a day above 12, or their steps."""

    def __init__(self) -> None:
        self._above = [0, 0]
        """Dates whose first or second number can be no month."""
        self._longest: list[Nanoseconds] = [0, 0]
        """Longest step where the day comes first or second."""
        self._last: list[Nanoseconds] | None = None
        self._count = 0

    def add(self, text: str) -> None:
        """Add a date of the file, in its order."""
        if (date := _DAY_AND_MONTH.fullmatch(text)) is None:
            return
        self._count += 1
        for at in (0, 1):
            self._above[at] += int(date[at + 1]) > _MONTHS
        if any(self._above):
            return
        times = [_date_in_order(date, day) for day in (0, 1)]
        steps = map(sub, times, self._last or times)
        self._longest = [*map(max, self._longest, map(abs, steps))]
        self._last = times

    @property
    def _day(self) -> int | None:
        """Place of the day, or `None` if it is open."""
        if any(self._above):
            return None if all(self._above) else int(self._above[1] > 0)
        steady = self._longest.index(min(self._longest))
        return steady if max(self._longest) > _STEADIER * min(self._longest) else None

    @property
    def evidence(self) -> str:
        """Why the order is what it is taken for; empty if it is open."""
        if self._day is None:
            return ""
        order = "the month" if self._day else "the day"
        if settling := max(self._above):
            return f"{order} comes first in its dates: {settling:,} of {self._count:,} settle it"
        return f"{order} comes first in its dates: read otherwise, they make steps of months"

    def parse(self, text: str) -> Nanoseconds | None:
        """Return the time of a date; `None` for others, and an unknown order."""
        if not self._count or (day := self._day) is None:
            return None
        match = _DAY_AND_MONTH.fullmatch(text)
        return None if match is None else _date_in_order(match, day)


def _date_in_order(date: re.Match[str], day: int) -> Nanoseconds:
    """Return the time of a date, given the place of its day, 0 or 1."""
    hour = int(date[4])
    if date[6]:
        hour = hour % _HALF_DAY_HOURS + _HALF_DAY_HOURS * (date[6] == "PM")
    return parse_calendar(f"{date[3]}-{date[2 - day]:0>2}-{date[1 + day]:0>2} {hour:02}{date[5]}")


def has_open_order(lines: Iterable[str]) -> bool:
    """Whether any of the lines has a date whose day may be before or after its month."""
    return any(map(_DAY_AND_MONTH.search, lines))


def is_timestamp(text: str) -> bool:
    """Whether it is a date with time, or an epoch with as many digits as today's."""
    try:
        return parse_timestamp(text) >= CLOCKS_SET
    except ValueError:
        return False


def page_time(line: str) -> Nanoseconds | None:
    """Return the time of a line that is a date, as a loop writes it above what it runs."""
    text = line.strip(_AROUND)
    return parse_timestamp(text) if _DATED.match(line) and is_timestamp(text) else None


def leading_time(line: str, notes: RecordingNotes) -> tuple[Nanoseconds | None, str]:
    """Return the time that a line begins with, as `ts` writes it, and the rest of the line."""
    match = _STAMP.match(line)
    rest = line[match.end() if match else 0 :].strip()
    with contextlib.suppress(ValueError):
        if match is None or match["yearless"] is None:
            return None if match is None else parse_timestamp(match["stamp"]), rest
        notes.remark(f"its times have no year: {_LEAP_YEAR} is assumed; 'ts %.s' gives it")
        return _parse_date(f"{match['stamp']} {_LEAP_YEAR}"), rest
    return None, rest


def seconds_text(time: Nanoseconds) -> str:
    """Return a time as exact seconds since the epoch."""
    return f"{time // NANOSECONDS_PER_SECOND}.{time % NANOSECONDS_PER_SECOND:09}"


def parse_time_of_day(text: str) -> Nanoseconds:
    """Parse `12:34:56` or `12:34:56.789`; `ValueError` for anything else."""
    if (match := _TIME_OF_DAY.fullmatch(text)) is None:
        raise ValueError(f"'{text}' is no time of day")
    hours, minutes, seconds = map(int, match.groups()[:3])
    whole = ((hours * 60 + minutes) * 60 + seconds) * NANOSECONDS_PER_SECOND
    return whole + _below_second(match[4] or "")


def _parse_date(text: str) -> Nanoseconds:
    plain = " ".join(_NOISE.sub("", text).replace("+", " +").split())
    fraction = _FRACTION.search(text)
    for date_format in _FORMATS:
        with contextlib.suppress(ValueError):
            moment = datetime.strptime(plain, date_format)  # noqa: DTZ007 - UTC without a zone.
            whole = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
            below = _below_second(fraction[1] if fraction else "")
            return storable(whole * NANOSECONDS_PER_SECOND + below)
    raise ValueError(f"'{text}' is not a time")


def parse_calendar(text: str) -> Nanoseconds:
    """Parse `2024/01/31 12:34:56.789` or ISO 8601, UTC by default; `ValueError` otherwise."""
    fraction = text[20:]
    if text[16:17] == ":" and (
        len(text) == _SECOND_END or (text[19:20] == "." and fraction.isdigit())
    ):
        whole = _whole_second(text[:_SECOND_END])
        below = _below_second(fraction)
        for remembered in (_SECONDS, _FRACTIONS):
            if len(remembered) >= _REMEMBERED:
                remembered.clear()
        _SECONDS[text[:_SECOND_END]] = whole
        _FRACTIONS[text[_SECOND_END:]] = below
        return whole + below
    match = _FRACTION.search(text)
    if match:
        text = text[: match.start()] + text[match.end() :]
    moment = datetime.fromisoformat(text.replace("/", "-"))
    whole = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return storable(whole * NANOSECONDS_PER_SECOND + _below_second(match[1] if match else ""))


def _whole_second(text: str) -> Nanoseconds:
    return storable(_whole_minute(text[:16]) + int(text[17:]) * NANOSECONDS_PER_SECOND)


@lru_cache(maxsize=1024)
def _whole_minute(text: str) -> Nanoseconds:
    minute = datetime.fromisoformat(text.replace("/", "-")).replace(tzinfo=UTC)
    return int(minute.timestamp()) * NANOSECONDS_PER_SECOND


def _below_second(fraction: str) -> Nanoseconds:
    return int(fraction.ljust(9, "0")[:9]) if fraction else 0


ASSUMED_CLOCK: Final = "sampled time"
"""Heading of assumed times, which any other clock of a table goes before."""


class AssumedTimes:
    """Assumes one second per poll, the default of dcgmi and nvidia-smi."""

    def __init__(self, notes: RecordingNotes, remedy: str) -> None:
        self._notes = notes
        self._remedy = remedy
        self._seen: set[str] = set()
        self._poll = 0

    def dated(
        self, record: Mapping[str, str], time: Nanoseconds | None, device: str
    ) -> dict[str, str]:
        """Return a record with its time, or an assumed one: a device again begins a poll."""
        if time is not None:
            return {"timestamp": seconds_text(time), **record}
        self._notes.remark(
            "has no times: one second from poll to poll is assumed, from 1970-01-01 on; "
            f"{self._remedy}"
        )
        if device in self._seen:
            self._seen.clear()
            self._poll += 1
        self._seen.add(device)
        return {ASSUMED_CLOCK: str(self._poll), **record}


class DayTimes:
    """Adds days to times of day: the next one where they go back by more than an hour."""

    def __init__(self, notes: RecordingNotes, remedy: str) -> None:
        self._notes = notes
        self._remedy = remedy
        self._days = 0
        self._last: Nanoseconds = 0

    def of(self, time_of_day: Nanoseconds) -> Nanoseconds:
        """Return the time of a line."""
        self._notes.remark(f"has no dates: it is taken to start on 1970-01-01; {self._remedy}")
        if self._last - time_of_day > HOUR:
            if self._last - time_of_day < DAY // 2:
                self._notes.remark("its times go back by hours: the next day is taken to begin")
            self._days += 1
        self._last = time_of_day
        return self._days * DAY + time_of_day
