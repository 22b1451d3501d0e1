"""Streaming parser of trace events in Chrome's JSON format, over a window of the file."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from rightsizer.model.values import Nanoseconds, ProfileError
from rightsizer.profiles.columns import integers
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import Unpacked
from rightsizer.profiles.timeline import Numbers

_CHUNK: Final = 2**18
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRUCTURE: Final = re.compile(r'["{}\[\]]')
_STRING_TURN: Final = re.compile(r'["\\]')
_ANY: Final = re.compile(r".", re.DOTALL)
_SCALAR_END: Final = re.compile(r"[,\]}\s]")
_LARGEST_EXPONENT: Final = 24
_LARGEST: Final = 10**_LARGEST_EXPONENT
"""Beyond any time or size, and safe in arithmetic."""
_DIGITS: Final = 40
_NO_NUMBER: Final = re.compile(r"(-?)(?:inf|nan)(?=[ \t\r\n,}\]])", re.IGNORECASE)
"""C++'s output for division by zero, as in PyTorch 1.8 for copies without duration."""
_AS_LONG: Final = {"": "NaN", "-": "null"}
"""Replacements that JSON decoders accept."""
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_LONGEST_ESCAPE: Final = 6
_NEXT_EVENT: Final = re.compile(r'\n {0,4}\},\s*\n {0,4}(?=\{\s*"(?:ph|name)"\s*:)')
"""Boundary of events as Kineto formats them; it cannot occur inside an event."""
Event: TypeAlias = dict[str, Any]
_EVENTS: Final = "traceEvents"
_KEY_MAXIMUM: Final = 2**16
"""Limit of a top-level key, in characters."""
_READ_ON: Final = 2**18
"""Characters read or built at once."""
_BATCH: Final = 2**20
"""Characters whose events are decoded at once."""
_BOUNDARY: Final = re.compile(r"\}\s*,\s*$")
_BOUNDARY_CHARACTERS: Final = 24
_BOUNDARY_TRIES: Final = 64
_PLAIN_NUMBERS: Final = b"0123456789.,"
_PLAIN_DIGITS: Final = 19
"""Of 64 bits, unless they begin with a 9."""
_NUMBER: Final = json.JSONDecoder(parse_float=Decimal)
_FRACTION: Final = 3
"""Decimals of microseconds in whole nanoseconds."""
_NO_JSON: Final = "event that is no JSON"
_REPAIRS_A_VALUE: Final = 100
_REPAIRS: Final = 1_000_000
_BETWEEN: Final = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")


