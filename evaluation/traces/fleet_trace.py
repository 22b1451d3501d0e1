"""A fleet's recorded duty cycles: as plain rows, and through the accounts of the product."""

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.model.window import Window
from rightsizer.model.workload import Holding, Workload
from rightsizer.recordings.source import open_recording

DUTY: Final = "gpu_duty_cycle_pct.csv.gz"
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
BUSY_RATIO: Final = 0.01
"""Mean duty of a row from which on a pod was busy (docs/definitions.md, sources)."""
_MAP: Final = Path(__file__).parents[2] / "config" / "columns" / "alibaba-genai-2026.yaml"


class Pod(Struct, frozen=True):
    """One pod's rows."""

    name: str
    times: tuple[Nanoseconds, ...]
    """Ascending."""
    duties: tuple[float, ...]
    """Busy shares, 0 to 1."""

    @property
    def are_busy(self) -> tuple[bool, ...]:
        """Whether the pod was busy at each row."""
        return tuple(duty >= BUSY_RATIO for duty in self.duties)


class Fleet(Struct, frozen=True):
    """A service that holds some pods while they are there; others are not looked at."""

    workload: Workload
    names: frozenset[str]

    def seen_in(self, snapshot: Snapshot) -> Snapshot:
        """Snapshot of a node with these pods at a time; a pod without a row is not held."""
        readings = {
            uuid: reading for uuid, reading in snapshot.readings.items() if uuid in self.names
        }
        return replace(
            snapshot,
            devices=tuple(device for device in snapshot.devices if device.uuid in self.names),
            readings=readings,
            holdings=dict.fromkeys(readings, (Holding(self.workload, 1.0),)),
        )


def pods(folder: Path) -> Iterator[Pod]:
    """The pods one by one; only one is held, for the file is sorted by pod and time."""
    with gzip.open(folder / DUTY, "rt", encoding="utf-8", newline="") as file:
        for name, rows in groupby(csv.DictReader(file), key=itemgetter("pod")):
            values = [
                (nanoseconds(float(row["timestamp_s"])), float(row["value"]) / 100) for row in rows
            ]
            yield Pod(name, tuple(time for time, _ in values), tuple(duty for _, duty in values))


def closed_windows(folder: Path) -> Iterator[Sequence[Window]]:
    """The five-minute windows that the accounts close, moment by moment."""
    accounts = NodeAccounts()
    for snapshot in _moments(folder):
        accounts.post(snapshot)
        if closed := accounts.drain_closed():
            yield closed


def accounts_of(folder: Path, fleet: Fleet, days: int = 1) -> NodeAccounts:
    """The accounts of a fleet's trace, as if its day had come so many times."""
    accounts = NodeAccounts()
    for day in range(days):
        for snapshot in _moments(folder):
            seen = fleet.seen_in(snapshot)
            if seen.readings:
                accounts.post(_later(seen, day * _DAY))
                accounts.drain_closed()
    return accounts


def _moments(folder: Path) -> Iterator[Snapshot]:
    with closing(open_recording([folder / DUTY], catalogue=built_in(), columns=_MAP)) as source:
        while (snapshot := source.read()) is not None:
            yield snapshot


def _later(snapshot: Snapshot, time: Nanoseconds) -> Snapshot:
    return replace(
        snapshot,
        wall_time=snapshot.wall_time + time,
        time=snapshot.time + time,
        readings={
            uuid: replace(reading, time=reading.time + time)
            for uuid, reading in snapshot.readings.items()
        },
    )
