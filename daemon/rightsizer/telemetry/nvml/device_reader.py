"""All the readings of one GPU and its MIG instances, taken by one thread at a time."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from rightsizer.host.pcie import is_asleep, kernel_address
from rightsizer.io.clock import Clock
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.snapshot import CollectorOutcome, Down
from rightsizer.model.units import Nanoseconds, nanoseconds
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
_NOT_ASKED: Final = NvmlFailure(
    Missing.NO_SAMPLE, "the driver", "it is slow, and was not asked yet"
)
_TOO_OLD: Final = NvmlFailure(Missing.STALE, "the driver", "it is slow, and was not asked for long")
_SETTLING: Final = NvmlFailure(Missing.NO_SAMPLE, "nvmlInit", "the GPU was woken up just now")
_MILDNESS: Final = {Missing.NO_SAMPLE: 1, Missing.RELEASED: 1, Missing.NOT_SUPPORTED: 2}
"""How little a reason tells of a device that gives nothing; the others tell more."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one round of a GPU's collectors brought."""

    readings: Mapping[str, Reading]
    down: Mapping[str, Down]
    collectors: Mapping[str, CollectorOutcome]
    driver_is_gone: bool = False
    is_unknown: bool = False
    holds_counters: bool = True
    """Whether the driver still lends it what a profiler may need."""
    duration_seconds: float = 0.0
    postponed: frozenset[str] = frozenset()
    """The collectors that were due and had to wait, by name, since the driver is slow."""


@dataclass(slots=True)
class _PollProgress:
    """What accumulates over a round."""

    readings: dict[str, Reading] = field(default_factory=dict)
    down: dict[str, Down] = field(default_factory=dict)
    outcomes: dict[str, CollectorOutcome] = field(default_factory=dict)
    """By collector: whether it succeeded on each device, and the seconds on all."""
    failures: list[NvmlFailure] = field(default_factory=list)
    postponed: set[str] = field(default_factory=set)

    def add(self, items: Iterable[ScheduledCollector]) -> None:
        """Add what collectors took and whether they failed, where there is something to tell."""
        for item in items:
            if item.has_outcome:
                name = item.collector.part_of or item.collector.name
                success, seconds = self.outcomes.get(name, (True, 0.0))
                self.outcomes[name] = CollectorOutcome(
                    success and not item.has_failed, seconds + item.seconds
                )


class DeviceReader:
    """The collectors of one GPU at work; one thread at a time enters, reads and leaves it."""

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
        """The collector at work; another thread reads it to say which one hangs."""
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
                DeviceHandle(target, library=self.library, clock=clock, settings=settings)
            )
            for target in gpu.targets
        ]
        self._waiting = [item for collectors in self._devices for item in collectors.waiting]

    def read(self) -> PollResult:
        """Ask every collector that is due; a GPU that is asleep is left so."""
        if self._folder is not None and is_asleep(self._folder):
            uuids = (target.device.uuid for target in self._gpu.targets)
            return PollResult({}, dict.fromkeys(uuids, _ASLEEP), {}, holds_counters=False)
        if self._settled is None:
            settling = 0.0 if self._gpu.is_persistent else self._settings.settling_seconds
            self._settled = self._clock.time() + nanoseconds(settling)
        self._started = time.perf_counter()
        progress = _PollProgress()
        # Half of the deadline is left for what takes longer.
        left_seconds = self._settings.deadline_seconds / 2 - self._essential_seconds
        for item in schedule(self._waiting, left_seconds, self._clock.time()):
            progress.postponed.add(item.collector.name)
        self._essential_seconds = 0.0
        self._counters_are_free = self._counters_are_released()
        for collectors in self._devices:
            self._read(collectors, progress)
        return PollResult(
            progress.readings,
            progress.down,
            progress.outcomes,
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

    def _read(self, collectors: DeviceCollectors, progress: _PollProgress) -> None:
        device = collectors.handle.target.device
        lost = progress.down.get(device.mig.parent_uuid) if device.mig else None
        if lost is not None and lost.reason is Missing.LOST:
            progress.down[device.uuid] = lost
            return
        builder = ReadingBuilder()
        time_read = self._read_fast(collectors, builder, progress)
        # A device that gives nothing is not kept alive by what it gave before.
        if builder.values and builder.lost is None:
            self._read_slowly(collectors, builder, progress)
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

    def _read_fast(
        self, collectors: DeviceCollectors, builder: ReadingBuilder, progress: _PollProgress
    ) -> Nanoseconds:
        """Ask what is asked every round; when the essential was there."""
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

    def _read_slowly(
        self, collectors: DeviceCollectors, builder: ReadingBuilder, progress: _PollProgress
    ) -> None:
        """Add what the slow collectors find now, or found last; it holds until they are due."""
        due = [item for item in collectors.slow if item.is_scheduled]
        if due:
            slow = ReadingBuilder()
            self._collect_all(collectors, collectors.slow, slow, progress, collectors.slow_builder)
            now, interval = self._clock.time(), nanoseconds(self._settings.slow_interval_seconds)
            # Devices take turns, so that no tick has all the slow reads.
            is_first = collectors.slow_builder is None
            turn = collectors.handle.target.device.index % _TURNS if is_first else 0
            for item in due:
                if item.is_scheduled:
                    item.due = now + interval + turn * interval // _TURNS
            collectors.slow_builder = slow
        if collectors.slow_builder is None:
            return
        builder.adopt(collectors.slow_builder)
        progress.add(collectors.slow)
        builder.lost = collectors.slow_builder.lost
        if builder.lost is not None:
            # What a lost device did not tell is asked for as soon as it is back.
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
            if not collector.is_slow:  # Those are told of in each round.
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
                self._hold(item, builder, last)
            if builder.lost is not None:
                break
        progress.add(counted)
        self.collecting = None

    def _has_time_for(self, item: ScheduledCollector, progress: _PollProgress) -> bool:
        """Whether a collector is asked in this round; the essential always is."""
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
        builder.troubled = False
        self.collecting = collector.part_of or collector.name
        builder.collecting = collector.name
        try:
            collector.read(handle, builder)
        except Exception as error:  # noqa: BLE001 - a fault of one collector costs its signals alone.
            failure = NvmlFailure(Missing.FAILED, collector.name, repr(error))
            builder.fail_all(collector.signals, failure)
        item.asked(self._clock.time(), time.perf_counter() - started)
        # Where the device has none of the signals, nothing was asked.
        item.has_outcome = builder.has_any(collector.signals)
        item.has_failed = builder.troubled

    def _hold(
        self, item: ScheduledCollector, builder: ReadingBuilder, last: ReadingBuilder | None
    ) -> None:
        """What a collector gave the last time it was asked, for two of its intervals at most."""
        collector, interval = item.collector, nanoseconds(self._settings.slow_interval_seconds)
        if item.asked_at is None or last is None:
            builder.fail_all(collector.signals, _NOT_ASKED)
        elif self._clock.time() - item.asked_at > 2 * max(interval, item.period):
            builder.fail_all(collector.signals, _TOO_OLD)
        else:
            builder.keep(collector.name, collector.signals, collector.tells, last)


def _down(builder: ReadingBuilder) -> Down:
    """Why a device gave nothing: that it is lost, else the gravest of its failures."""
    failures = [builder.lost] if builder.lost else list(builder.failures.values())
    if not failures:
        return Down(Missing.NOT_READ, "every collector is disabled")
    gravest = min(failures, key=lambda failure: _MILDNESS.get(failure.reason, 0))
    return Down(gravest.reason, str(gravest))
