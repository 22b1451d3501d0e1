"""The objects in a JSON text of any size that start in one way, one at a time."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from rightsizer.model.errors import RecordingError
from rightsizer.telemetry.recordings.row import RecordingNotes
from rightsizer.telemetry.recordings.text_file import TextFile

_OVERLAP: Final = 1 << 10
"""What is kept of a piece without a start in it: more than a start is long."""
_LARGEST: Final = 1 << 26


def json_objects(
    text: TextFile, starts: re.Pattern[str], notes: RecordingNotes
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every such object with the line that it starts in; what is in it is not looked at again.

    Raises:
        RecordingError: one is damaged.
    """
    decoder = json.JSONDecoder()
    rest, at, line, needed = "", 0, 1, 0
    for piece in text.pieces(notes):
        rest = rest[at:] + piece
        at = 0
        while (start := starts.search(rest, at)) is not None and len(rest) - start.start() > needed:
            line += rest.count("\n", at, start.start())
            at = start.start()
            try:
                found, end = decoder.raw_decode(rest, at)
            except (ValueError, RecursionError):
                # Perhaps its end is yet to come: waiting for twice as much keeps this linear.
                needed = 2 * (len(rest) - at)
                if needed > 2 * _LARGEST:
                    raise _damaged(text, line) from None
                break
            yield line, found
            line += rest.count("\n", at, end)
            at, needed = end, 0
        if start is None:
            kept = max(at, len(rest) - _OVERLAP)
            line += rest.count("\n", at, kept)
            at = kept
    yield from _last(decoder, rest[at:], starts, line, notes)


def _last(
    decoder: json.JSONDecoder, rest: str, starts: re.Pattern[str], line: int, notes: RecordingNotes
) -> Iterator[tuple[int, dict[str, Any]]]:
    """What was waited for in vain."""
    at = 0
    while (start := starts.search(rest, at)) is not None:
        line += rest.count("\n", at, start.start())
        at = start.start()
        try:
            found, end = decoder.raw_decode(rest, at)
        except (ValueError, RecursionError):
            notes.count("damaged or torn JSON", line, rest[at : at + 60])
            at += 1
            continue
        yield line, found
        line += rest.count("\n", at, end)
        at = end


def _damaged(text: TextFile, line: int) -> RecordingError:
    return RecordingError(
        f"{text.name}:{line}: is damaged from here on, or holds an object of more than "
        "64 MB; cut the file before it, or record shorter spans"
    )
