"""What the devices did over the spans that people look at; asked for by any thread."""

import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from rightsizer.accounting.window_query import WindowQuery, device_span
from rightsizer.model.span import DeviceSpan, Span
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_RENEWED: Final = 24
"""A span is put together anew when this part of a cell has gone by: what changes is not seen."""
_LEAST: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND

_Spans: TypeAlias = Mapping[str, DeviceSpan]


class PastBook:
    """Remembers what it worked out, so that no crowd of readers costs more than one."""

    def __init__(self, look: Callable[[], tuple[Nanoseconds, tuple[WindowQuery, ...]]]) -> None:
        """A book over whoever remembers.

        Args:
            look: Gives the present and what is remembered of each device, in no time; it is
                read here, without a lock of theirs.
        """
        self._look = look
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Nanoseconds, _Spans]] = {}

    def __call__(self, span: Span) -> _Spans:
        """What each device did over a span, by uuid."""
        with self._lock:
            now, remembered = self._look()
            made, spans = self._known.get(span.name, (None, {}))
            fresh_for = max(_LEAST, span.cell // _RENEWED)
            if made is not None and 0 <= now - made < fresh_for and _has_all(spans, remembered):
                return spans
            spans = {each.uuid: device_span(each, span, now) for each in remembered}
            self._known[span.name] = now, spans
            return spans


def _has_all(spans: _Spans, remembered: tuple[WindowQuery, ...]) -> bool:
    return {each.uuid for each in remembered} <= set(spans)
