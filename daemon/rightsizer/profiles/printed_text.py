"""Text printed by profilers: lines, CSV records, numbers, units, safe excerpts."""

import csv
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import Unpacked, open_unpacked

_WORD: Final = re.compile(r"^[\"'(\[]?[A-Za-z][A-Za-z'-]{0,13}[\"')\].,:;!]*$")
_LONG_NUMBER: Final = re.compile(r"^\d{1,4}[.,:;%]?$")
_LONGEST: Final = 160
_BEGINNING: Final = 40
_ELLIPSIS: Final = "…"
_SECRET: Final = re.compile(
    r"\S*[/\\]\S*|[A-Za-z]{21,}|(?=[\w+/=@.~-]*\d)[\w+/=@.~-]{9,}|(?<=[=:@])\s*[\w./+~@%-]+"
)
"""Matches paths, values, and text as long as a key."""
DecimalMark = Literal[".", ","]
_NUMBER: Final = re.compile(r"[+-]?\d[\d.,' \u00a0\u202f\u2019]*(?:[eE][+-]?\d+)?")
LARGEST: Final = 1e24
"""Limit of measured values, which keeps derived values finite."""
_VOTES: Final = 99
"""Unambiguous numbers that tell a file's decimal mark."""
_GROUP: Final = 3
"""Digits between thousands separators."""
_SPACES: Final = str.maketrans("", "", "' \u00a0\u202f\u2019")
_SECONDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("ns", "nsec", "nsecond"), 1e-9),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecond"), 1e-6),
    **dict.fromkeys(("ms", "msec", "msecond"), 1e-3),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
}
_RATIOS: Final[Mapping[str, float]] = {"%": 0.01, "pct": 0.01}
_POWERS: Final[Mapping[str, int]] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BYTES: Final = re.compile(r"([kmgt]?)(i?)(?:b|bytes?)(?:/s|/second|ps)?", re.IGNORECASE)
_BYTE_ORDER_MARK: Final = "\ufeff"
_PIECE_BYTES: Final = 1 << 16
_JOINED_LINES: Final = 50
"""Lines over which a quoted name may continue; beyond, the quote is unbalanced."""


def plain_words(text: str, longest: int = _LONGEST) -> str:
    """Return the words of a sentence; possible paths, keys and names become an ellipsis."""
    words: list[str] = []
    for part in text.split():
        if _WORD.match(part) or _LONG_NUMBER.match(part):
            words.append(part)
        elif words[-1:] != [_ELLIPSIS]:
            words.append(_ELLIPSIS)
    shown = " ".join(words)
    return shown if len(shown) <= longest else shown[: longest - 1] + _ELLIPSIS


def excerpt(data: bytes) -> str:
    """Return the printable beginning of a file, without possible secrets."""
    text = data[: 8 * _BEGINNING].decode("utf-8", "replace")
    text = _SECRET.sub("..", " ".join(text.split()))[:_BEGINNING]
    return "".join(
        character if character.isascii() and character.isprintable() else "." for character in text
    )


