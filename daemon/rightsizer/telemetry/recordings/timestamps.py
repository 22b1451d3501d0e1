"""Timestamps in the spellings of logs, and assumed times for lines without one."""

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from rightsizer.model.units import DAY, HOUR, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recordings.row import RecordingNotes

EPOCH_UNITS: Final = {"s": NANOSECONDS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}

# Digits before the point distinguish units for dates from 1973 to 5138.
_UNIT_BY_DIGITS: Final = ((11, "s"), (14, "ms"), (17, "us"), (20, "ns"))
_OF_SPREADSHEET: Final = re.compile(
    r"(?P<first>\d{1,2})(?P<mark>[./])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4}),?\s+"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?P<rest>:\d\d(?:[.,]\d+)?)?(?:\s*(?P<half>[AaPp][Mm]))?"
)
_OF_DATE: Final = re.compile(
    r"(?:[A-Z][a-z]{2},? )?(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d)"
    r"(?: [A-Z]{3,4})? (?P<year>\d{4})"
)
"""Format of `date` and `ctime`."""
_COMPACT: Final = re.compile(r"(\d{4})(\d\d)(\d\d)[-_T ](\d\d):?(\d\d):?(\d\d)Z?")
_ZONE: Final = re.compile(r" [A-Z]{3,4}$")
"""Zone names are ambiguous, so they are ignored."""
CLOCKS_SET: Final[Nanoseconds] = 946_684_800 * NANOSECONDS_PER_SECOND
"""The year 2000: a node without a clock begins in 1970."""
_LEAP_YEAR: Final = 1972
_FRACTION: Final = re.compile(r"[.,](\d+)")
_DATE_MARKS: Final = ("-", "/")
_SECOND_END: Final = 19
_FURTHEST: Final = 1 << 63


def parse_timestamp(text: str) -> Nanoseconds:
    """Parse a date with time or an epoch; `ValueError` for anything else.

    Spreadsheets write dates as `31.01.2024 12:34:56` and `1/31/2024 12:34:56 PM`, scripts as
    `20240131_123456` and `Wed Jan 31 12:34:56 UTC 2024`.
    """
    if text[-3:].isalpha():
        text = _ZONE.sub("", text)
    if text[4:5] in _DATE_MARKS and text[:4].isdigit():
        return parse_calendar(text)
    found = _OF_SPREADSHEET.fullmatch(text)
    # With slashes and 24 hours, the order of day and month is ambiguous.
    if found and (found["mark"] == "." or found["half"]):
        day, month = (found["first"], found["second"])[:: -1 if found["mark"] == "/" else 1]
        hour = int(found["hour"])
        if found["half"]:
            hour = hour % 12 + (12 if found["half"].upper() == "PM" else 0)
        date = f"{found['year']}-{month:>02}-{day:>02}"
        return parse_calendar(f"{date} {hour:02}:{found['minute']}{found['rest'] or ':00'}")
    if found := _OF_DATE.fullmatch(text):
        return _parse_date(f"{found['year']} {found['month']} {found['day']} {found['time']}")
    if found := _COMPACT.fullmatch(text):
        year, month, day, *time = found.groups()
        return parse_calendar(f"{year}-{month}-{day} {':'.join(time)}")
    return parse_epoch(text)


def parse_yearless(text: str) -> Nanoseconds:
    """Parse `Jan 31 12:34:56` in a leap year; `ValueError` for anything else."""
    return _parse_date(f"{_LEAP_YEAR} {text}")


def _parse_date(text: str) -> Nanoseconds:
    moment = datetime.strptime(text, "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * NANOSECONDS_PER_SECOND


def parse_calendar(text: str) -> Nanoseconds:
    """Parse `2024/01/31 12:34:56.789` or ISO 8601, UTC by default; `ValueError` otherwise."""
    fraction = text[20:]
    if text[16:17] == ":" and (
        len(text) == _SECOND_END or (text[19:20] == "." and fraction.isdigit())
    ):
        return _whole_second(text[:19]) + _below_second(fraction)
    found = _FRACTION.search(text)
    if found:
        text = text[: found.start()] + text[found.end() :]
    moment = datetime.fromisoformat(text.replace("/", "-"))
    whole = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return _kept(whole * NANOSECONDS_PER_SECOND + _below_second(found[1] if found else ""))


def parse_epoch(text: str, unit: Nanoseconds | None = None) -> Nanoseconds:
    """Parse a number since the epoch exactly; its unit is by magnitude unless given."""
    whole, _, fraction = text.partition(".")
    if not whole.isdigit() or (fraction and not fraction.isdigit()):
        return _parse_scientific(text, unit)
    if unit is None:
        unit = _unit_by_magnitude(len(whole))
    below = int(fraction.ljust(9, "0")[:9]) * unit // NANOSECONDS_PER_SECOND if fraction else 0
    return _kept(int(whole) * unit + below)


def _parse_scientific(text: str, unit: Nanoseconds | None) -> Nanoseconds:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"'{text}' is not a time") from None
    if not number.is_finite() or number < 0:
        raise ValueError(f"'{text}' is not a time")
    return _kept(int(number * (unit or _unit_by_magnitude(number.adjusted() + 1))))


def _kept(time: Nanoseconds) -> Nanoseconds:
    if not -_FURTHEST < time < _FURTHEST:
        raise ValueError("a time that far from the epoch is not kept")
    return time


def _unit_by_magnitude(digits: int) -> Nanoseconds:
    for most, unit in _UNIT_BY_DIGITS:
        if digits <= most:
            return EPOCH_UNITS[unit]
    raise ValueError("a time of so many digits is in no unit")


@lru_cache(maxsize=1024)
def _whole_second(text: str) -> Nanoseconds:
    """Parse whole seconds; cached, since devices of a poll and files share them."""
    return _kept(_whole_minute(text[:16]) + int(text[17:]) * NANOSECONDS_PER_SECOND)


@lru_cache(maxsize=1024)
def _whole_minute(text: str) -> Nanoseconds:
    minute = datetime.fromisoformat(text.replace("/", "-")).replace(tzinfo=UTC)
    return int(minute.timestamp()) * NANOSECONDS_PER_SECOND


def _below_second(fraction: str) -> Nanoseconds:
    return int(fraction.ljust(9, "0")[:9]) if fraction else 0


class AssumedTimes:
    """Assumes one second per poll, the default of dcgmi and nvidia-smi."""

    def __init__(self, notes: RecordingNotes, remedy: str) -> None:
        self._notes, self._remedy = notes, remedy
        self._seen: set[str] = set()
        self._poll = 0

    def next(self, device: str) -> Nanoseconds:
        """Return the time of a device's next line; a repeated device starts the next poll."""
        self._notes.remark(
            "has no times: one second from poll to poll is assumed, from 1970-01-01 on; "
            f"{self._remedy}"
        )
        if device in self._seen:
            self._seen.clear()
            self._poll += 1
        self._seen.add(device)
        return self._poll * NANOSECONDS_PER_SECOND


class DayTimes:
    """Adds days to times of day: the next one where they go back by more than an hour."""

    def __init__(self, notes: RecordingNotes, remedy: str) -> None:
        self._notes, self._remedy = notes, remedy
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
