"""Live source: GPUs of this node through NVML, its host through procfs."""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.topology import TopologyFacts
from rightsizer.io.clock import Clock
from rightsizer.io.worker import Worker, attempt_all
from rightsizer.model.values import (
    CollectorOutcome,
    ConfigurationError,
    Device,
    Nanoseconds,
    Snapshot,
    format_duration,
    nanoseconds,
    seconds,
)
from rightsizer.telemetry.host_context import HostContextCollector, HostQuery
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.connection import NvmlConnection
from rightsizer.telemetry.nvml.device_pool import DevicePool
from rightsizer.telemetry.nvml.device_reader import PollResult
from rightsizer.telemetry.nvml.inventory import DeviceRegistry
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.nvml.xid_listener import OutageXids, XidListener
from rightsizer.telemetry.source import (
    ReleasableResource,
    ReleaseController,
    ReleaseRequest,
    SecondarySource,
)


class LiveSource:
    """Reads all devices once a tick, and never waits for one beyond its deadline.

    Only workers call the driver: whatever it does, `read` returns a snapshot with what is known,
    and why the rest is not.
    """

    def __init__(  # noqa: PLR0913 - all sources of a live node.
        self,
        *,
        clock: Clock,
        interval: Nanoseconds,
        settings: LiveSettings,
        catalogue: Catalogue,
        host_context: HostContextCollector,
        sysfs: Path,
        root: Path = Path("/"),
        secondary: Sequence[SecondarySource] = (),
        controls: ReleaseController | None = None,
    ) -> None:
        """Create the source; nothing is read before the first `read`.

        `root` is the file system that the driver's library sees, whatever `sysfs` shows.
        Later secondary sources see what earlier ones added.

        Raises:
            ConfigurationError: a disabled collector does not exist.
        """
        check_collectors(settings)
        self._clock = clock
        self._interval = interval
        self._settings = settings
        self._host_context = host_context
        self._secondary = tuple(secondary)
        self._controls = controls or ReleaseController(clock)
        self._connection = NvmlConnection(
            clock=clock, settings=settings, catalogue=catalogue, sysfs=sysfs, root=root
        )
        self._pool = DevicePool(
            clock=clock,
            settings=settings,
            sysfs=sysfs,
            counters_are_released=lambda: (
                self._controls.released(ReleasableResource.COUNTERS) is not None
            ),
        )
        self._xids = XidListener(clock=clock, settings=settings)
        self._registry = DeviceRegistry(nanoseconds(settings.lost_retention_seconds))
        self._outages = OutageXids()
        self._down: frozenset[str] = frozenset()

    def read(self) -> Snapshot:
        """Return the present snapshot of the node."""
        started = time.monotonic()
        deadline = started + self._settings.deadline_seconds
        released = self._apply(self._controls.released(ReleasableResource.GPUS))
        # Enumeration may take half of the deadline, readings get the rest.
        self._connection.advance(started + self._settings.deadline_seconds / 2)
        inventory = self._connection.inventory
        self._pool.set_inventory(inventory)
        self._xids.set_inventory(inventory)
        self._pool.start_rounds()
        self._xids.poll()
        rounds = self._pool.finish_rounds(deadline)
        snapshot = self._snapshot(rounds, deadline, released)
        self._recover(rounds)
        if snapshot.down.keys() != self._down:
            # A device that went down or came back hints at other changes.
            self._down = frozenset(snapshot.down)
            self._connection.retry_soon()
        self._connection.seek(are_missing=bool(self._registry.absent))
        return self._enriched(snapshot)

    def expect(self, devices: Iterable[Device]) -> None:
        """List devices known from before, as down until the driver offers them."""
        self._registry.expect(devices, self._clock.time())

    def forget(self, uuid: str) -> None:
        """Forget a device that is gone, from the next snapshots on; thread-safe."""
        self._registry.forget(uuid)
        for source in self._secondary:
            source.forget(uuid)

    def still_held(self, release: ReleaseRequest) -> str | None:
        """Return why a release is not complete yet, or `None` once everything is released."""
        if release.held is ReleasableResource.COUNTERS:
            held = self._pool.counters_held + self._pool.abandoned
            return f"threads that still hold profiling counters: {held}" if held else None
        if not self._connection.is_released:
            return "NVML is still open: a driver call is under way"
        hung = self._hung
        return f"{hung} threads hang in the driver and hold what they had" if hung else None

    def close(self) -> None:
        """End the workers and close NVML; hung threads are left behind."""
        deadline = time.monotonic() + self._settings.deadline_seconds
        parts = (self._xids, self._pool, self._connection, self._host_context)
        closing = [partial(part.close, deadline) for part in parts]
        attempt_all((*closing, *(source.close for source in self._secondary)))

    def _snapshot(
        self, rounds: Sequence[PollResult], deadline: float, released: str | None
    ) -> Snapshot:
        trouble = self._connection.trouble
        inventory = self._connection.inventory
        self._registry.update(
            inventory, trouble, self._clock.time(), self._connection.reason, self._connection.cause
        )
        readings = {uuid: reading for result in rounds for uuid, reading in result.readings.items()}
        down = dict(self._registry.absent)
        for poll_result in rounds:
            down.update(poll_result.down)
        down = self._outages.explained(down, self._xids.xids, self._clock.wall_time())
        process_lists = ((uuid, reading.processes) for uuid, reading in readings.items())
        processes = {
            uuid: process_list for uuid, process_list in process_lists if process_list is not None
        }
        topology = TopologyFacts() if inventory is None else inventory.topology
        query = HostQuery(self._registry.devices, processes, topology)
        context = self._host_context.collect(query, deadline)
        return Snapshot(
            wall_time=self._clock.wall_time(),
            time=self._clock.time(),
            interval=self._interval,
            devices=self._registry.devices,
            readings={
                uuid: reading.enriched(facts, "host")
                if (facts := context.devices.get(uuid))
                else reading
                for uuid, reading in readings.items()
            },
            down=down,
            host=context.node,
            holdings=context.holdings,
            collectors={
                **_outcomes(rounds),
                **context.collectors,
                **({} if self._xids.outcome is None else {"xid": self._xids.outcome}),
            },
            abandoned_workers=self._connection.abandoned + self._hung,
            slow=self._pool.slow(),
            topology=context.topology,
            xids=self._xids.xids,
            ports=context.ports,
            driver=inventory.versions if inventory is not None else {},
            released=released if self._connection.is_released else self._released_counters(),
            trouble=trouble,
        )

    def _enriched(self, snapshot: Snapshot) -> Snapshot:
        """Enrich the snapshot by secondary sources; a failed one adds nothing."""
        for source in self._secondary:
            try:
                snapshot = source.enrich(snapshot)
            except Exception as error:  # noqa: BLE001 - a secondary source must not fail a tick.
                failed = {type(source).__name__: CollectorOutcome(False, 0.0, repr(error))}
                snapshot = replace(snapshot, collectors={**snapshot.collectors, **failed})
        return snapshot

    def _apply(self, release: ReleaseRequest | None) -> str | None:
        """Release or resume NVML; return a description of what is released."""
        if release is None:
            self._connection.resume()
            return None
        reason = f"the GPUs were released{_until(release)}"
        self._pool.set_inventory(None)
        self._xids.set_inventory(None)
        self._connection.release(self._workers, reason)
        return reason

    @property
    def _workers(self) -> tuple[Worker[Any, Any], ...]:
        """Workers that may hold handles of an opening of NVML."""
        return (*self._pool.workers, self._xids.worker)

    @property
    def _hung(self) -> int:
        return sum(worker.abandoned for worker in self._workers)

    def _released_counters(self) -> str | None:
        release = self._controls.released(ReleasableResource.COUNTERS)
        return None if release is None else f"the profiling counters were released{_until(release)}"

    def _recover(self, rounds: Sequence[PollResult]) -> None:
        """Reopen NVML when the driver is gone, or answers with unknown errors for long."""
        gone = next((poll_result for poll_result in rounds if poll_result.driver_is_gone), None)
        # A driver that is gone is so for every GPU; if others are read, only this GPU is down.
        if gone is not None and not any(poll_result.readings for poll_result in rounds):
            reason = "; ".join(sorted({down.detail for down in gone.down.values()}))
        elif self._pool.is_unknown_for_long:
            reason = "the driver answers with unknown errors"
            if not self._connection.may_reopen:
                return  # The other devices are read meanwhile.
        else:
            if any(poll_result.readings for poll_result in rounds):
                self._connection.confirm(
                    all_respond=not any(poll_result.is_unknown for poll_result in rounds)
                )
            return
        self._pool.set_inventory(None)
        self._xids.set_inventory(None)
        self._connection.reopen(self._workers, f"NVML is being opened again: {reason}")


def _until(release: ReleaseRequest) -> str:
    if release.until is None:
        return " until 'rightsizer resume'"
    return f" for {format_duration(seconds(max(0, release.until - release.since)))}"


def check_collectors(settings: LiveSettings) -> None:
    """Raise `ConfigurationError` if a disabled collector does not exist."""
    names = [collector.name for collector in COLLECTORS]
    for name in settings.disabled_collectors:
        if name not in names:
            raise ConfigurationError(
                f"disabled_collectors: there is no collector '{name}'; "
                f"choose from {', '.join(names)}"
            )


def _outcomes(rounds: Iterable[PollResult]) -> Mapping[str, CollectorOutcome]:
    """Merge outcomes over all devices: success on each of them, and total time."""
    outcomes: dict[str, CollectorOutcome] = {}
    for poll_result in rounds:
        for name, collector in poll_result.collectors.items():
            success, taken, failure, _ = outcomes.get(name, (True, 0.0, None, None))
            outcomes[name] = CollectorOutcome(
                success and collector.success,
                taken + collector.duration_seconds,
                failure or collector.failure,
            )
    return outcomes
