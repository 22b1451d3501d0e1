"""The live source: the GPUs of this node through NVML, its host through procfs."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.errors import ConfigurationError
from rightsizer.domain.reading import Reading
from rightsizer.domain.snapshot import CollectorOutcome, Down, Snapshot
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.domain.workload import Holding
from rightsizer.edge.clock import Clock
from rightsizer.telemetry.host import Host
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.connection import Connection
from rightsizer.telemetry.nvml.roster import Roster
from rightsizer.telemetry.nvml.session import Round
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.nvml.stations import Stations
from rightsizer.telemetry.owners.holdings import holdings_of
from rightsizer.telemetry.owners.owner import Owners

__all__ = ["LiveSettings", "LiveSource"]

_NOTHING: Final = CollectorOutcome(success=True, duration_seconds=0.0)


class LiveSource:
    """Reads all devices once a tick and never waits for one beyond its deadline.

    The driver is called by workers alone; whatever it does, `read` returns a snapshot that says
    what is known and why the rest is not.
    """

    name = "nvml"

    def __init__(  # noqa: PLR0913 - everything that a live node is read through.
        self,
        *,
        clock: Clock,
        interval: Nanoseconds,
        settings: LiveSettings,
        catalogue: Catalogue,
        owners: Owners,
        host: Host,
        sysfs: Path,
    ) -> None:
        """Asks nothing before the first `read`.

        Raises:
            ConfigurationError: a collector that is disabled does not exist.
        """
        _check(settings)
        self._clock = clock
        self._interval = interval
        self._settings = settings
        self._owners = owners
        self._host = host
        self._connection = Connection(
            clock=clock, settings=settings, catalogue=catalogue, sysfs=sysfs
        )
        self._stations = Stations(clock=clock, settings=settings)
        self._roster = Roster(nanoseconds(settings.lost_retention_seconds))
        self._down: frozenset[str] = frozenset()

    def read(self) -> Snapshot:
        """The node as it is now."""
        started = time.monotonic()
        patience = self._settings.deadline_seconds
        # The first look at the driver may take half of the time, the readings the rest.
        self._connection.advance(started + patience / 2)
        self._stations.follow(self._connection.inventory)
        self._stations.ask()
        node = self._host.node()
        rounds = self._stations.answers(started + patience)
        trouble = self._connection.trouble
        self._roster.update(self._connection.inventory, trouble, self._clock.time())
        readings = {uuid: reading for found in rounds for uuid, reading in found.readings.items()}
        down = dict(self._roster.absent)
        for found in rounds:
            down.update(found.down)
        self._recover(rounds)
        self._look_at_changes(down)
        return Snapshot(
            wall_time=self._clock.wall_time(),
            time=self._clock.time(),
            interval=self._interval,
            devices=self._roster.devices,
            readings={uuid: self._with_host(reading) for uuid, reading in readings.items()},
            down=down,
            host=node,
            holdings=self._holdings(readings),
            collectors=_outcomes(rounds),
            abandoned_workers=self._stations.abandoned,
            trouble=trouble,
        )

    def close(self) -> None:
        """End the workers and close NVML; what hangs is left behind."""
        deadline = time.monotonic() + self._settings.deadline_seconds
        self._stations.close(deadline)
        self._connection.close(deadline)

    def _recover(self, rounds: Iterable[Round]) -> None:
        """Open NVML again when it has lost its driver or no longer knows what it says."""
        gone = next((found for found in rounds if found.driver_is_gone), None)
        if gone is not None:
            reason = "; ".join(sorted({down.detail for down in gone.down.values()}))
        elif self._stations.is_unknown_for_long:
            reason = "the driver answers with unknown errors"
            if not self._connection.may_reopen:
                return  # The other devices are read meanwhile.
        else:
            if any(found.readings for found in rounds) and not any(
                found.is_unknown for found in rounds
            ):
                self._connection.confirm()
            return
        self._stations.follow(None)
        self._connection.reopen(self._stations.workers, f"NVML is being opened again: {reason}")

    def _look_at_changes(self, down: Mapping[str, Down]) -> None:
        """A device that went down or came back may mean that others changed too."""
        if down.keys() != self._down:
            self._down = frozenset(down)
            self._connection.look_soon()

    def _with_host(self, reading: Reading) -> Reading:
        """The reading, with the host's signals of whoever holds the device."""
        if not reading.processes:
            return reading
        host = self._host.owner([process.pid for process in reading.processes])
        return replace(reading, values={**reading.values, **host}) if host else reading

    def _holdings(self, readings: Mapping[str, Reading]) -> Mapping[str, tuple[Holding, ...]]:
        holdings: dict[str, tuple[Holding, ...]] = {}
        for uuid, reading in readings.items():
            found = holdings_of(reading.processes or (), self._owners)
            if found:
                holdings[uuid] = found
        return holdings


def _check(settings: LiveSettings) -> None:
    known = [collector.name for collector in COLLECTORS]
    for name in settings.disabled_collectors:
        if name not in known:
            raise ConfigurationError(
                f"disabled_collectors: there is no collector '{name}'; "
                f"choose from {', '.join(known)}"
            )


def _outcomes(rounds: Iterable[Round]) -> Mapping[str, CollectorOutcome]:
    """Each collector over all devices: successful if it was on each, with the time of all."""
    outcomes: dict[str, CollectorOutcome] = {}
    for found in rounds:
        for name, outcome in found.collectors.items():
            other = outcomes.get(name, _NOTHING)
            outcomes[name] = CollectorOutcome(
                outcome.success and other.success,
                outcome.duration_seconds + other.duration_seconds,
            )
    return outcomes
