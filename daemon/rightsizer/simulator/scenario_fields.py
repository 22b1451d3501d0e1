"""ScenarioFields: typed access to a scenario's YAML; errors name place and remedy."""

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ScenarioError
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import parse_duration

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class ScenarioFields:
    """A mapping inside a scenario's file."""

    document: Document
    path: tuple[str | int, ...]
    data: dict[Any, Any]

    @classmethod
    def root(cls, document: Document) -> "ScenarioFields":
        """The whole file.

        Raises:
            ScenarioError: it is not a mapping.
        """
        return cls._checked(document, (), document.data)

    @classmethod
    def _checked(
        cls, document: Document, path: tuple[str | int, ...], data: Any
    ) -> "ScenarioFields":
        if not isinstance(data, dict):
            what = ".".join(str(part) for part in path) or "a scenario"
            raise ScenarioError(f"{document.where(path)}: {what} must be a mapping of keys")
        return cls(document, path, data)

    def fail(self, message: str, key: str | int | None = None) -> NoReturn:
        """Refuse the file because of a key.

        Raises:
            ScenarioError: always.
        """
        path = self.path if key is None else (*self.path, key)
        label = ".".join(str(part) for part in path)
        prefix = f"{label}: " if label else ""
        raise ScenarioError(f"{self.document.where(path)}: {prefix}{message}")

    def only(self, known: Collection[str]) -> None:
        """Refuse keys that mean nothing, with the nearest that does."""
        for key in self.data:
            if key not in known:
                near = near_words(str(key), known)
                hint = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(known)
                self.fail(f"is not a key of a scenario here; {hint}", key)

    def has(self, key: str) -> bool:
        """Whether a key is given."""
        return key in self.data

    def text(self, key: str, default: str | None = None) -> str:
        """A text; required where there is no default."""
        value = self.data.get(key, default)
        if value is None:
            self.fail(f"'{key}' is missing; add it as a text")
        if not isinstance(value, str):
            self.fail("must be a text; put it in quotes", key)
        return value

    def number(
        self, key: str | int, default: float | None, minimum: float, maximum: float = float("inf")
    ) -> float:
        """A number within bounds; required where there is no default."""
        value = self.data.get(key, default)
        if value is None:
            self.fail(f"'{key}' is missing; add it as a number")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(f"must be a number, not '{value}'", key)
        if not minimum <= value <= maximum:
            upper = "" if maximum == float("inf") else f" and at most {maximum:g}"
            self.fail(f"is {value:g}; it must be at least {minimum:g}{upper}", key)
        return float(value)

    def integer(self, key: str, default: int | None, minimum: int, maximum: int) -> int:
        """A whole number within bounds; required where there is no default."""
        value = self.number(key, default, minimum, maximum)
        if value != int(value):
            self.fail(f"is {value:g}; it must be a whole number", key)
        return int(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            self.fail(f"must be true or false, not '{value}'", key)
        return value

    def duration(self, key: str, default: float | None, minimum: float = 0.0) -> float:
        """Seconds of a duration like `10m`, or of a plain number; required without a default."""
        value = self.data.get(key, default)
        if isinstance(value, str):
            try:
                value = parse_duration(value)
            except ValueError as error:
                self.fail(str(error), key)
        return ScenarioFields(self.document, self.path, {**self.data, key: value}).number(
            key, None, minimum
        )

    def pair(self, key: str, minimum: float, maximum: float) -> tuple[float, float]:
        """A number, or two: how something begins and how it ends."""
        value = self.data[key]
        if not isinstance(value, list):
            number = self.number(key, None, minimum, maximum)
            return number, number
        numbers = ScenarioFields(self.document, (*self.path, key), dict(enumerate(value)))
        if len(value) != 2:  # noqa: PLR2004 - a beginning and an end.
            self.fail("must be a number or two numbers, first and last", key)
        first, last = (numbers.number(index, None, minimum, maximum) for index in (0, 1))
        return first, last

    def word(self, key: str, words: type[_Word], default: _Word | None = None) -> _Word:
        """One of an enumeration's words; required where there is no default."""
        value = self.data.get(key, default)
        if value is None:
            self.fail(f"'{key}' is missing; one of: {', '.join(words)}")
        return self._word(key, value, words)

    def words(self, key: str, words: type[_Word]) -> frozenset[_Word]:
        """Any of an enumeration's words."""
        return frozenset(self._word(key, value, words) for value in self.sequence(key))

    def _word(self, key: str, value: Any, words: type[_Word]) -> _Word:
        try:
            return words(str(value))
        except ValueError:
            near = near_words(str(value), list(words))
            hint = f"did you mean '{near[0]}'?" if near else "one of: " + ", ".join(words)
            self.fail(f"'{value}' is unknown; {hint}", key)

    def time_of_day(self, key: str, default: float | None = None) -> float:
        """Seconds since midnight of a time like `"13:30"`; up to `"24:00"`."""
        value = self.data.get(key, default)
        if value is None:
            self.fail(f"'{key}' is missing; write it like \"13:30\"")
        return value if isinstance(value, float) else self._time_of_day(key, value)

    def times_of_day(self, key: str) -> tuple[float, float]:
        """A start and a stop, as in `["13:30", "17:00"]`."""
        values = self.sequence(key)
        if len(values) != 2:  # noqa: PLR2004 - a start and a stop.
            self.fail('must be a start and a stop, like ["13:30", "17:00"]', key)
        first, last = (self._time_of_day(key, value) for value in values)
        return first, last

    def _time_of_day(self, key: str, value: Any) -> float:
        if isinstance(value, int):
            # YAML reads an unquoted 13:30 as a number of base sixty: 810 minutes.
            minutes = value
        else:
            hours, colon, rest = str(value).partition(":")
            if not (colon and hours.isdigit() and rest.isdigit() and int(rest) < 60):  # noqa: PLR2004
                self.fail(f"'{value}' is not a time of day; write it like \"13:30\"", key)
            minutes = int(hours) * 60 + int(rest)
        if not 0 <= minutes <= 24 * 60:
            self.fail(f"'{value}' is not a time of day; the last is \"24:00\"", key)
        return minutes * 60.0

    def sequence(self, key: str) -> Sequence[Any]:
        """A list, empty where the key is absent."""
        value = self.data.get(key, [])
        if not isinstance(value, list):
            self.fail("must be a list", key)
        return value

    def child(self, key: str) -> "ScenarioFields":
        """The mapping under a key, empty where the key is absent."""
        return self._checked(self.document, (*self.path, key), self.data.get(key, {}))

    def children(self, key: str) -> Iterator["ScenarioFields"]:
        """The mappings of a list, in order."""
        for index, value in enumerate(self.sequence(key)):
            yield self._checked(self.document, (*self.path, key, index), value)
