"""Traces that end before they tell whose they are: without an event, or cut off."""

import json
import re
from typing import Final

__all__ = ["trace_fault"]

_EVENTS: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{(?:[^\[\]]*,)?\s*"traceEvents"\s*:')


def trace_fault(data: bytes) -> str:
    """What is wrong with a trace that no reader knows, and what to do; empty for all else.

    Args:
        data: The whole file.
    """
    if not _EVENTS.match(data):
        return ""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return (
            "a trace that is cut off before an event that tells its profiler; wait until the "
            "profiler has finished writing, copy it again, or record again"
        )
    events = document["traceEvents"]
    if isinstance(events, list) and not any(events):
        return (
            "a trace without events; record again, with steps between the profiler's start and "
            "its stop"
        )
    return ""
