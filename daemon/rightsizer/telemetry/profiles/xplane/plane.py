"""Plane of an `XSpace`: its lines, and the tables that name its events."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.xplane.event import (
    ENTRY_KEY,
    ENTRY_VALUE,
    LINE_EVENTS,
    LINE_FIELDS,
    LINE_NAME,
    LINE_SHOWN_NAME,
    LINE_TIMESTAMP,
    METADATA_ID,
    METADATA_NAME,
    PLANE_EVENT_METADATA,
    PLANE_FIELDS,
    PLANE_LINES,
    PLANE_NAME,
    PLANE_STAT_METADATA,
    PLANE_STATS,
    PlaneEvent,
    StatValue,
    add_stat,
    read_event,
    stat_values,
)
from rightsizer.telemetry.profiles.xplane.wire import (
    LENGTH,
    VARINT,
    FileWindow,
    messages,
    others,
    scan,
    signed,
)

PROGRAMS: Final = "/host:metadata"
"""The plane of compiled programs, which has no events."""
_STAT_BYTES: Final = 4000
_NAMES_PER_KERNEL: Final = 10
"""Names of a plane to one of a kernel: its operations, shapes and details are names too."""


@dataclass(frozen=True, slots=True)
class XPlaneLine:
    """One line of a plane: a stream, a thread, or what was derived from them."""

    name: str
    start_nanoseconds: int
    stretch: tuple[int, int]


@dataclass(slots=True)
class XPlane:
    """A plane's name, tables and own stats; its lines stay in the file."""

    window: FileWindow
    stretch: tuple[int, int]
    name: str
    limits: ReadLimits
    unread: Counter[str]
    event_names: dict[int, str] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    own_stats: list[bytes] = field(default_factory=list)

    def stats(self) -> dict[str, StatValue]:
        """What the plane says of itself."""
        values: dict[str, StatValue] = {}
        wanted = frozenset(self.stat_names)
        for each in self.own_stats:
            add_stat(each, wanted, self.stat_names, values)
        return values

    def stat_ids(self, names: frozenset[str]) -> frozenset[int]:
        """The keys of the stats with these names."""
        return frozenset(key for key, name in self.stat_names.items() if name in names)

    def values(self, event: PlaneEvent, wanted: frozenset[int]) -> dict[str, StatValue]:
        """The wanted ones among the stats of an event, by name."""
        return stat_values(event.rest, wanted, self.stat_names, self.unread)

    def lines(self) -> Iterator[XPlaneLine]:
        """The lines, without their events."""
        for number, wire_type, low, high in scan(self.window, *self.stretch):
            if number == PLANE_LINES and wire_type == LENGTH:
                yield self._line(low, high)

    def events(self, line: XPlaneLine) -> Iterator[PlaneEvent]:
        """The events of a line."""
        return map(read_event, self.messages(line))

    def messages(self, line: XPlaneLine) -> Iterator[bytes]:
        """The same as they are in the file; what is too large for one is counted."""
        longest = self.limits.event_maximum_bytes
        for data in messages(self.window, *line.stretch, LINE_EVENTS, longest):
            if data is None:
                self.unread["events that are too large"] += 1
            else:
                yield data

    def text(self, low: int, high: int) -> str:
        """A name, cut where it is longer than names are."""
        # A character takes four bytes at most.
        longest = 4 * self.limits.name_maximum_characters
        return self.window.slice(low, min(high, low + longest)).decode("utf-8", "replace")

    def read_tables(self) -> None:
        """Reads the names of its events and values, and its own values."""
        for number, wire_type, low, high in scan(self.window, *self.stretch):
            if number not in PLANE_FIELDS:
                self.unread["unknown fields"] += 1
            elif wire_type != LENGTH:
                continue
            elif number == PLANE_EVENT_METADATA:
                self._add_name(self.event_names, low, high)
            elif number == PLANE_STAT_METADATA:
                self._add_name(self.stat_names, low, high)
            elif number == PLANE_STATS and high - low <= _STAT_BYTES:
                self._add_stat(low, high)

    def _add_stat(self, low: int, high: int) -> None:
        if len(self.own_stats) < self.limits.kernel_names_maximum:
            self.own_stats.append(self.window.slice(low, high))

    def _add_name(self, names: dict[int, str], low: int, high: int) -> None:
        """Reads an entry of a map from a number to something with a name."""
        key, name = 0, ""
        for number, wire_type, first, last in scan(self.window, low, high):
            if number == ENTRY_KEY and wire_type == VARINT:
                key = first
            elif number == ENTRY_VALUE and wire_type == LENGTH:
                for inner, inner_type, start, end in scan(self.window, first, last):
                    if inner == METADATA_ID and inner_type == VARINT:
                        key = start
                    elif inner == METADATA_NAME and inner_type == LENGTH:
                        name = self.text(start, end)
        if len(names) < _NAMES_PER_KERNEL * self.limits.kernel_names_maximum:
            names[key] = name
        else:
            self.unread["names beyond those that are told apart"] += 1

    def _line(self, low: int, high: int) -> XPlaneLine:
        name = shown = ""
        start = 0
        for number, wire_type, first, last in others(self.window, low, high, LINE_EVENTS):
            if number == LINE_NAME and wire_type == LENGTH:
                name = self.text(first, last)
            elif number == LINE_SHOWN_NAME and wire_type == LENGTH:
                shown = self.text(first, last)
            elif number == LINE_TIMESTAMP and wire_type == VARINT:
                start = signed(first)
            elif number not in LINE_FIELDS:
                self.unread["unknown fields"] += 1
        return XPlaneLine(shown or name, start, (low, high))


def read_plane(
    window: FileWindow, stretch: tuple[int, int], limits: ReadLimits, unread: Counter[str]
) -> XPlane:
    """The plane without its events.

    Raises:
        WireError: it is cut, or no plane.
    """
    plane = XPlane(window, stretch, "", limits, unread)
    for number, wire_type, low, high in scan(window, *stretch):
        if number == PLANE_NAME and wire_type == LENGTH:
            plane.name = plane.text(low, high)
            break
    if plane.name != PROGRAMS:  # They may be large, and tell nothing of time.
        plane.read_tables()
    return plane
