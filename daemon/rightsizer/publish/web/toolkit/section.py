"""Reads a YAML document key by key, and keeps everything that is wrong with it and where."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.domain.errors import ConfigurationError
from rightsizer.edge.near import near_words
from rightsizer.edge.yaml import Document

__all__ = ["Faults", "Section"]

_Path = tuple[str | int, ...]
_SHOWN_CHARACTERS: Final = 60


class Faults:
    """What is wrong with a document, in the order of the places."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: list[tuple[_Path, str]] = []

    def add(self, path: _Path, what: str) -> None:
        """Note a fault of a value; what was written is told by the place alone."""
        self._found.append((path, what))

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> ConfigurationError:
        """All of them as one error, a line each: `file:line:column: key: what; remedy`."""
        found = sorted(self._found, key=lambda fault: self._document.place(fault[0]))
        return ConfigurationError("\n".join(self._line(*fault) for fault in found))

    def _line(self, path: _Path, what: str) -> str:
        key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        where = self._document.where(path)
        return _printable(": ".join(filter(None, (where, key.removeprefix("."), what))))


class Section:
    """A mapping of the document; what is absent or empty has its default."""

    def __init__(self, value: Any, path: _Path, known: Sequence[str], faults: Faults) -> None:
        """The mapping at a path.

        Args:
            value: What stands there.
            path: Where it stands.
            known: The keys it may have; any where there are none.
            faults: Where what is wrong is noted.
        """
        self.path, self._faults = path, faults
        self._values: Mapping[Any, Any] = {}
        if isinstance(value, Mapping):
            self._values = value
        elif value is not None:
            faults.add(path, "must be a mapping of keys to values")
        for key in self._values if known else ():
            if key not in known:
                near = near_words(str(key), known)
                remedy = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
                faults.add((*path, str(key)), f"unknown key; {remedy}")

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def at(self, *key: str | int) -> _Path:
        """The path of something in it."""
        return (*self.path, *key)

    def fault(self, key: str, what: str) -> None:
        """Note a fault of one of its values."""
        self._faults.add(self.at(key), what)

    def section(self, key: str, known: Sequence[str] = ()) -> "Section":
        """A mapping inside."""
        return Section(self._values.get(key), self.at(key), known, self._faults)

    def text(self, key: str) -> str:
        """A text, empty where there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            self.fault(key, "must be text; put it in quotes")
            return ""
        return value or ""

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.text(key) or default
        if value not in choices:
            self.fault(key, f"must be one of {', '.join(choices)} (got {_shown(value)})")
            return default
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.fault(key, "must be true or false")
            return default
        return value

    def whole(self, key: str, default: int) -> int:
        """A whole number, not below 0."""
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fault(key, "must be a whole number, 0 or more")
            return default
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            self.fault(key, "must be a list of texts, like [one, two]")
            return ()
        return tuple(value)

    def texts(self) -> dict[str, str]:
        """All of its keys with their texts."""
        for key in self._values:
            if not isinstance(key, str):
                self.fault(str(key), "a key must be text; put it in quotes")
        return {key: self.text(key) for key in self._values if isinstance(key, str)}


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}...")


def _printable(line: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )
