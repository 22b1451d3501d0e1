"""The JSON body of a request to the agent: its fields, each checked and named if wrong."""

import json
from collections.abc import Mapping
from typing import Any, Final

from rightsizer.model.errors import UsageError
from rightsizer.model.units import DAY_SECONDS, format_duration, parse_duration

_LONGEST_SECONDS: Final = 366 * DAY_SECONDS


def fields_of(body: bytes, known: tuple[str, ...], example: str = "...") -> Mapping[str, Any]:
    """The fields of a request.

    Args:
        body: What was sent.
        known: The fields that there are.
        example: A value of the first of them, for whoever gets it wrong.

    Raises:
        UsageError: it is no JSON object, or has others.
    """
    try:
        fields = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UsageError(f'the body is no JSON object; write it like {{"{known[0]}": "{example}"}}')
    for name in fields:
        if name not in known:
            raise UsageError(f"'{name}' is not a field; choose from {', '.join(known)}")
    return fields


def text_of(fields: Mapping[str, Any], name: str, longest: int) -> str:
    """A line of text; empty where it is left out.

    Raises:
        UsageError: it is none, or too long.
    """
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{name}: {json.dumps(value)} is no text")
    text = " ".join(value.encode(errors="replace").decode().split())
    if len(text) > longest:
        raise UsageError(f"{name}: longer than {longest} characters; shorten it")
    return text


def duration_of(value: object) -> float | None:
    """Seconds of a duration; `None` where it is left out.

    Raises:
        UsageError: it is none, or no time at all, or longer than a year.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"for: {json.dumps(value)} is not a duration; write it like '7d'")
    try:
        duration_seconds = parse_duration(value)
    except ValueError as error:
        raise UsageError(f"for: {error}") from None
    if not 0 < duration_seconds <= _LONGEST_SECONDS:
        longest = format_duration(_LONGEST_SECONDS)
        raise UsageError(f"for: '{value}' is not between 0 s and {longest}")
    return duration_seconds
