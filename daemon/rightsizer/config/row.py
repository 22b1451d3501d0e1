"""Mappings of YAML files, read value by value; everything wrong with a file is found at once.

For files that are no tree of settings: catalogues, plans, the web configuration, scenarios.
"""

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any, Final, Self

from rightsizer.io.near import hint
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.units import parse_amount, parse_duration

_Path = tuple[str | int, ...]
_SHOWN: Final = 40


class Faults:
    """What is wrong with a file."""

    def __init__(self, document: Document, *, quotes_values: bool = True) -> None:
        """Nothing yet.

        `quotes_values`: whether a message quotes what is wrong; not where it may be a secret.
        """
        self._document, self._quotes_values = document, quotes_values
        self._found: list[tuple[_Path, str]] = []

    def add(self, path: _Path, message: str) -> None:
        """Something is wrong at a place."""
        if (path, message) not in self._found:
            self._found.append((path, message))

    def unread(self) -> "Faults":
        """Faults of the same file that are dropped."""
        return Faults(self._document, quotes_values=self._quotes_values)

    def got(self, value: Any) -> str:
        """What stands there, for the end of a message."""
        return f" (got {shown(value)})" if self._quotes_values else ""

    def refuse(self) -> None:
        """Raise a `ConfigurationError` of everything that was found, in the order of its places."""
        if self._found:
            place = self._document.place
            ordered = sorted(self._found, key=lambda found: place(found[0]))
            where = self._document.where
            lines = ((where(path), spell_path(path), message) for path, message in ordered)
            text = (printable(": ".join(filter(None, parts))) for parts in lines)
            raise ConfigurationError("\n".join(text))


class Row:
    """Values by key. One that is wrong is told to the faults and reads as if it were fine."""

    def __init__(self, values: Any, path: _Path, faults: Faults) -> None:
        self.faults = faults
        self.path = path
        if values is None:
            # A key whose values are all commented out.
            values = {}
        if not isinstance(values, Mapping):
            remedy = "; write it like {key: value}"
            faults.add(path, f"must be a mapping of keys to values{faults.got(values)}{remedy}")
            values = {}
            # What is missing in it is told by what it is.
            self.faults = faults.unread()
        self.values: Mapping[Any, Any] = values

    def fault(self, key: str, message: str) -> None:
        """Something is wrong with a value."""
        self.faults.add((*self.path, key) if key else self.path, message)

    def refuse(self) -> None:
        """Raise a `ConfigurationError` of everything that was found in the whole file."""
        self.faults.refuse()

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Every key must be known."""
        for key in self.values:
            if str(key) not in known:
                self.fault(str(key), f"unknown key; {hint(str(key), known)}")

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def row(self, key: str, known: Collection[str] = ()) -> Self:
        """The mapping under a key; an empty one where it is absent.

        It may have the keys that are `known`; any where there are none.
        """
        row = type(self)(self.values.get(key, {}), (*self.path, key), self.faults)
        if known:
            row.refuse_unknown(known)
        return row

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """One of a few words."""
        value = self.text(key) or default
        if value in choices:
            return value
        self.fault(key, f"must be one of {', '.join(choices)} (got {shown(value)})")
        return default

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.fault(key, f"must be true or false{self.faults.got(value)}")
        return default

    def number(self, key: str, least: float, most: float) -> float | None:
        """A number within bounds, `None` where it is absent."""
        return self.checked_number(key, self.values.get(key), least, most)

    def needed_number(self, key: str, least: float, most: float) -> float:
        """A number that must be there."""
        value = self.number(key, least, most)
        if value is None and self.values.get(key) is None:
            self.fault(key, f"is required: a number from {_plain(least)} to {_plain(most)}")
        return least if value is None else value

    def count(self, key: str, least: int, most: int) -> int | None:
        """A whole number within bounds, `None` where it is absent."""
        value = self.values.get(key)
        if isinstance(value, float) and not value.is_integer():
            self.fault(key, f"must be a whole number{self.faults.got(value)}")
            return None
        number = self.checked_number(key, value, least, most)
        return None if number is None else int(number)

    def needed_count(self, key: str, least: int, most: int) -> int:
        """A whole number that must be there."""
        value = self.count(key, least, most)
        if value is None and self.values.get(key) is None:
            self.fault(key, f"is required: a whole number from {least} to {most}")
        return least if value is None else value

    def amount(self, key: str, least: float, most: float) -> float | None:
        """A number within bounds, which may be written like `70B`; `None` where it is absent."""
        value = self.values.get(key)
        if isinstance(value, str):
            try:
                value = parse_amount(value)
            except ValueError:
                got = self.faults.got(value)
                self.fault(key, f"must be a number{got}; write it like 20, 7e9 or 7B")
                return None
        return self.checked_number(key, value, least, most)

    def milliseconds(self, key: str, *, is_bare: bool) -> float | None:
        """A duration with its unit, `None` where it is absent; a bare number has to be allowed."""
        value = self.values.get(key)
        try:
            if isinstance(value, str):
                return parse_duration(value.replace(" ", "")) * 1e3
        except ValueError:
            self.fault(key, f"must be a duration{self.faults.got(value)}; write it like 50ms or 1s")
            return None
        if is_bare or value is None:
            return self.checked_number(key, value, -inf, inf)
        self.fault(key, f"has no unit{self.faults.got(value)}; write it like 50ms or 1s")
        return None

    def text(self, key: str) -> str | None:
        """A text, `None` where it is absent."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        self.fault(key, f"must be text{self.faults.got(value)}; put it in quotes")
        return None

    def needed_text(self, key: str) -> str:
        """A text that must be there."""
        value = self.text(key)
        if not value and not self.values.get(key):
            self.fault(key, "is required: a text")
        return value or ""

    def text_by_key(self) -> dict[str, str]:
        """All of its keys with their texts."""
        for key in self.values:
            if not isinstance(key, str):
                self.fault(str(key), "a key must be text; put it in quotes")
        return {key: self.text(key) or "" for key in self.values if isinstance(key, str)}

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty where it is absent."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        remedy = "; write it like [one, two]" if isinstance(value, str) else ""
        self.fault(key, f"must be a list of texts{self.faults.got(value)}{remedy}")
        return ()

    def items(self, key: str) -> list[Any]:
        """A list of anything, empty where it is absent."""
        value = self.values.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.fault(key, f"must be a list{self.faults.got(value)}")
        return []

    def rows(self, key: str) -> list[Self]:
        """A list of mappings, empty where it is absent."""
        items = enumerate(self.items(key))
        rows = [(type(self)(item, (*self.path, key, at), self.faults), item) for at, item in items]
        return [row for row, item in rows if isinstance(item, Mapping)]

    def checked_number(self, key: str, value: Any, least: float, most: float) -> float | None:
        """A value from somewhere under a key, if it is a number within bounds."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            remedy = "; write it in digits without quotes" if isinstance(value, str) else ""
            self.fault(key, f"must be a number{self.faults.got(value)}{remedy}")
            return None
        if not least <= value <= most:
            more = f"from {_plain(least)} to {_plain(most)}"
            bounds = more if most < inf else f"at least {_plain(least)}"
            self.fault(key, f"must be {bounds}{self.faults.got(value)}")
            return None
        return float(value)


def shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def spell_path(path: Iterable[str | int]) -> str:
    """A path as the program's documentation writes it: `policies[0].match.owner`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def printable(line: str) -> str:
    """A line of a message, whose control characters no terminal obeys."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _plain(number: float) -> str:
    return f"{number:.10g}"
