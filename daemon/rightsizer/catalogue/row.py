"""A mapping of a YAML file, read value by value; everything wrong with it is found at once."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError

_Path = tuple[str | int, ...]
_SHOWN: Final = 40


class Faults:
    """What is wrong with a file."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: list[tuple[_Path, str]] = []

    def add(self, path: _Path, message: str) -> None:
        """Something is wrong at a place."""
        if (path, message) not in self._found:
            self._found.append((path, message))

    def unread(self) -> "Faults":
        """Faults of the same file that nobody reads."""
        return Faults(self._document)

    def refuse(self) -> None:
        """Raise everything that was found, in the order of its places.

        Raises:
            ConfigurationError: anything was.
        """
        if self._found:
            place = self._document.place
            ordered = sorted(self._found, key=lambda found: place(found[0]))
            raise ConfigurationError("\n".join(self._line(*found) for found in ordered))

    def _line(self, path: _Path, message: str) -> str:
        parts = (self._document.where(path), ".".join(map(str, path)), message)
        line = ": ".join(filter(None, parts))
        return "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode()
            for letter in line
        )


class Row:
    """Values by key. One that is wrong is told to the faults and reads as if it were fine."""

    def __init__(self, values: Any, path: _Path, faults: Faults) -> None:
        self._faults = faults
        self.path = path
        if values is None:
            # A key whose values are all commented out.
            values = {}
        if not isinstance(values, Mapping):
            faults.add(
                path,
                f"must be a mapping of keys to values (got {shown(values)});"
                " write it like {key: value}",
            )
            values = {}
            # What is missing in it is told by what it is.
            self._faults = faults.unread()
        self.values: Mapping[Any, Any] = values

    def fault(self, key: str, message: str) -> None:
        """Something is wrong with a value."""
        self._faults.add((*self.path, key) if key else self.path, message)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Every key must be known."""
        for key in self.values:
            if str(key) not in known:
                near = near_words(str(key), known)
                hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
                self.fault(str(key), f"unknown key; {hint}")

    def row(self, key: str) -> "Row":
        """The mapping under a key; an empty one where it is absent."""
        return Row(self.values.get(key, {}), (*self.path, key), self._faults)

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
            self.fault(key, f"must be a whole number (got {shown(value)})")
            return None
        number = self.checked_number(key, value, least, most)
        return None if number is None else int(number)

    def needed_count(self, key: str, least: int, most: int) -> int:
        """A whole number that must be there."""
        value = self.count(key, least, most)
        if value is None and self.values.get(key) is None:
            self.fault(key, f"is required: a whole number from {least} to {most}")
        return least if value is None else value

    def text(self, key: str) -> str | None:
        """A text, `None` where it is absent."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        self.fault(key, f"must be text (got {shown(value)}); put it in quotes")
        return None

    def needed_text(self, key: str) -> str:
        """A text that must be there."""
        value = self.text(key)
        if not value and not self.values.get(key):
            self.fault(key, "is required: a text")
        return value or ""

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty where it is absent."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        remedy = f"; write it like [{shown(value)}]" if isinstance(value, str) else ""
        self.fault(key, f"must be a list of texts (got {shown(value)}){remedy}")
        return ()

    def items(self, key: str) -> list[Any]:
        """A list of anything, empty where it is absent."""
        value = self.values.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.fault(key, f"must be a list (got {shown(value)})")
        return []

    def rows(self, key: str) -> list["Row"]:
        """A list of mappings, empty where it is absent."""
        items = enumerate(self.items(key))
        rows = [(Row(item, (*self.path, key, at), self._faults), item) for at, item in items]
        return [row for row, item in rows if isinstance(item, Mapping)]

    def checked_number(self, key: str, value: Any, least: float, most: float) -> float | None:
        """A value from somewhere under a key, if it is a number within bounds."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            remedy = "; write it in digits without quotes" if isinstance(value, str) else ""
            self.fault(key, f"must be a number (got {shown(value)}){remedy}")
            return None
        if not least <= value <= most:
            self.fault(key, f"must be from {_plain(least)} to {_plain(most)} (got {shown(value)})")
            return None
        return float(value)


def shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _plain(number: float) -> str:
    return f"{number:.10g}"
