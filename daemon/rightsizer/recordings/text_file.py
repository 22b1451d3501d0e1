"""Files of a recording as lines and JSON objects, plain or compressed."""

import contextlib
import csv
import gzip
import io
import json
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path
from shlex import quote
from typing import IO, Any, Final, TypeVar, cast

from msgspec import Struct

from rightsizer.io.files import packing_of
from rightsizer.model.values import RecordingError
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.timestamps import page_time
from rightsizer.recordings.unnamed_devices import NOTHING_STATED, StatedDevices

_DELIMITERS: Final = (",", ";", "\t", "|")
_QUOTED: Final = re.compile(r'"[^"]*"')
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_SPREADSHEETS: Final = (b"[Content_Types].xml", b"opendocument.spreadsheet")
"""Names within archives of Excel and LibreOffice."""
_TORN: Final = (EOFError, zlib.error, gzip.BadGzipFile)
_PREFIXED_HEADING: Final = re.compile(r"(?P<prefix>(?:[^\s,;]+[ \t]+)+)timestamp[,;\t]", re.ASCII)
"""A heading after the prefix of a log collector, as of `kubectl logs --timestamps`, `docker compose
logs` or journalctl."""
_GREPPED_HEADING: Final = re.compile(
    r"(?P<file>[\w./-]*[a-zA-Z][\w./-]*:)?(?P<line>\d+:)?timestamp[,;\t]", re.ASCII
)
"""A heading after what `grep -H` or `grep -n` puts before a line."""
_KEPT_BY_DOCKER: Final = re.compile(r'\{"log": ?".*", ?"stream": ?"std(?:out|err)"')
"""A line of a container's log as Docker keeps it."""
_COMPOSED: Final = re.compile(r"([a-zA-Z][\w.-]*) +\| (?=\S)")
_COMPOSED_WORDS: Final = 2
"""Of each line of `docker compose logs`: the container, and what is behind it."""
_SOURCE: Final = re.compile(r"(\[\S+|[a-zA-Z][\w.-]*|\d+)(?:(?<=\]) |: |\s+\| )")
"""Where a line is from, before all else in it: a pod, node, container or task."""
_WHOLE_SECOND: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?=,)", re.ASCII)
_COMMA_FRACTION: Final = re.compile(
    rf"({_WHOLE_SECOND.pattern}),((?:\d{{3}}){{1,3}})(?=[,Z+-])", re.ASCII
)
"""Fraction of a second as of `date --iso-8601=ns` and Python's logging, which makes two cells."""
_SIGNATURE_BYTES: Final = 256
_HEAD_BYTES: Final = 1 << 16
_HEAD_LINES: Final = 64
_PIECE: Final = 1 << 16

_Study = TypeVar("_Study")
Progress = Callable[[str, int, int], None]
"""Takes a stage, and the numbers of done and total parts."""
_OVERLAP: Final = 1 << 10
"""Kept of a piece without a start: longer than any start."""
_LARGEST: Final = 1 << 26
_LONGEST_TOKEN: Final = 16
"""Of JSON, but for texts and numbers."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def show_read(progress: Progress, texts: Sequence["TextFile"]) -> None:
    """Show how much of the files the first pass has read."""
    progress("survey", round(100 * sum(text.read_ratio for text in texts) / len(texts)), 100)


def _prefix_of(lines: Sequence[str]) -> re.Pattern[str] | None:
    """Return what grep or a collector of logs puts before each line, or `None`."""
    for match in filter(None, map(_GREPPED_HEADING.match, lines)):
        name = re.escape(match["file"] or "")
        number = r"\d+:" if match["line"] else ""
        return re.compile(f"^{name}{number}") if name or number else None
    prefixed = filter(None, map(_PREFIXED_HEADING.match, lines))
    words = max((len(match["prefix"].split()) for match in prefixed), default=0)
    composed = [_COMPOSED.match(line) for line in lines]
    if not words and all(composed) and len({match[1] for match in composed if match}) == 1:
        words = _COMPOSED_WORDS
    return re.compile(rf"^\s*(?:\S+\s+){{{words}}}(?=\S)") if words else None


def _stripped(line: str, *, is_first: bool) -> str:
    """Return a line of the head; the heading of pandas' index is empty, before a tab."""
    is_indexed = is_first and line.startswith("\t") and line.count("\t") > 1
    return line.strip(" \r\n") if is_indexed else line.strip()


