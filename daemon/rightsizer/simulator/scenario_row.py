"""Rows of a scenario's file: times of day, enumeration values, fatal faults."""

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import Any, NoReturn, Self, TypeVar

from rightsizer.config.row import Faults, Row
from rightsizer.io.near import hint
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError, ScenarioError
from rightsizer.model.units import DAY_SECONDS, parse_duration

_Word = TypeVar("_Word", bound=StrEnum)


class ScenarioFileFaults(Faults):
    """Faults of a scenario's file, whose day begins at a time of the day in UTC."""

    def __init__(self, document: Document, midnight_seconds: float) -> None:
        super().__init__(document)
        self.midnight_seconds = midnight_seconds

    def unread(self) -> Self:
        """Faults of the same file that are discarded."""
        return type(self)(self._document, self.midnight_seconds)

    def refuse(self) -> None:
        """Raise all faults found, if any."""
        try:
            super().refuse()
        except ConfigurationError as error:
            raise ScenarioError(str(error)) from None


class ScenarioRow(Row):
    """A mapping of a scenario's file; faults in required values end reading at once."""

    faults: ScenarioFileFaults

    @classmethod
    def root(cls, document: Document, midnight_seconds: float = 0.0) -> Self:
        """Return the row of the whole file, which must be a mapping."""
        if not isinstance(document.data, Mapping):
            raise ScenarioError(f"{document.where(())}: a scenario must be a mapping of keys")
        return cls(document.data, (), ScenarioFileFaults(document, midnight_seconds))

    def fail(self, message: str, key: str = "") -> NoReturn:
        """Raise earlier faults, which may be the cause, else this one."""
        self.refuse()
        self.fault(key, message)
        self.refuse()
        raise AssertionError(message)

    def number_or(self, key: str, default: float, least: float, most: float) -> float:
        """Return a number within bounds."""
        number = self.number(key, least, most)
        return default if number is None else number

    def count_or(self, key: str, default: int, least: int, most: int) -> int:
        """Return an integer within bounds."""
        number = self.count(key, least, most)
        return default if number is None else number

    def seconds(self, key: str, least: float = 0.0) -> float:
        """Return a required duration like `10m`, or a plain number of seconds."""
        value = self.values.get(key)
        if value is None:
            self.fail("is required: a duration, like 90s", key)
        try:
            seconds = parse_duration(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), key)
        return self.checked_number(key, seconds, least, inf) or least

    def pair(self, key: str, least: float, most: float) -> tuple[float, float]:
        """Return a number twice, or two numbers: first and last."""
        value = self.values[key]
        numbers = value if isinstance(value, list) else [value, value]
        if len(numbers) != 2:  # noqa: PLR2004 - a beginning and an end.
            self.fail("must be a number or two numbers, first and last", key)
        first, last = (self.checked_number(key, each, least, most) or least for each in numbers)
        return first, last

    def word(self, key: str, words: type[_Word], default: _Word | None = None) -> _Word:
        """Return a value of an enumeration; required without a default."""
        if key in self:
            return self._word(key, self.values[key], words)
        if default is None:
            self.fail(f"is required: one of {', '.join(words)}", key)
        return default

    def words(self, key: str, words: type[_Word]) -> frozenset[_Word]:
        """Return any values of an enumeration."""
        return frozenset(self._word(key, value, words) for value in self.items(key))

    def _word(self, key: str, value: Any, words: type[_Word]) -> _Word:
        try:
            return words(str(value))
        except ValueError:
            self.fail(f"'{value}' is unknown; {hint(str(value), words)}", key)

    def time_of_day(self, key: str, default: str | None = None) -> float:
        """Return the seconds since midnight, UTC, of a time like `"13:30"`, up to `"24:00"`."""
        if key not in self and default is None:
            self.fail('is required: a time of day, like "13:30"', key)
        return self._time_of_day(key, self.values[key] if key in self else default)

    def times_of_day(self, key: str) -> tuple[float, float]:
        """Return a start and a stop, as in `["13:30", "17:00"]`."""
        values = self.items(key)
        if len(values) != 2:  # noqa: PLR2004 - a start and a stop.
            self.fail('must be a start and a stop, like ["13:30", "17:00"]', key)
        first, last = (self._time_of_day(key, value) for value in values)
        return first, last

    def _time_of_day(self, key: str, value: Any) -> float:
        if isinstance(value, int):
            # YAML reads an unquoted 13:30 as a base-60 number: 810 minutes.
            minutes = value
        else:
            hours, colon, rest = str(value).partition(":")
            if not (colon and hours.isdigit() and rest.isdigit() and int(rest) < 60):  # noqa: PLR2004
                self.fail(f"'{value}' is not a time of day; write it like \"13:30\"", key)
            minutes = int(hours) * 60 + int(rest)
        if not 0 <= minutes <= 24 * 60:
            self.fail(f"'{value}' is not a time of day; the last is \"24:00\"", key)
        midnight = self.faults.midnight_seconds
        return (minutes * 60.0 + midnight) % DAY_SECONDS if midnight else minutes * 60.0
