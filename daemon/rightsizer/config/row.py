"""Reader of mappings in YAML files, value by value; reports all faults of a file at once.

For files other than settings: catalogues, plans, the web configuration, scenarios.
"""

from collections.abc import Collection, Mapping
from math import inf
from typing import Any, Final, Self

from rightsizer.config.spelling import escaped_line, spell_path
from rightsizer.io.near import hint
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.units import parse_amount, parse_duration

_Path = tuple[str | int, ...]
_SHOWN: Final = 40


class Faults:
    """Collected faults of a file."""

    def __init__(self, document: Document, *, quotes_values: bool = True) -> None:
        """Start without faults.

        `quotes_values`: whether messages quote faulty values; off if they may be secrets.
        """
        self._document = document
        self._quotes_values = quotes_values
        self._found: list[tuple[_Path, str]] = []

    def add(self, path: _Path, message: str) -> None:
        """Add a fault at a path."""
        if (path, message) not in self._found:
            self._found.append((path, message))

    def unread(self) -> Self:
        """Faults of the same file that are discarded."""
        return type(self)(self._document, quotes_values=self._quotes_values)

    def got(self, value: Any) -> str:
        """Faulty value, for the end of a message."""
        return f" (got {shown(value)})" if self._quotes_values else ""

    def refuse(self) -> None:
        """Raise a `ConfigurationError` with all faults, in order of their places, if any."""
        if self._found:
            place = self._document.place
            ordered = sorted(self._found, key=lambda found: place(found[0]))
            where = self._document.where
            lines = ((where(path), spell_path(path), message) for path, message in ordered)
            text = (escaped_line(": ".join(filter(None, parts))) for parts in lines)
            raise ConfigurationError("\n".join(text))


class Row:
    """Values by key. A faulty value is reported and reads as a valid one."""

    def __init__(self, values: Any, path: _Path, faults: Faults) -> None:
        self.faults = faults
        self.path = path
        if values is None:
            # All values of the key are commented out.
            values = {}
        if not isinstance(values, Mapping):
            remedy = "; write it like {key: value}"
            faults.add(path, f"must be a mapping of keys to values{faults.got(values)}{remedy}")
            values = {}
            # The type fault implies all missing keys.
            self.faults = faults.unread()
        self.values: Mapping[Any, Any] = values

    def fault(self, key: str, message: str) -> None:
        """Report a fault of a value."""
        self.faults.add((*self.path, key) if key else self.path, message)

    def refuse(self) -> None:
        """Raise a `ConfigurationError` with all faults of the file, if any."""
        self.faults.refuse()

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Report keys other than the known ones."""
        for key in self.values:
            if str(key) not in known:
                self.fault(str(key), f"unknown key; {hint(str(key), known)}")

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def row(self, key: str, known: Collection[str] = ()) -> Self:
        """Read a nested mapping; empty if absent.

        Keys other than `known` are faults; if that is empty, all keys are allowed.
        """
        row = type(self)(self.values.get(key, {}), (*self.path, key), self.faults)
        if known:
            row.refuse_unknown(known)
        return row

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """Read one of the given words."""
        value = self.text(key) or default
        if value in choices:
            return value
        self.fault(key, f"must be one of {', '.join(choices)} (got {shown(value)})")
        return default

    def flag(self, key: str, *, default: bool) -> bool:
        """Read a boolean."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.fault(key, f"must be true or false{self.faults.got(value)}")
        return default

    def number(self, key: str, least: float, most: float) -> float | None:
        """Read a number within bounds, or `None` if absent."""
        return self.checked_number(key, self.values.get(key), least, most)

    def needed_number(self, key: str, least: float, most: float) -> float:
        """Read a required number."""
        value = self.number(key, least, most)
        if value is None and self.values.get(key) is None:
            self.fault(key, f"is required: a number from {_plain(least)} to {_plain(most)}")
        return least if value is None else value

    def count(self, key: str, least: int, most: int) -> int | None:
        """Read an integer within bounds, or `None` if absent."""
        value = self.values.get(key)
        if isinstance(value, float) and not value.is_integer():
            self.fault(key, f"must be a whole number{self.faults.got(value)}")
            return None
        number = self.checked_number(key, value, least, most)
        return None if number is None else int(number)

    def needed_count(self, key: str, least: int, most: int) -> int:
        """Read a required integer."""
        value = self.count(key, least, most)
        if value is None and self.values.get(key) is None:
            self.fault(key, f"is required: a whole number from {least} to {most}")
        return least if value is None else value

    def amount(self, key: str, least: float, most: float) -> float | None:
        """Read a number within bounds, also in the form `70B`; `None` if absent."""
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
        """Read a duration, or `None` if absent; `is_bare` allows a number without unit."""
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
        """Read a text, or `None` if absent."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        self.fault(key, f"must be text{self.faults.got(value)}; put it in quotes")
        return None

    def needed_text(self, key: str) -> str:
        """Read a required text."""
        value = self.text(key)
        if not value and not self.values.get(key):
            self.fault(key, "is required: a text")
        return value or ""

    def text_by_key(self) -> dict[str, str]:
        """Read all keys with their texts."""
        for key in self.values:
            if not isinstance(key, str):
                self.fault(str(key), "a key must be text; put it in quotes")
        return {key: self.text(key) or "" for key in self.values if isinstance(key, str)}

    def texts(self, key: str) -> tuple[str, ...]:
        """Read a list of texts; empty if absent."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        remedy = "; write it like [one, two]" if isinstance(value, str) else ""
        self.fault(key, f"must be a list of texts{self.faults.got(value)}{remedy}")
        return ()

    def items(self, key: str) -> list[Any]:
        """Read a list of any values; empty if absent."""
        value = self.values.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.fault(key, f"must be a list{self.faults.got(value)}")
        return []

    def rows(self, key: str) -> list[Self]:
        """Read a list of mappings; empty if absent."""
        items = enumerate(self.items(key))
        rows = [(type(self)(item, (*self.path, key, at), self.faults), item) for at, item in items]
        return [row for row, item in rows if isinstance(item, Mapping)]

    def checked_number(self, key: str, value: Any, least: float, most: float) -> float | None:
        """Check a value read below a key: a number within bounds, or `None`."""
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
    """Value for a message, truncated if long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _plain(number: float) -> str:
    return f"{number:.10g}"
