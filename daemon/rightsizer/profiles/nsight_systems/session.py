"""When and by what an export was made, and what its profiler says is missing from it."""

from collections.abc import Iterator
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.profiles.excerpt import plain_words
from rightsizer.profiles.nsight_systems.database import ExportDatabase

__all__ = ["diagnostic_notes", "session_start", "tool_version"]

_VERSIONS: Final = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_ERROR: Final = 3
_WARNING: Final = 2
_LOSS: Final = "Not all CUDA events"
"""The one warning that says that events are not there."""
_NOTES_MAXIMUM: Final = 10
_NOTE_CHARACTERS: Final = 300
_TEXT_CHARACTERS: Final = 1000


def tool_version(database: ExportDatabase) -> str:
    """The profiler's version and that of the tables' form, as far as they are told."""
    found = {
        name: value
        for name, value in database.rows("META_DATA_EXPORT", (), ("name", "value"))
        if name in _VERSIONS and isinstance(value, str)
    }
    product, schema = (found.get(name, "")[:40] for name in _VERSIONS)
    return f"{product}, schema {schema}" if product and schema else product or schema


def session_start(database: ExportDatabase) -> Nanoseconds | None:
    """Wall time of the profile's time 0."""
    rows = database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    return next((int(row[0]) for row in rows), None)


def diagnostic_notes(database: ExportDatabase) -> tuple[str, ...]:
    """What the profiler itself says went wrong."""
    notes = dict.fromkeys(_diagnostics(database))
    return tuple(notes)[:_NOTES_MAXIMUM]


def _diagnostics(database: ExportDatabase) -> Iterator[str]:
    for severity, text in database.rows("DIAGNOSTIC_EVENT", ("severity",), ("text",)):
        if not isinstance(text, str):
            continue
        if severity == _ERROR or (severity == _WARNING and text.startswith(_LOSS)):
            yield f"The profiler says: {plain_words(text[:_TEXT_CHARACTERS], _NOTE_CHARACTERS)}"
