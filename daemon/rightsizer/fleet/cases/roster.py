"""Who holds which devices now, since when, and who held them before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.kept.days import Days
from rightsizer.fleet.kept.shelf import HeldRow

__all__ = ["Roster", "Tenure", "roster_of", "tenure_of"]


@dataclass(frozen=True, slots=True)
class Tenure:
    """A device's present holder."""

    holder: str | None
    """A workload's key, `None` where nobody holds it."""
    since: Nanoseconds
    """When the holder took the device, or the last one left it; 0 where that was not seen."""


@dataclass(frozen=True, slots=True)
class Roster:
    """Cases by their keys, with the devices that they need."""

    present: Mapping[str, tuple[str, ...]]
    """By key, the devices that it has now; a device that nobody holds is a key of its own."""
    ever: Mapping[str, tuple[HeldRow, ...]] = field(default_factory=dict)
    """By workload, all that it held."""

    def devices_of(self, key: str) -> tuple[str, ...]:
        """All the devices that a case looks at, former ones included."""
        former = {row.uuid for row in self.ever.get(key, ())}
        return tuple(dict.fromkeys((*self.present[key], *sorted(former))))


def roster_of(
    uuids: Iterable[str], rows: Sequence[HeldRow], now: Nanoseconds, gap: Nanoseconds
) -> Roster:
    """Who has which devices, by who was seen with them last.

    Args:
        uuids: The devices that are there now.
        rows: Who held devices, by device, in the order of time.
        now: Wall time.
        gap: How long before now a holder may have been seen last.
    """
    latest: dict[str, HeldRow] = {}
    ever: dict[str, list[HeldRow]] = {}
    for row in rows:
        ever.setdefault(row.workload, []).append(row)
        known = latest.get(row.uuid)
        if known is None or (row.end, row.share_ratio) > (known.end, known.share_ratio):
            latest[row.uuid] = row
    present: dict[str, list[str]] = {}
    for uuid in uuids:
        held = latest.get(uuid)
        is_held = held is not None and held.end + max(gap, held.grid.step) >= now
        present.setdefault(held.workload if held and is_held else uuid, []).append(uuid)
    return Roster(
        {key: tuple(found) for key, found in present.items()},
        {key: tuple(found) for key, found in ever.items()},
    )


def tenure_of(rows: Sequence[HeldRow], holder: str | None, days: Days, gap: Nanoseconds) -> Tenure:
    """Since when a device is as it is.

    A holder who was away for no longer than the gap never left, nor one that was not seen while
    nothing was known of the device.

    Args:
        rows: Who held the device, oldest first.
        holder: Who holds it now.
        days: What is known of the device.
        gap: How long a holder may be away.
    """
    if holder is None:
        return Tenure(None, max((row.end for row in rows), default=0))
    others = [row for row in rows if row.workload != holder]
    since: Nanoseconds | None = None
    for row in sorted((row for row in rows if row.workload == holder), key=_end, reverse=True):
        if since is None:
            since = row.start
            continue
        is_taken = any(
            other.end > row.end and other.start < since and other.share_ratio > row.share_ratio
            for other in others
        ) or any(row.end <= other.start and other.end <= since for other in others)
        is_away = since - row.end > max(gap, row.grid.step) and days.known_in(row.end, since) > 0
        if is_taken or is_away:
            break
        since = min(since, row.start)
    return Tenure(holder, since or 0)


def _end(row: HeldRow) -> Nanoseconds:
    return row.end
