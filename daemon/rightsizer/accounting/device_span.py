"""What a device did over a span, put together from what is remembered of it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rightsizer.accounting.recollection import FINE_SPAN, HOUR, OpenWindow, Recollection
from rightsizer.accounting.ring import ClosedWindows
from rightsizer.accounting.window_form import decode
from rightsizer.domain.report import StripCell
from rightsizer.domain.span import DeviceSpan, Span
from rightsizer.domain.state import Cause, State
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["device_span"]


def device_span(recollection: Recollection, span: Span, now: Nanoseconds) -> DeviceSpan:
    """The windows that begin within the span that ends now, summed into its cells.

    Cells shorter than an hour are made of five-minute windows, longer ones of hours.
    """
    since = now - span.length
    found = list(_windows(recollection, span, since, now))
    states: Counter[State] = Counter()
    for _, window in found:
        states.update(window.states)
    return DeviceSpan(
        cells=tuple(_cells(found, span.cell)),
        states=dict(states),
        used_seconds=sum(window.used_seconds for _, window in found),
        used_joules=sum(window.used_joules for _, window in found),
        waste_seconds=_summed(window.waste_seconds.items() for _, window in found),
        waste_joules=_summed(window.waste_joules.items() for _, window in found),
    )


def _windows(
    recollection: Recollection, span: Span, since: Nanoseconds, now: Nanoseconds
) -> Iterator[tuple[Nanoseconds, Window]]:
    is_fine = span.cell < HOUR
    ring, grain = (recollection.fine, FINE_SPAN) if is_fine else (recollection.hours, HOUR)
    yield from _closed(recollection.uuid, ring, since, now, grain)
    growing = (recollection.open_fine,) if is_fine else _running_hour(recollection)
    for each in growing:
        if each is not None and since < each.slot + grain and each.slot <= now:
            yield each.slot, each.window


def _running_hour(recollection: Recollection) -> tuple[OpenWindow | None, ...]:
    """The hour that is not over: what was closed of it, and the five minutes still open."""
    return recollection.open_hour, recollection.open_fine


def _closed(
    uuid: str, ring: ClosedWindows, since: Nanoseconds, now: Nanoseconds, grain: Nanoseconds
) -> Iterator[tuple[Nanoseconds, Window]]:
    for slot, form in ring:
        if since < slot + grain and slot <= now:
            yield slot, decode(uuid, form)


def _cells(found: Iterable[tuple[Nanoseconds, Window]], length: Nanoseconds) -> Iterator[StripCell]:
    cells: dict[Nanoseconds, tuple[list[Nanoseconds], Counter[State]]] = {}
    for slot, window in found:
        if window.states:
            ends, states = cells.setdefault(slot - slot % length, ([], Counter()))
            ends += (window.start, window.end)
            states.update(window.states)
    for slot in sorted(cells):
        ends, states = cells[slot]
        yield StripCell(min(ends), max(ends), dict(states))


def _summed(parts: Iterable[Iterable[tuple[Cause, float]]]) -> dict[Cause, float]:
    sums: dict[Cause, float] = {}
    for each in parts:
        for cause, amount in each:
            sums[cause] = sums.get(cause, 0.0) + amount
    return sums