class TraceEvent(msgspec.Struct, gc=False):
    """What is used of an event; times as they are written, which floats could not hold."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"0")
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    id: Any = None
    args: Any = None


_TYPED: Final = msgspec.json.Decoder(list[TraceEvent])


def _typed(event: Event) -> TraceEvent:
    """Convert an event of any form."""
    texts = (event.get(key) for key in ("cat", "name"))
    cat, name = (text if isinstance(text, str) else None for text in texts)
    times = (event.get("ts"), event.get("dur", 0))
    ts, dur = (msgspec.Raw(json.dumps(time, default=str).encode()) for time in times)
    pid, tid = (str(event.get(key)) for key in ("pid", "tid"))
    phase = str(event["ph"]) if "ph" in event else None
    return TraceEvent(phase, cat, name, ts, dur, pid, tid, event.get("id"), event.get("args"))


def nanoseconds_of(written: Sequence[msgspec.Raw]) -> Numbers:
    """Convert microseconds as they are written to whole nanoseconds; `NO_NUMBER` if none."""
    text = b",".join(written)
    if text.translate(None, _PLAIN_NUMBERS):
        return whole_numbers([*map(moment, written)])
    characters = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(characters == ord(",")), len(text))
    lengths = np.diff(ends, prepend=-1) - 1
    points = np.flatnonzero(characters == ord("."))
    decimals = np.zeros(len(ends), np.int64)
    place = np.searchsorted(ends, points)
    decimals[place] = ends[place] - points - 1
    digits = lengths - (decimals > 0) + _FRACTION - decimals
    is_larger = (digits == _PLAIN_DIGITS) & (characters[ends - lengths] == ord("9"))
    if digits.max() > _PLAIN_DIGITS or decimals.max() > _FRACTION or is_larger.any():
        return whole_numbers([*map(moment, written)])
    values = np.fromstring(text.replace(b".", b"").decode(), np.int64, sep=",")
    return values * 10 ** (_FRACTION - decimals)


def moment(written: msgspec.Raw) -> Nanoseconds | None:
    """Convert microseconds as they are written to whole nanoseconds; `None` if none."""
    try:
        return microseconds(_NUMBER.decode(bytes(written).decode()))
    except (ValueError, ArithmeticError, RecursionError):
        return None


def whole_numbers(values: Sequence[Any]) -> Numbers:
    """Return integers, texts of digits too; `NO_NUMBER` for others, and large ones cut."""
    return integers(values if {*map(type, values)} == {int} else [*map(whole_number, values)])


class JsonWindow:
    """Text from the reading position to what is buffered, with ways to skip values."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        # Invalid UTF-8 is replaced: it can only be in names.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._before = 0
        self.text = ""
        self.at = 0
        self.is_at_end = False

    @property
    def place(self) -> int:
        """Reading position in characters."""
        return self._before + self.at

    @property
    def ahead(self) -> int:
        """Buffered characters that are not consumed."""
        return len(self.text) - self.at

    def fill(self, size: int = _CHUNK) -> bool:
        """Read more and drop consumed text; return false at the end of the file."""
        if self.is_at_end:
            return False
        data = self._read(size)
        self.is_at_end = not data
        more = self._decoder.decode(data, final=self.is_at_end)
        self._before += self.at
        self.text = self.text[self.at :] + more
        self.at = 0
        return True

    def peek(self) -> str:
        """Return the next character except spaces; empty at the end of the file."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.fill():
                return ""

    def passes(self, character: str) -> bool:
        """Consume a character if it is the next one."""
        if self.peek() != character:
            return False
        self.at += 1
        return True

    def skip_value(self) -> bool:
        """Skip a value without building it; return false if the file ends within it."""
        first = self.peek()
        if first == '"':
            self.at += 1
            return self._skip_string()
        if not first or first not in "{[":
            end = self._find(_SCALAR_END)
            self.at -= len(end)
            return bool(end)
        depth = 0
        while character := self._find(_STRUCTURE):
            if character == '"':
                if not self._skip_string():
                    return False
                continue
            depth += 1 if character in "{[" else -1
            if depth == 0:
                return True
        return False

    def _skip_string(self) -> bool:
        # A character after a backslash never ends the string.
        while (character := self._find(_STRING_TURN)) == "\\":
            self._find(_ANY)
        return character == '"'

    def _find(self, pattern: "re.Pattern[str]") -> str:
        """Skip to the end of the next match; return it, or empty at the end of the file."""
        while not (match := pattern.search(self.text, self.at)):
            self.at = len(self.text)
            if not self.fill():
                return ""
        self.at = match.end()
        return match.group()


def microseconds(value: Any) -> Nanoseconds | None:
    """Convert microseconds to whole nanoseconds; `None` if not a number, or out of range."""
    if type(value) is Decimal:
        # Comparing would cost ten times as much as these two calls.
        is_usual = value.adjusted() < _LARGEST_EXPONENT and value.is_finite()
        return round(value * 1000) if is_usual else None
    if type(value) is int:
        return value * 1000
    whole = number(value)
    return None if whole is None else microseconds(whole)


def whole_number(value: Any) -> int | None:
    """Return an integer; text of digits counts as well."""
    if type(value) is int:
        return value
    whole = number(value)
    return int(whole) if whole is not None and whole == whole.to_integral_value() else None


def percent(value: Any) -> float | None:
    """Convert a percentage to a ratio."""
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value / 100
    hundredths = number(value)
    return None if hundredths is None else float(hundredths) / 100


def number(value: Any) -> Decimal | None:
    """Return a number exactly as written; `None` if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, str) and len(value) > _DIGITS:
        return None
    try:
        decimal = Decimal(value if isinstance(value, Decimal | int) else str(value).strip())
    except ArithmeticError:
        return None
    return decimal if decimal.is_finite() and -_LARGEST < decimal < _LARGEST else None


