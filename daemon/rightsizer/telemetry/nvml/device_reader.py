"""Reader of one GPU and its MIG instances, used by one thread at a time."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from rightsizer.host.pcie import is_asleep, kernel_address
from rightsizer.io.clock import Clock
from rightsizer.model.values import (
    CollectorOutcome,
    Device,
    Down,
    Missing,
    Nanoseconds,
    Reading,
    nanoseconds,
)
from rightsizer.telemetry.nvml.collectors.processes import is_in_use
from rightsizer.telemetry.nvml.device_collectors import (
    DeviceCollectors,
    ScheduledCollector,
    schedule,
)
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.inventory import Gpu
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder
from rightsizer.telemetry.nvml.settings import LiveSettings

_TURNS: Final = 16
_ASLEEP: Final = Down(Missing.SUSPENDED, "the kernel has put the GPU to sleep")
_NOT_RUN: Final = NvmlFailure(Missing.NO_SAMPLE, "the driver", "it is slow, and was not asked yet")
_TOO_OLD: Final = NvmlFailure(Missing.STALE, "the driver", "it is slow, and was not asked for long")
_SETTLING: Final = NvmlFailure(Missing.NO_SAMPLE, "nvmlInit", "the GPU was woken up just now")
_MILDNESS: Final = {Missing.NO_SAMPLE: 1, Missing.RELEASED: 1, Missing.NOT_SUPPORTED: 2}
"""Rank of failure reasons by how little they explain a dead device; others rank first."""


class PollResult(Struct, frozen=True):
    """Result of one round of a GPU's collectors."""

    readings: Mapping[str, Reading]
    down: Mapping[str, Down]
    collectors: Mapping[str, CollectorOutcome]
    driver_is_gone: bool = False
    is_unknown: bool = False
    holds_counters: bool = True
    """Whether the driver may still hold what a profiler needs."""
    duration_seconds: float = 0.0
    postponed: frozenset[str] = frozenset()
    """Names of collectors that were due but postponed, because the driver is slow."""


@dataclass(slots=True)
class _PollProgress:
    """Accumulator of one round."""

    readings: dict[str, Reading] = field(default_factory=dict)
    down: dict[str, Down] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """By reported collector, over all devices."""
    troubles: dict[str, str] = field(default_factory=dict)
    """First trouble of each reported collector that had one."""
    failures: list[NvmlFailure] = field(default_factory=list)
    postponed: set[str] = field(default_factory=set)

    def add(self, items: Iterable[ScheduledCollector], device: Device) -> None:
        """Add times and troubles of collectors that have an outcome."""
        seconds = self.seconds
        for item in items:
            if item.has_outcome:
                name = item.reported_name
                seconds[name] = seconds.get(name, 0.0) + item.seconds
                if item.trouble is not None:
                    self.troubles.setdefault(name, f"{device.title}: {item.trouble}")

    def outcomes(self) -> dict[str, CollectorOutcome]:
        """Success on all devices and total time, by reported collector."""
        troubles = self.troubles
        tells = not self.down
        return {
            name: CollectorOutcome(
                name not in troubles, taken, troubles.get(name) if tells else None
            )
            for name, taken in self.seconds.items()
        }


