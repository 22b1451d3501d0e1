"""Snapshots straight from the model, for spans that are too long to pass through a driver."""

from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.reading import Reading
from rightsizer.domain.snapshot import CollectorOutcome, Snapshot
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.workload import Holding
from rightsizer.telemetry.owners.holdings import holdings_of
from rightsizer.telemetry.simulated.counters import STEP
from rightsizer.telemetry.simulated.host import host_signals
from rightsizer.telemetry.simulated.node import Node
from rightsizer.telemetry.simulated.plan import Scenario
from rightsizer.telemetry.simulated.readings import Reader

__all__ = ["DEFAULT_START", "SimulatedSource"]

DEFAULT_START: Final[Nanoseconds] = 1_767_571_200 * NANOSECONDS_PER_SECOND
"""Monday, 2026-01-05, 00:00 UTC: a fixed day, so that two runs are the same."""


class SimulatedSource:
    """A simulated node whose clock runs as fast as it is read."""

    def __init__(
        self,
        scenario: Scenario,
        catalogue: Catalogue,
        *,
        start: Nanoseconds | None = None,
        interval: Nanoseconds,
        duration: Nanoseconds | None,
    ) -> None:
        """A source whose first snapshot is at the start.

        Args:
            scenario: What runs on the node.
            catalogue: Names the boards of the devices.
            start: Wall time of the first snapshot; `None` for a fixed Monday at midnight, UTC.
            interval: Time between two snapshots.
            duration: How long until there are no more; `None` for ever.
        """
        self.name = f"simulated ({scenario.name})"
        self._next = DEFAULT_START if start is None else start
        self._interval = interval
        self._end = None if duration is None else self._next + duration
        self._node = Node(scenario, catalogue, self._next, counter_step=max(STEP, interval))
        self._devices = self._node.devices
        self._readers = [
            Reader(self._node, self._node.unit(device.uuid)) for device in self._devices
        ]

    @property
    def node(self) -> Node:
        """The node, for whoever wants to compare with what is true."""
        return self._node

    def read(self) -> Snapshot | None:
        """The next snapshot; `None` when the duration is over."""
        time = self._next
        if self._end is not None and time >= self._end:
            return None
        self._next = time + self._interval
        readings = {
            reading.uuid: reading for reading in (reader.read(time) for reader in self._readers)
        }
        holdings = {uuid: self._holdings(reading) for uuid, reading in readings.items()}
        return Snapshot(
            wall_time=time,
            time=time,
            interval=self._interval,
            devices=self._devices,
            readings=readings,
            host=host_signals(self._node.host(time)),
            holdings={uuid: held for uuid, held in holdings.items() if held},
            collectors={"simulated": CollectorOutcome(success=True, duration_seconds=0.0)},
        )

    def close(self) -> None:
        """Nothing is held."""

    def _holdings(self, reading: Reading) -> tuple[Holding, ...]:
        return holdings_of(reading.processes or (), self._node)
