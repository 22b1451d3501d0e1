"""Rows of all files into one snapshot a poll."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.reading import Missing, Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Holding
from rightsizer.telemetry.recorded.row import Row

__all__ = ["Assembly"]


@dataclass(frozen=True, slots=True)
class Assembly:
    """What is known of a recording before its second pass."""

    devices: tuple[Device, ...]
    interval: Nanoseconds
    poll_gap: Nanoseconds
    """Readings of several devices that follow each other faster are of one poll."""
    limits: Mapping[tuple[str, str], Nanoseconds]
    """How long a value of a device and stream holds."""

    def snapshots(self, rows: Iterable[Row]) -> Generator[Snapshot, None, None]:
        """One snapshot a poll, in the order of time.

        A poll ends when a device comes again or when the next reading is long in coming.
        """
        held = _Held(self.limits)
        poll: dict[str, list[Row]] = {}
        last: Nanoseconds = 0
        for row in rows:
            known = poll.get(row.device)
            if known is not None and known[0].time == row.time:
                known.append(row)
                continue
            if poll and (known is not None or row.time - last > self.poll_gap):
                yield self._snapshot(poll, last, held)
                poll = {}
            poll[row.device] = [row]
            last = row.time
        if poll:
            yield self._snapshot(poll, last, held)

    def _snapshot(
        self, poll: Mapping[str, Sequence[Row]], time: Nanoseconds, held: "_Held"
    ) -> Snapshot:
        readings = {device: held.reading(device, rows) for device, rows in poll.items()}
        return Snapshot(
            wall_time=time,
            time=time,
            interval=self.interval,
            devices=self.devices,
            readings=readings,
            holdings=held.holdings,
        )


class _Held:
    """What each stream said last; a slower one's values hold for a while."""

    def __init__(self, limits: Mapping[tuple[str, str], Nanoseconds]) -> None:
        self._limits = limits
        self._streams: dict[str, dict[str, Row]] = {}
        self.holdings: dict[str, tuple[Holding, ...]] = {}
        """Replaced, never changed: snapshots keep it."""

    def reading(self, device: str, rows: Sequence[Row]) -> Reading:
        """The device's reading at the time of the rows."""
        streams = self._streams.get(device)
        if streams is None:
            streams = self._streams[device] = {}
        for row in rows:
            streams[row.stream] = row
        newest = rows[-1]
        if len(rows) > 1 or newest.holdings is not None:
            self._hold(device, rows)
        processes = newest.processes
        if len(streams) == 1:
            return Reading(device, newest.time, newest.values, newest.missing, processes)
        values: dict[Signal, float] = {}
        missing: dict[Signal, Missing] = {}
        for row in sorted(streams.values(), key=_belief):
            if newest.time - row.time <= self._limits.get((device, row.stream), 0):
                values.update(row.values)
                missing.update(row.missing)
                processes = processes or row.processes
            else:
                stale = dict.fromkeys((*row.values, *row.missing), Missing.STALE)
                missing.update(stale)
        reasons = {signal: why for signal, why in missing.items() if signal not in values}
        return Reading(device, newest.time, values, reasons, processes)

    def _hold(self, device: str, rows: Sequence[Row]) -> None:
        told = [row.holdings for row in rows if row.holdings is not None]
        if not told:
            return
        held = told[0] if len(told) == 1 else _shared(told)
        if self.holdings.get(device, ()) != held:
            self.holdings = {**self.holdings, device: held}


def _belief(row: Row) -> tuple[Nanoseconds, int]:
    return row.time, row.rank


def _shared(told: Sequence[tuple[Holding, ...]]) -> tuple[Holding, ...]:
    """Equal parts for all holders that several lines name, unless one line names them all."""
    holders = {holding.workload: holding for holdings in told for holding in holdings}
    if len(holders) == 1:
        return tuple(holders.values())
    return tuple(Holding(workload, 1 / len(holders)) for workload in holders)