class DeviceReader:
    """Collectors of one GPU; one thread at a time enters, reads and leaves."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        clock: Clock,
        settings: LiveSettings,
        sysfs: Path = Path("/sys"),
        counters_are_released: Callable[[], bool] = lambda: False,
    ) -> None:
        self.library = NvmlLibrary()
        self.collecting: str | None = None
        """Running collector; read by another thread to report which one hangs."""
        self._gpu = gpu
        self._settled: Nanoseconds | None = None
        self._clock = clock
        self._settings = settings
        self._counters_are_released = counters_are_released
        self._counters_are_free = False
        self._started = 0.0
        self._essential_seconds = 0.0
        address = kernel_address(gpu.whole.device.pci_bus_id)
        folder = sysfs / "bus/pci/devices" / (address or "")
        self._folder = folder if address is not None and folder.exists() else None
        self._devices = [
            DeviceCollectors.of(
                DeviceHandle(
                    target, library=self.library, clock=clock, settings=settings, sysfs=sysfs
                )
            )
            for target in gpu.targets
        ]
        self._postponable = [
            item
            for collectors in self._devices
            for item in (*collectors.optional, *collectors.slow)
        ]

    def read(self) -> PollResult:
        """Run all collectors that are due; a GPU asleep is not woken."""
        if self._folder is not None and is_asleep(self._folder):
            uuids = (target.device.uuid for target in self._gpu.targets)
            return PollResult({}, dict.fromkeys(uuids, _ASLEEP), {}, holds_counters=False)
        if self._settled is None:
            self._settled = self._clock.time() + self._settling_time()
        self._started = time.perf_counter()
        progress = _PollProgress()
        # Half of the deadline is left for calls that take longer than before.
        left_seconds = self._settings.deadline_seconds / 2 - self._essential_seconds
        for item in schedule(self._postponable, left_seconds, self._clock.time()):
            progress.postponed.add(item.collector.name)
        self._essential_seconds = 0.0
        self._counters_are_free = self._counters_are_released()
        for collectors in self._devices:
            self._read(collectors, progress)
        return PollResult(
            progress.readings,
            progress.down,
            progress.outcomes(),
            driver_is_gone=any(failure.driver_is_gone for failure in progress.failures),
            is_unknown=not progress.readings
            and any(failure.is_unknown for failure in progress.failures),
            holds_counters=not self._counters_are_free,
            duration_seconds=time.perf_counter() - self._started,
            postponed=frozenset(progress.postponed),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for collectors in self._devices:
            collectors.handle.close()

    def _settling_time(self) -> Nanoseconds:
        """How long readings tell of waking up; a GPU in use was awake before."""
        if self._gpu.is_persistent or is_in_use(self._devices[0].handle):
            return 0
        return nanoseconds(self._settings.settling_seconds)

    def _read(self, collectors: DeviceCollectors, progress: _PollProgress) -> None:
        device = collectors.handle.target.device
        lost = progress.down.get(device.mig.parent_uuid) if device.mig else None
        if lost is not None and lost.reason is Missing.LOST:
            progress.down[device.uuid] = lost
            return
        builder = ReadingBuilder()
        time_read = self._read_every_round(collectors, builder, progress)
        # A device without values counts as down, so old ones must not be added.
        if builder.values and builder.lost is None:
            self._read_at_slow_interval(collectors, builder, progress)
        collectors.last = builder
        progress.failures.extend(builder.failures.values())
        if builder.lost is not None:
            progress.failures.append(builder.lost)
        if builder.lost is not None or not builder.values:
            progress.down[device.uuid] = _down(builder)
            return
        for signal, failure in collectors.absent.items():
            builder.failures.setdefault(signal, failure)
        progress.readings[device.uuid] = builder.reading(device.uuid, time_read)

    def _read_every_round(
        self, collectors: DeviceCollectors, builder: ReadingBuilder, progress: _PollProgress
    ) -> Nanoseconds:
        """Run the collectors of every round; return the time of the essential readings."""
        started = time.perf_counter()
        # One call for the fields of all collectors that are due.
        self.collecting = "fields"
        collectors.handle.fetch_fields(collectors.due_fields())
        self._collect_all(collectors, collectors.essential, builder, progress, collectors.last)
        self._essential_seconds += time.perf_counter() - started
        time_read = self._clock.time()
        if builder.lost is None:
            self._collect_all(collectors, collectors.optional, builder, progress, collectors.last)
        return time_read

    def _read_at_slow_interval(
        self, collectors: DeviceCollectors, builder: ReadingBuilder, progress: _PollProgress
    ) -> None:
        """Run the slow collectors that are due, and add their last results."""
        due = [item for item in collectors.slow if item.is_scheduled]
        if due:
            slow = ReadingBuilder()
            self._collect_all(collectors, collectors.slow, slow, progress, collectors.slow_builder)
            now = self._clock.time()
            interval = nanoseconds(self._settings.slow_interval_seconds)
            # Staggered by device, so that no tick has all slow reads.
            is_first = collectors.slow_builder is None
            turn = collectors.handle.target.device.index % _TURNS if is_first else 0
            for item in due:
                if item.is_scheduled:
                    item.due = now + interval + turn * interval // _TURNS
            collectors.slow_builder = slow
        if collectors.slow_builder is None:
            return
        builder.add_missing(collectors.slow_builder)
        progress.add(collectors.slow, collectors.handle.target.device)
        builder.lost = collectors.slow_builder.lost
        if builder.lost is not None:
            # Read everything again as soon as a lost device is back.
            collectors.slow_builder = None
            for item in collectors.slow:
                item.due = 0

    def _collect_all(
        self,
        collectors: DeviceCollectors,
        items: Sequence[ScheduledCollector],
        builder: ReadingBuilder,
        progress: _PollProgress,
        last: ReadingBuilder | None,
    ) -> None:
        is_settled = self._settled is not None and self._clock.time() >= self._settled
        counted = []
        for item in items:
            collector = item.collector
            if not collector.is_slow:  # Slow ones are added in each round.
                counted.append(item)
            if collector.settles and not is_settled:
                item.has_outcome = False
                builder.fail_all(collector.signals, _SETTLING)
            elif collector.release is not None and self._counters_are_free:
                item.has_outcome = False
                collector.release(collectors.handle, builder)
            elif self._has_time_for(item, progress):
                self._collect(item, collectors.handle, builder)
            else:
                self._keep_last(item, builder, last)
            if builder.lost is not None:
                break
        progress.add(counted, collectors.handle.target.device)
        self.collecting = None

    def _has_time_for(self, item: ScheduledCollector, progress: _PollProgress) -> bool:
        """Whether a collector runs in this round; essential ones always do."""
        if item.collector.is_essential or item.ignores_budget:
            return True
        if not item.is_scheduled:
            return False
        if time.perf_counter() - self._started <= self._settings.deadline_seconds:
            return True
        item.is_scheduled = False
        progress.postponed.add(item.collector.name)
        return False

    def _collect(
        self, item: ScheduledCollector, handle: DeviceHandle, builder: ReadingBuilder
    ) -> None:
        collector = item.collector
        started = time.perf_counter()
        builder.trouble = None
        self.collecting = item.reported_name
        builder.collecting = collector.name
        try:
            collector.read(handle, builder)
        except Exception as error:  # noqa: BLE001 - a fault of one collector costs its signals alone.
            failure = NvmlFailure(Missing.FAILED, collector.name, repr(error))
            builder.fail_all(collector.signals, failure)
        item.record_run(self._clock.time(), time.perf_counter() - started)
        # A device without any of the signals made no call.
        item.has_outcome = builder.has_any(collector.signals)
        item.trouble = builder.trouble

    def _keep_last(
        self, item: ScheduledCollector, builder: ReadingBuilder, last: ReadingBuilder | None
    ) -> None:
        """Keep a collector's last result, for at most two of its intervals."""
        collector = item.collector
        interval = nanoseconds(self._settings.slow_interval_seconds)
        if item.run_at is None or last is None:
            builder.fail_all(collector.signals, _NOT_RUN)
        elif self._clock.time() - item.run_at > 2 * max(interval, item.period):
            builder.fail_all(collector.signals, _TOO_OLD)
        else:
            builder.keep_results(collector.name, collector.signals, collector.attributes, last)


def _down(builder: ReadingBuilder) -> Down:
    """Return why a device gave nothing: that it is lost, else its gravest failure."""
    failures = [builder.lost] if builder.lost else list(builder.failures.values())
    if not failures:
        return Down(Missing.NOT_READ, "every collector is disabled")
    gravest = min(failures, key=lambda failure: _MILDNESS.get(failure.reason, 0))
    return gravest.down