def repaired(text: str, error: Exception) -> str | None:
    """Return the text without what stopped the decoder, or `None`."""
    if not isinstance(error, json.JSONDecodeError):
        return None
    if error.msg.startswith("Invalid \\"):
        # Escape backslashes of Windows paths; an escape at the end may be incomplete.
        last = len(text) - _LONGEST_ESCAPE
        changed = _ESCAPE.sub(
            lambda escape: escape[0] if len(escape[0]) > 1 or escape.start() > last else "/", text
        )
        return None if changed == text else changed
    match = _NO_NUMBER.match(text, error.pos)
    return match and text[: match.start()] + _AS_LONG[match[1]] + text[match.end() :]


class JsonEvents:
    """Yields the events of a file, and keeps the requested top-level values.

    Other values outside of events are never built.
    """

    def __init__(self, path: Path, limits: ReadLimits, keep: Collection[str] = ()) -> None:
        self._path = path
        self._limits = limits
        self._keep = frozenset(keep)
        # Names in old traces may contain tabs and newlines, and floats could not hold times.
        self._decode = json.JSONDecoder(parse_float=Decimal, strict=False).raw_decode
        self.values: dict[str, Any] = {}
        """Requested top-level values by key; complete after the last event."""
        self.unread: Counter[str] = Counter()
        """Events that could not be built, by fault."""
        self.count = 0
        """Events so far."""
        self._repairs = 0
        self.fault = ""
        """Where and how the file breaks off; empty if it is complete."""
        self._has_events = False

    def batches(self) -> Iterator[list[TraceEvent]]:
        """Yield every event that is an object, some thousands at once.

        Raises:
            ProfileError: the file is no such trace, or exceeds a limit.
        """
        with Unpacked(self._path, self._limits) as file:
            window = JsonWindow(file.read)
            yield from self._top(window)
            if not self.fault and window.peek():
                self.unread["data behind the end of the trace, as of a second one"] += 1
            file.read(1)  # The data behind the events shows whether the packed data is complete.
            if file.is_torn:
                self.fault = f"its packed data breaks off after {window.place} characters"
        if not self._has_events:
            why = f", and {self.fault}" if self.fault else ""
            raise ProfileError(f"no list '{_EVENTS}' in it{why}; name a trace that is whole")

    def _top(self, window: JsonWindow) -> Iterator[list[TraceEvent]]:
        if window.passes("["):
            yield from self._events(window)
            return
        if not window.passes("{"):
            raise ProfileError(
                f"character {window.place}: no JSON object begins here; name a profiler's trace"
            )
        while window.peek() == '"':
            key, fault = self._value(window, _KEY_MAXIMUM)
            if fault or not window.passes(":"):
                break
            if key == _EVENTS and window.passes("["):
                yield from self._events(window)
            elif not self._top_value(window, key):
                break
            if self.fault or not window.passes(","):
                break
        if not self.fault and not window.passes("}"):
            self._break(window)

    def _top_value(self, window: JsonWindow, key: str) -> bool:
        """Keep a requested value, or skip it; return false if the file breaks off."""
        if key in self._keep:
            value, fault = self._value(window, self._limits.event_maximum_bytes)
            if not fault:
                self.values[key] = value
                return True
        return window.skip_value()

    def _events(self, window: JsonWindow) -> Iterator[list[TraceEvent]]:
        self._has_events = True
        while not self.fault:
            while batch := self._typed_events(window):
                yield batch
            if events := self._whole_events(window):
                yield events
            following = window.peek()
            if following == "{":
                event, fault = self._value(window, self._limits.event_maximum_bytes)
                if fault:
                    self._pass_over(window, fault)
                else:
                    self._count_some(1)
                    yield [_typed(event)]
            elif following in ("", "}", ":"):
                self._break(window)
            elif following not in ",]":
                self._pass_over(window, "event that is no object")
            else:
                window.at += 1
                if following == "]":
                    return

    def _typed_events(self, window: JsonWindow) -> list[TraceEvent]:
        """Return the events of a large part of the window; none if any is not plain."""
        while window.ahead < _BATCH and window.fill(_BATCH):
            pass
        space = _BETWEEN.match(window.text, window.at)
        begin = space.end() if space else window.at
        end = _last_end(window.text, begin)
        try:
            batch = _TYPED.decode(f"[{window.text[begin:end]}]")
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return []
        if batch:
            window.at = end
            self._count_some(len(batch))
        return batch

    def _whole_events(self, window: JsonWindow) -> list[TraceEvent]:
        """Return the events that end in the window, limited to what is cheap to hold."""
        text = window.text
        at = window.at
        until = at + _READ_ON
        events: list[TraceEvent] = []
        decode = self._decode
        between = _BETWEEN.match
        try:
            while at < until and (space := between(text, at)) and text[space.end()] == "{":
                event, at = decode(text, space.end())
                events.append(_typed(event))
        except (IndexError, RecursionError, ValueError, ArithmeticError):
            # An incomplete or faulty event is handled separately.
            pass
        window.at = at
        self._count_some(len(events))
        return events

    def _value(self, window: JsonWindow, maximum: int) -> tuple[Any, str]:
        """Return the next value, or why it cannot be built; then it is not consumed."""
        window.peek()
        repairs = 0
        while True:
            try:
                value, end = self._decode(window.text, window.at)
            except RecursionError:
                return None, "event nested too deep"
            except (ValueError, ArithmeticError) as error:
                repairs += 1
                self._repairs += 1
                # Limited to the number of a real writer's mistakes: each repair copies the text.
                may_repair = repairs <= _REPAIRS_A_VALUE and self._repairs <= _REPAIRS
                if may_repair and (text := repaired(window.text, error)) is not None:
                    window.text = text
                    continue
                if window.ahead > maximum:
                    return None, f"{_NO_JSON}, or over {maximum} bytes"
                # Doubles the buffer, so that a long value is tried only a few times.
                if not window.fill(max(window.ahead, _READ_ON)):
                    return None, _NO_JSON
                continue
            if end < len(window.text) or isinstance(value, dict) or not window.fill():
                # A number at the end of the window may continue.
                window.at = min(end, len(window.text))
                return value, ""

    def _pass_over(self, window: JsonWindow, what: str) -> None:
        is_open = what.startswith(_NO_JSON)
        # If quotes do not tell where an event ends, continue with the start of the next.
        if is_open and (following := _NEXT_EVENT.search(window.text, window.at)):
            window.at = following.end()
        elif not window.skip_value():
            self._break(window)
            return
        self._count_some(1)
        self.unread[what] += 1
        event_maximum = self._limits.faulty_events_maximum
        if self.unread.total() > event_maximum:
            last = f"the last one ends at character {window.place}"
            self.fault = f"over {event_maximum} events cannot be built, {last}"

    def _count_some(self, events: int) -> None:
        self.count += events
        self._limits.check_events(self.count)

    def _break(self, window: JsonWindow) -> None:
        how = "ends" if window.peek() == "" else "is no JSON any more"
        self.fault = f"the file {how} at character {window.place}, after {self.count} events"


def _last_end(text: str, begin: int) -> int:
    """Return where an event seems to end before another; the beginning if none is seen."""
    place = len(text)
    for _ in range(_BOUNDARY_TRIES):
        place = text.rfind("{", begin, place)
        first = max(begin, place - _BOUNDARY_CHARACTERS)
        if place > begin and (match := _BOUNDARY.search(text[first:place])):
            return first + match.start() + 1
    return begin
