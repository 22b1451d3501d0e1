"""What writers of traces get wrong in JSON, put right without moving a character."""

import json
import re
from typing import Final

__all__ = ["next_event", "repaired"]

_NO_NUMBER: Final = re.compile(r"(-?)(?:inf|nan)(?=[ \t\r\n,}\]])", re.IGNORECASE)
"""What C++ prints for a quotient by zero, as PyTorch 1.8 did for a copy that took no time."""
_AS_LONG: Final = {"": "NaN", "-": "null"}
"""What JSON's decoder takes in its place."""
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_LONGEST_ESCAPE: Final = 6
_NEXT_EVENT: Final = re.compile(r'\n {0,4}\},\s*\n {0,4}(?=\{\s*"(?:ph|name)"\s*:)')
"""Between two events as Kineto lays them out; what is within one stands on one line."""


def repaired(text: str, error: Exception) -> str | None:
    """The text without what the decoder stopped at; `None` where that cannot be told."""
    if not isinstance(error, json.JSONDecodeError):
        return None
    if error.msg.startswith("Invalid \\"):
        return _with_plain_backslashes(text)
    found = _NO_NUMBER.match(text, error.pos)
    if found is None:
        return None
    return text[: found.start()] + _AS_LONG[found[1]] + text[found.end() :]


def next_event(text: str, at: int) -> int | None:
    """Where the event behind one begins whose quotes do not tell where it ends."""
    found = _NEXT_EVENT.search(text, at)
    return None if found is None else found.end()


def _with_plain_backslashes(text: str) -> str | None:
    """Folders of Windows as other systems have them; what may go on behind the text stays."""
    last = len(text) - _LONGEST_ESCAPE

    def plain(found: "re.Match[str]") -> str:
        return found[0] if len(found[0]) > 1 or found.start() > last else "/"

    changed = _ESCAPE.sub(plain, text)
    return None if changed == text else changed