def _all_logged(lines: Iterable[str]) -> list[str]:
    """Return the lines of the head as a container wrote them."""
    logged = map(_logged, lines)
    stripped = (_stripped(line, is_first=not at) for at, line in enumerate(logged))
    return [line for line in stripped if line]


def _logged(line: str) -> str:
    """Return what a container wrote, from a line as Docker keeps it."""
    try:
        return str(json.loads(line)["log"])
    except (ValueError, KeyError, TypeError):
        return line


def delimiter_of(line: str) -> str:
    """Return the separator of a line's cells: semicolons in some locales; else blanks."""
    plain = _QUOTED.sub("", line) if '"' in line else line
    delimiter = max(_DELIMITERS, key=plain.count)
    return delimiter if delimiter in plain else " "


def row_of(head: Sequence[str]) -> str:
    """Return a line that is most likely a row: comments, headings and times are above the rows."""
    lines = [line for line in head if page_time(line) is None] or head
    return lines[len(lines) // 2]


def split_csv_line(line: str, delimiter: str = ",") -> list[str]:
    """Split a line into cells; quoted cells are rare and slower."""
    if delimiter == " ":
        return line.split()
    if delimiter == "|":
        line = line.strip().removeprefix("|").removesuffix("|")
    if '"' not in line:
        return line.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return [line]


class TextFile:
    """A file of a recording."""

    def __init__(
        self, path: Path, *, stated: StatedDevices = NOTHING_STATED, fields: str | None = None
    ) -> None:
        """Open a file far enough to check that it is text.

        A pipe is copied to a temporary file. `fields` are the comma-separated columns of a log
        without a heading, and used as its heading.

        Raises:
            RecordingError: it is missing, a folder, empty, unreadable or not text.
        """
        self.path = path
        self.name = str(path)
        self.stated = stated
        self._study: Any = None
        self.has_fields = fields is not None
        self._heading: str | None = None
        self._stream: IO[bytes] | None = None
        self._readable = path
        self._spool: IO[bytes] | None = None
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise RecordingError(f"{path}: is a folder; name the files of the recording")
            if not stat.S_ISREG(mode):
                self._spool = tempfile.NamedTemporaryFile(prefix="rightsizer-")  # noqa: SIM115 - see close.
                with path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, self._spool)
                self._spool.flush()
                self._readable = Path(self._spool.name)
            with self._readable.open("rb") as stream:
                start = stream.read(_HEAD_BYTES)
            self._packed = start.startswith(_GZIP)
            self._encoding = "utf-8-sig"
            self._encoding = self._text_encoding(start)
            lines = self._first_lines()
            self._is_kept_by_docker = all(map(_KEPT_BY_DOCKER.match, lines))
            if self._is_kept_by_docker:
                lines = _all_logged(lines)
            self._prefix = _prefix_of(lines)
            self.head = tuple(map(self._without_prefix, lines))
            """First lines that are not blank, stripped."""
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RecordingError(f"{path}: {reason}; check the path") from None
        if not self.head:
            raise RecordingError(f"{self.name}: is empty; was anything recorded?")
        if fields is not None:
            self._heading = delimiter_of(row_of(self.head)).join(fields.split(","))
            self.head = (self._heading, *self.head)
        self._has_comma_fractions = _has_comma_fractions(self.head)
        self.head = tuple(map(self._with_point, self.head))

    def lines(self, notes: RecordingNotes) -> Iterator[tuple[int, str]]:
        """Yield all lines with numbers from 1 and line ends; a truncated gzip up to the cut."""
        number = 0
        if self._heading is not None:
            yield number, f"{self._heading}\n"
        with self._text() as stream:
            try:
                numbered: Iterable[tuple[int, str]] = enumerate(stream, 1)
                if self._is_kept_by_docker:
                    numbered = ((number, _logged(line)) for number, line in numbered)
                if self._prefix:
                    numbered = self._unprefixed(numbered)
                for number, line in numbered:
                    yield number, self._with_point(line)
            except _TORN as error:
                notes.count("compressed file breaks off here; read up to it", number, str(error))
            except OSError as error:
                raise RecordingError(f"{self.name}:{number}: {error.strerror}") from None

    def pieces(self, notes: RecordingNotes) -> Iterator[str]:
        """Yield the text in pieces of one size, for formats without lines."""
        with self._text() as stream:
            try:
                if self._is_kept_by_docker:
                    yield from map(_logged, stream)
                while piece := stream.read(_PIECE):
                    yield piece
            except _TORN as error:
                notes.count("compressed file breaks off; read up to there", 1, str(error))
            except OSError as error:
                raise RecordingError(f"{self.name}: {error.strerror}") from None

    @property
    def read_ratio(self) -> float:
        """Share of the file read by the latest pass."""
        if self._stream is None:
            return 0.0
        if self._stream.closed:
            return 1.0
        # For a compressed file, of its compressed size.
        raw: IO[bytes] = getattr(self._stream, "fileobj", self._stream)
        return raw.tell() / max(1, self._readable.stat().st_size)

    def once(self, study: Callable[[], _Study]) -> _Study:
        """Return what the first call found out about the file."""
        if self._study is None:
            self._study = study()
        result: _Study = self._study
        return result

    def close(self) -> None:
        """Delete the copy of a pipe."""
        if self._spool is not None:
            self._spool.close()

    def _first_lines(self) -> list[str]:
        """Return the first lines that are not blank, stripped."""
        lines: list[str] = []
        with contextlib.suppress(*_TORN), self._text() as stream:
            while len(lines) < _HEAD_LINES and (line := stream.readline(_PIECE)):
                lines += filter(None, (_stripped(line, is_first=not lines),))
        return lines

    def _unprefixed(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        source = ""
        for number, line in lines:
            # `kubectl logs --prefix` begins with the pod, pdsh and docker compose with the node or
            # container, which may be on another node.
            if match := _SOURCE.match(line):
                if source and match[1] != source:
                    mine = quote(f'index($0, "{match[0]}") == 1')
                    raise RecordingError(
                        f"{self.name}:{number}: is of {match[1]}, and what is before of {source}; "
                        f"write the log of each to a file, as by awk {mine} {quote(self.name)} > "
                        "one.csv, and replay each node by itself"
                    )
                source = match[1]
            yield number, self._without_prefix(line)

    def _without_prefix(self, line: str) -> str:
        """Return a line without the prefix of a log collector, or of grep."""
        return self._prefix.sub("", line, 1) if self._prefix else line

    def _with_point(self, line: str) -> str:
        return _COMMA_FRACTION.sub(r"\1.\2", line, 1) if self._has_comma_fractions else line

    def _text_encoding(self, start: bytes) -> str:
        if self._packed:
            with self._unpacked() as stream:
                try:
                    start = stream.read(_HEAD_BYTES)
                except _TORN:
                    start = b""
        if any(mark in start for mark in _SPREADSHEETS):
            raise RecordingError(f"{self.name}: is a spreadsheet; save the table as CSV first")
        if packing := packing_of(start):
            raise RecordingError(
                f"{self.name}: is packed in a way that is not read; use '{packing[1]}' first"
            )
        if start.startswith(_PARQUET):
            raise RecordingError(
                f"{self.name}: is a Parquet table, which is not read; write it as CSV first, as by "
                f"duckdb -c \"COPY '{self.path.name}' TO 'recording.csv'\""
            )
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        for zeros, encoding in ((start[1:64:2], "utf-16-le"), (start[:64:2], "utf-16-be")):
            if zeros and not any(zeros) and any(start):
                return encoding
        # A crash leaves blocks of zeros after the text written last.
        if b"\x00" in start[:_SIGNATURE_BYTES]:
            raise RecordingError(
                f"{self.name}: is a binary file; a recording is text, plain or compressed by gzip"
            )
        return "utf-8-sig"

    def _text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(self._unpacked(), encoding=self._encoding, errors="replace")

    def _unpacked(self) -> IO[bytes]:
        if self._packed:
            self._stream = cast(IO[bytes], gzip.open(self._readable, "rb"))  # noqa: SIM115 - the caller does.
        else:
            self._stream = self._readable.open("rb")
        return self._stream


def _has_comma_fractions(head: Sequence[str]) -> bool:
    """Whether rows have one cell more than the heading, since a comma precedes fractions.

    Fractions have one number of digits. Single rows may be torn; a row that ends in a comma may be
    whole.
    """
    # Messages before the heading have fewer cells.
    before = takewhile(lambda line: not _WHOLE_SECOND.match(line), head)
    width = max((len(split_csv_line(line)) for line in before), default=0)
    rows = [(line, split_csv_line(line)) for line in head if _WHOLE_SECOND.match(line)]
    longer = [(line, cells) for line, cells in rows if len(cells) == width + 1]
    fractions = [_COMMA_FRACTION.match(line) for line, _ in longer]
    return (
        len(longer) > sum(len(cells) == width for _, cells in rows)
        and any(cells[-1].strip() for _, cells in longer)
        and all(fractions)
        and len({len(fraction[2]) for fraction in fractions if fraction}) == 1
    )


class RecordingFormat(Struct, frozen=True):
    """A recording format."""

    name: str
    """Name in messages."""
    recognizes: Callable[[Sequence[str]], bool]
    """Whether the first lines of a file, stripped and not blank, match."""
    rows: Callable[[TextFile, RecordingNotes], Iterator[RecordingRow]]
    """Yields rows in file order, a pass per call; raises `RecordingError` for missing parts."""


def json_objects(
    text: TextFile, starts: re.Pattern[str], notes: RecordingNotes
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each matching object with its first line; reject a damaged one."""
    decoder = json.JSONDecoder()
    rest = ""
    at = 0
    line = 1
    needed = 0
    for piece in chain(text.pieces(notes), ("",)):
        is_last = not piece
        rest = rest[at:] + piece
        at = 0
        while (start := starts.search(rest, at)) is not None and (
            is_last or len(rest) - start.start() > needed
        ):
            line += rest.count("\n", at, start.start())
            at = start.start()
            try:
                document, end = decoder.raw_decode(rest, at)
            except (ValueError, RecursionError) as error:
                damage = _damage(error, len(rest))
                if is_last or damage is not None:
                    notes.count("damaged or torn JSON", line, rest[at : at + 60])
                    after = 0 if damage is None else rest.rfind("\n", at, damage + 1)
                    line += rest.count("\n", at, after + 1)
                    at = max(at, after) + 1
                    continue
                # The end may be yet to come: waiting for twice as much keeps this linear.
                needed = 2 * (len(rest) - at)
                if needed > 2 * _LARGEST:
                    raise RecordingError(
                        f"{text.name}:{line}: is damaged from here on, or holds an object of more "
                        "than 64 MB; cut the file before it, or record shorter spans"
                    ) from None
                break
            yield line, document
            line += rest.count("\n", at, end)
            at = end
            needed = 0
        if start is None:
            kept = max(at, len(rest) - _OVERLAP)
            line += rest.count("\n", at, kept)
            at = kept


def _damage(error: Exception, end: int) -> int | None:
    """Return the place of damage in JSON; `None` if the text may only be incomplete."""
    if not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Unterminated"):
        return None
    return error.pos if error.pos < end - _LONGEST_TOKEN else None