def printed_number(text: str, mark: DecimalMark = ".") -> float | None:
    """Parse a printed number; `None` for `n/a`, blanks, words and impossible values.

    `mark` is for ambiguous numbers, like `1,234`; not all columns of a file are localized.
    """
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    if text.isdecimal():
        return float(text) if float(text) <= LARGEST else None
    mark = _decimal_mark(text) or mark
    plain = text.translate(_SPACES).replace("," if mark == "." else ".", "")
    try:
        value = float(plain.replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def decimal_mark(texts: Iterable[str]) -> DecimalMark:
    """Return the decimal mark of most of the first unambiguous numbers; default is a point."""
    marks = filter(None, (_decimal_mark(text.strip()) for text in texts))
    votes = Counter(islice(marks, _VOTES))
    return "," if votes[","] > votes["."] else "."


def _decimal_mark(text: str) -> DecimalMark | None:
    if not _NUMBER.fullmatch(text):
        return None
    points = text.count(".")
    commas = text.count(",")
    if points and commas:
        return "." if text.rindex(".") > text.rindex(",") else ","
    if points + commas != 1:
        # A mark that occurs twice is a thousands separator.
        return None if points == commas else "," if points else "."
    mark: DecimalMark = "." if points else ","
    before, after = text.lstrip("+-").split(mark)
    groups_thousands = len(after) == _GROUP and 1 <= len(before) <= _GROUP and before[0] != "0"
    return None if groups_thousands else mark


def seconds_in(unit: str) -> float | None:
    """Return the seconds of a unit; `None` if it is no unit of time."""
    return _SECONDS.get(unit.strip())


def bytes_in(unit: str) -> float | None:
    """Return the bytes, or bytes a second, of a unit; `None` if it is no such unit."""
    match = _BYTES.fullmatch(unit.strip())
    if not match:
        return None
    base = 1024.0 if match[2] else 1000.0
    return float(base ** _POWERS[match[1].lower()])


def ratio_in(unit: str) -> float | None:
    """Return the ratio of a unit; `None` if it is no share."""
    return _RATIOS.get(unit.strip())


def quoted_record(cells: Iterable[str]) -> str:
    """Return a line of CSV."""
    return ",".join('"' + cell.strip().replace('"', '""') + '"' for cell in cells)


class PrintedText:
    """Text file, plain or gzip, read in lines and records of bounded length."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._path = path
        self._limits = limits
        self.unread: Counter[str] = Counter()
        """Skipped lines by reason."""
        self._ahead: deque[str] = deque()

    def lines(
        self, convert: Callable[[Iterator[str]], Iterator[str]] = lambda lines: lines
    ) -> Iterator[str]:
        """Yield all lines, without line ends and byte order marks, converted.

        Raises:
            ProfileError: the file cannot be opened or unpacked, or is larger than allowed.
        """
        self._ahead.clear()
        with open_unpacked(self._path, self._limits) as file:
            fresh = convert(
                line.removeprefix(_BYTE_ORDER_MARK).rstrip("\r") for line in self._fresh(file)
            )
            while (line := self._ahead.popleft() if self._ahead else next(fresh, None)) is not None:
                yield line

    def record(self, line: str, lines: Iterator[str]) -> list[str] | None:
        """Return the fields of a record that begins with `line`; `None`, counted, if it is none.

        Quoted fields may span lines. If a quote never closes, the lines after the first are
        returned to `lines`.
        """
        quotes = line.count('"')
        if quotes == 2 and "\r" not in line and line.endswith('"'):  # noqa: PLR2004 - of one name.
            before, _, name = line[:-1].partition('"')
            if before.endswith(","):
                return [*before[:-1].split(","), name]
        joined = [line]
        size = len(line)
        while (
            quotes % 2 and len(joined) < _JOINED_LINES and size < self._limits.event_maximum_bytes
        ):
            following = next(lines, None)
            if following is None:
                break
            joined.append(following)
            quotes = quotes + following.count('"')
            size = size + len(following)
        if quotes % 2:
            self._ahead.extendleft(reversed(joined[1:]))
            self.unread["line with an open quote"] += 1
            return None
        try:
            return next(csv.reader(["\n".join(joined)]))
        except (csv.Error, StopIteration):
            self.unread["line that is no CSV"] += 1
            return None

    def _fresh(self, file: Unpacked) -> Iterator[str]:
        """Yield the lines of the file, without those too long."""
        held = b""
        is_passing = False
        while data := file.read(_PIECE_BYTES):
            *whole, held = (held + data).split(b"\n")
            if is_passing and whole:
                whole = whole[1:]
                is_passing = False
            if whole:
                yield from b"\n".join(whole).decode("utf-8", "replace").split("\n")
            if len(held) > self._limits.event_maximum_bytes or is_passing:
                self.unread["line that is too long"] += not is_passing
                held = b""
                is_passing = True
        if held:
            yield held.decode("utf-8", "replace")
