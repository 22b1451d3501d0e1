"""Outbox of a receiver, and delivery from it: pauses after failures, counters."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.values import (
    Advice,
    AdviceEvent,
    Nanoseconds,
    nanoseconds,
    seconds,
    series_key,
)

_Body = TypeVar("_Body")


class OutboxEntry(Struct, Generic[_Body], frozen=True):
    """A pending message; its number grows with each entry and is never reused."""

    number: int
    body: _Body


class OutboxTable(Struct, Generic[_Body], frozen=True):
    """A table with the columns `number` and `body`; its format is stable across versions."""

    name: str
    body: str
    encode: Callable[[_Body], str]
    decode: Callable[[str], _Body | None]
    """Returns `None` for a text it cannot decode."""
    destination: str = ""
    """Column of the destination; empty for a table with a single one."""


class Outbox(Generic[_Body]):
    """Bodies by destination, in order, until delivered; thread-safe."""

    def __init__(self, database: Database, table: OutboxTable[_Body]) -> None:
        self._database = database
        self._table = table
        self._destination = table.destination or "''"

    def pending(self, destination: str = "") -> Sequence[OutboxEntry[_Body]]:
        """Return all entries of a destination, oldest first; unreadable rows are skipped."""
        table = self._table
        query = (
            f"SELECT number, {table.body} FROM {table.name} "  # noqa: S608 - constant names.
            f"WHERE {self._destination} = ? ORDER BY number"
        )
        return [
            OutboxEntry(number, body)
            for number, text in self._database.rows(query, (destination,))
            if (body := table.decode(text)) is not None
        ]

    def put(self, bodies: Iterable[_Body], destination: str = "") -> None:
        """Append bodies in this order."""
        table = self._table
        rows: list[tuple[str, ...]] = [(table.encode(body),) for body in bodies]
        columns = table.body
        places = "?"
        if table.destination:
            rows = [(*row, destination) for row in rows]
            columns = f"{table.body}, {table.destination}"
            places = "?, ?"
        self._run(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)  # noqa: S608

    def done(self, numbers: Iterable[int]) -> None:
        """Delete entries that were delivered or never can be; unknown numbers are ignored."""
        rows = [(number,) for number in numbers]
        self._run(f"DELETE FROM {self._table.name} WHERE number = ?", rows)  # noqa: S608

    def keep_only(self, destinations: Iterable[str]) -> None:
        """Delete the entries of all other destinations."""
        name = self._table.name
        column = self._destination
        kept = frozenset(destinations)
        query = f"SELECT DISTINCT {column} FROM {name}"  # noqa: S608
        gone = [
            (destination,)
            for (destination,) in self._database.rows(query)
            if destination not in kept
        ]
        self._run(f"DELETE FROM {name} WHERE {column} = ?", gone)  # noqa: S608

    def _run(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            with self._database.transaction() as connection:
                connection.executemany(statement, rows)


_FIRST_PAUSE_SECONDS: Final = 60.0
"""The interval of the runs."""
_LONGEST_RETRY_AFTER_SECONDS: Final = 1800.0
"""Maximum pause that a receiver may ask for: one with another date or unit would otherwise silence
the agent for weeks."""
_UNACCEPTABLE: Final = frozenset({400, 413, 422})
"""Statuses that reject the content: a retry would block all later messages."""


class DeliveryReport(Struct, frozen=True):
    """Counters of one receiver since the start, and its current state."""

    name: str
    sent: int = 0
    """Messages that the receiver accepted."""
    failed: int = 0
    """Attempts that failed."""
    dropped: int = 0
    """Messages given up: rejected for their content, or evicted from a full outbox."""
    pending: int = 0
    last_success: Nanoseconds | None = None
    """Wall time of the last run that left nothing to send."""
    trouble: str | None = None
    """Current failure with its remedy, or `None`."""

    @property
    def tried(self) -> int:
        """Attempts, successful or not."""
        return self.sent + self.failed


class DeliveryContext(Struct, frozen=True):
    """What all deliveries share: advice, and the outside world."""

    advice: Callable[[], Sequence[Advice]]
    """All advice, closed included."""
    clock: Clock
    warn: Callable[[str, str], None]
    """Takes the name of an event and a message; called once per trouble."""
    sleep: Callable[[float], object] = time.sleep
    """Returns true if retries must end."""
    titles: Callable[[], Mapping[str, str]] = dict
    """Display names of devices by UUID."""
    node: str = ""
    claim: str = "rightsizer claim"
    """Command that claims a recommendation, before its id."""


class DeliveryLimits(Protocol):
    """What the settings of every receiver limit."""

    @property
    def outbox_maximum(self) -> int:
        """Maximum pending messages; beyond it the oldest are dropped."""

    @property
    def pause_seconds(self) -> float:
        """Maximum pause after failures, unless the receiver asks for a longer one."""


class Delivery(ABC, Generic[_Body]):
    """Sends the messages of an outbox in order; failures are reported, never raised."""

    _message: ClassVar = "a change of advice"
    """What it sends, for people."""
    _trouble: ClassVar[str]
    """Log event of its failures."""
    _counters: ClassVar[Mapping[str, str]]
    """Fields of the report by the metrics that export them."""
    _gauges: ClassVar[tuple[str, str]]
    """Metrics of pending messages and of the last success."""
    _joined: int = 1
    """Maximum messages of the outbox that are sent as one."""

    def __init__(
        self,
        name: str,
        outbox: Outbox[_Body],
        context: DeliveryContext,
        *,
        settings: DeliveryLimits,
        destination: str = "",
    ) -> None:
        """Create the delivery.

        `name` is for logs and metrics, `destination` for the outbox. Each failure is logged once.
        """
        self._outbox = outbox
        self.destination = destination
        """Its key in the outbox."""
        self._limits = settings
        self._context = context
        self._clock = context.clock
        self._failures_in_a_row = 0
        self._paused_until: Nanoseconds | None = None
        self._warned_of: tuple[FailureKind, int | None] | None = None
        self.report = DeliveryReport(name, pending=len(self._pending()))

    @abstractmethod
    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Put messages of events into the outbox; fast, without network."""

    def notify(self, body: str) -> None:
        """Put another JSON message into the outbox, if the receiver takes such messages."""

    def deliver(self) -> DeliveryReport:
        """Send pending messages in order until one fails; may take seconds."""
        if self._paused_until is None or self._clock.time() >= self._paused_until:
            failure = self._send()
            self._hang_up()
            self._settle(failure)
        return self._count(pending=len(self._pending()))

    def metrics(self) -> dict[str, float]:
        """Attempts, failures, pending messages and last success by series."""
        report = self.report
        labels = self._labels
        pending, last_success = self._gauges
        values = {
            series_key(name, **labels): float(getattr(report, figure))
            for name, figure in self._counters.items()
        }
        values[series_key(pending, **labels)] = float(report.pending)
        if report.last_success is not None:
            values[series_key(last_success, **labels)] = seconds(report.last_success)
        return values

    @property
    def _labels(self) -> Mapping[str, str]:
        return {}

    @abstractmethod
    def _send(self) -> Failure | None:
        """Send what is due; return the failure that stopped it, or `None`."""

    @abstractmethod
    def _post(self, bodies: Sequence[_Body]) -> Failure | None:
        """Send messages as one, and count it if accepted."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Close idle connections until the next run."""

    @abstractmethod
    def _explain(self, failure: Failure) -> str:
        """Describe a failure in a sentence, with its remedy."""

    def _pending(self) -> Sequence[OutboxEntry[_Body]]:
        return self._outbox.pending(self.destination)

    def _due(self) -> Sequence[OutboxEntry[_Body]]:
        """Return the pending entries, after dropping the oldest beyond the maximum."""
        entries = self._pending()
        excess = max(0, len(entries) - self._limits.outbox_maximum)
        self._drop(entries[:excess])
        return entries[excess:]

    def _send_entries(self, entries: Sequence[OutboxEntry[_Body]]) -> Failure | None:
        for start in range(0, len(entries), self._joined):
            part = entries[start : start + self._joined]
            if (failure := self._post([entry.body for entry in part])) is None:
                self._outbox.done(entry.number for entry in part)
            elif failure.status in _UNACCEPTABLE:
                self._drop(part)
                self._context.warn(
                    self._trouble, f"{self.report.name} refused {self._message}: {failure.message}"
                )
            else:
                return failure
        return None

    def _drop(self, entries: Sequence[OutboxEntry[_Body]]) -> None:
        self._outbox.done(entry.number for entry in entries)
        self._count(dropped=self.report.dropped + len(entries))

    def _settle(self, failure: Failure | None) -> None:
        if failure is None:
            self._failures_in_a_row = 0
            self._paused_until = None
            self._warned_of = None
            self._count(last_success=self._clock.wall_time(), trouble=None)
            return
        self._failures_in_a_row += 1
        asked = min(failure.retry_after_seconds or 0.0, _LONGEST_RETRY_AFTER_SECONDS)
        pause = max(self._pause_seconds(), asked)
        self._paused_until = self._clock.time() + nanoseconds(pause)
        trouble = self._explain(failure)
        # Compared by kind, since the text may hold a trace id that changes each time.
        if self._warned_of != (failure.kind, failure.status):
            self._warned_of = (failure.kind, failure.status)
            self._context.warn(self._trouble, trouble)
        self._count(trouble=trouble)

    def _pause_seconds(self) -> float:
        """No pause after the first failure, as the next run is a minute away; then it doubles."""
        failures = self._failures_in_a_row
        if failures == 1:
            return 0.0
        doubled: float = _FIRST_PAUSE_SECONDS * 2 ** min(failures - 2, 20)
        return min(doubled, self._limits.pause_seconds)

    def _count(self, **changes: object) -> DeliveryReport:
        self.report = replace(self.report, **changes)
        return self.report
