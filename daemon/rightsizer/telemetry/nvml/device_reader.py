"""All the readings of one GPU and its MIG instances, taken by the one thread that owns them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from rightsizer.host.pcie import is_asleep, kernel_address
from rightsizer.io.clock import Clock
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.snapshot import CollectorOutcome, Down
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.device_collectors import (
    DeviceCollectors,
    PollOutcomes,
    ScheduledCollector,
    schedule,
)
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.inventory import DeviceTarget, Gpu
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder
from rightsizer.telemetry.nvml.settings import LiveSettings


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one round of a GPU's collectors brought."""

    readings: Mapping[str, Reading]
    down: Mapping[str, Down]
    collectors: Mapping[str, CollectorOutcome]
    driver_is_gone: bool = False
    is_unknown: bool = False
    """Whether the GPU gave nothing but unknown errors."""
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
    outcomes: PollOutcomes = field(default_factory=PollOutcomes)
    failures: list[NvmlFailure] = field(default_factory=list)
    postponed: set[str] = field(default_factory=set)


class DeviceReader:
    """The collectors of one GPU at work; enter and leave it on the thread that reads."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        clock: Clock,
        settings: LiveSettings,
        sysfs: Path = Path("/sys"),
        counters_are_released: Callable[[], bool] = lambda: False,
    ) -> None:
        """Asks the driver for nothing yet.

        Args:
            gpu: Whom to read.
            clock: Tells when slow collectors are due.
            settings: How patiently, and for what.
            sysfs: Where the kernel says whether it has put the GPU to sleep.
            counters_are_released: Whether a profiler needs the counters now.
        """
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
        self._subjects = [self._subject(target) for target in gpu.targets]
        self._waiting = [item for subject in self._subjects for item in subject.waiting]

    def read(self) -> PollResult:
        """Ask every collector that is due; a GPU that is asleep is left so."""
        if self._folder is not None and is_asleep(self._folder):
            uuids = (target.device.uuid for target in self._gpu.targets)
            return PollResult({}, dict.fromkeys(uuids, _ASLEEP), {}, holds_counters=False)
        if self._settled is None:
            settling = 0.0 if self._gpu.is_persistent else self._settings.settling_seconds
            self._settled = self._clock.time() + nanoseconds(settling)
        self._started = time.perf_counter()
        tally = _PollProgress()
        self._plan(tally)
        self._counters_are_free = self._counters_are_released()
        for subject in self._subjects:
            self._read(subject, tally)
        outcomes = {
            name: CollectorOutcome(name not in tally.outcomes.failed, duration)
            for name, duration in tally.outcomes.seconds.items()
        }
        return PollResult(
            tally.readings,
            tally.down,
            outcomes,
            driver_is_gone=any(failure.driver_is_gone for failure in tally.failures),
            is_unknown=not tally.readings and any(failure.is_unknown for failure in tally.failures),
            holds_counters=not self._counters_are_free,
            duration_seconds=time.perf_counter() - self._started,
            postponed=frozenset(tally.postponed),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for subject in self._subjects:
            subject.handle.close()

    def _subject(self, target: DeviceTarget) -> DeviceCollectors:
        return DeviceCollectors.of(
            DeviceHandle(target, library=self.library, clock=self._clock, settings=self._settings)
        )

    def _plan(self, tally: _PollProgress) -> None:
        """Choose what this round asks; half of the deadline is left for what takes longer."""
        left_seconds = self._settings.deadline_seconds / 2 - self._essential_seconds
        for item in schedule(self._waiting, left_seconds, self._clock.time()):
            tally.postponed.add(item.collector.name)
        self._essential_seconds = 0.0

    def _read(self, subject: DeviceCollectors, tally: _PollProgress) -> None:
        device = subject.handle.target.device
        lost = tally.down.get(device.mig.parent_uuid) if device.mig else None
        if lost is not None and lost.reason is Missing.LOST:
            tally.down[device.uuid] = lost
            return
        builder = ReadingBuilder()
        time_read = self._read_fast(subject, builder, tally)
        # A device that gives nothing is not kept alive by what it gave before.
        if builder.values and builder.lost is None:
            self._read_slowly(subject, builder, tally)
        subject.last = builder
        tally.failures.extend(builder.failures.values())
        if builder.lost is not None:
            tally.failures.append(builder.lost)
        if builder.lost is not None or not builder.values:
            tally.down[device.uuid] = _down(builder)
            return
        for signal, failure in subject.absent.items():
            builder.failures.setdefault(signal, failure)
        tally.readings[device.uuid] = builder.reading(device.uuid, time_read)

    def _read_fast(
        self, subject: DeviceCollectors, builder: ReadingBuilder, tally: _PollProgress
    ) -> Nanoseconds:
        """Ask what is asked every round; when the essential was there."""
        started = time.perf_counter()
        # One call for the fields of all collectors that are due.
        self.collecting = "fields"
        subject.handle.fetch_fields([key for found in subject.due() for key in found.fields])
        self._collect_all(subject, subject.essential, builder, tally, subject.last)
        self._essential_seconds += time.perf_counter() - started
        time_read = self._clock.time()
        if builder.lost is None:
            self._collect_all(subject, subject.optional, builder, tally, subject.last)
        return time_read

    def _read_slowly(
        self, subject: DeviceCollectors, builder: ReadingBuilder, tally: _PollProgress
    ) -> None:
        """Add what the slow collectors find now, or found last; it holds until they are due."""
        due = [item for item in subject.slow if item.is_scheduled]
        if due:
            slow = ReadingBuilder()
            self._collect_all(subject, subject.slow, slow, tally, subject.slow_builder)
            self._put_off(subject, due)
            subject.slow_builder = slow
        if subject.slow_builder is None:
            return
        builder.adopt(subject.slow_builder)
        for item in subject.slow:
            tally.outcomes.add(item)
        builder.lost = subject.slow_builder.lost
        if builder.lost is not None:
            # What a lost device did not tell is asked for as soon as it is back.
            subject.slow_builder = None
            for item in subject.slow:
                item.due = 0

    def _put_off(self, subject: DeviceCollectors, asked: Sequence[ScheduledCollector]) -> None:
        """Have slow collectors that were asked wait for their interval."""
        now, interval = self._clock.time(), nanoseconds(self._settings.slow_interval_seconds)
        # Devices take turns, so that no tick has all the slow reads.
        turn = subject.handle.target.device.index % _TURNS if subject.slow_builder is None else 0
        for item in asked:
            if item.is_scheduled:
                item.due = now + interval + turn * interval // _TURNS

    def _collect_all(
        self,
        subject: DeviceCollectors,
        items: Sequence[ScheduledCollector],
        builder: ReadingBuilder,
        tally: _PollProgress,
        last: ReadingBuilder | None,
    ) -> None:
        is_settled = self._settled is not None and self._clock.time() >= self._settled
        for item in items:
            collector = item.collector
            if collector.settles and not is_settled:
                item.has_outcome = False
                _miss(collector, _SETTLING, builder)
            elif collector.release is not None and self._counters_are_free:
                item.has_outcome = False
                collector.release(subject.handle, builder)
            elif self._has_time_for(item, tally):
                self._collect(item, subject.handle, builder)
            else:
                self._hold(item, builder, last)
            if not collector.is_slow:
                tally.outcomes.add(item)
            if builder.lost is not None:
                break
        self.collecting = None

    def _has_time_for(self, item: ScheduledCollector, tally: _PollProgress) -> bool:
        """Whether a collector is asked in this round; the essential always is."""
        if item.collector.is_essential or item.ignores_budget:
            return True
        if not item.is_scheduled:
            return False
        if time.perf_counter() - self._started <= self._settings.deadline_seconds:
            return True
        item.is_scheduled = False
        tally.postponed.add(item.collector.name)
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
            _miss(collector, NvmlFailure(Missing.FAILED, collector.name, repr(error)), builder)
        item.asked(self._clock.time(), time.perf_counter() - started)
        item.has_outcome = not _is_absent(collector, builder)
        item.has_failed = builder.troubled

    def _hold(
        self, item: ScheduledCollector, builder: ReadingBuilder, last: ReadingBuilder | None
    ) -> None:
        """What a collector gave the last time it was asked, for two of its intervals at most."""
        collector, interval = item.collector, nanoseconds(self._settings.slow_interval_seconds)
        if item.asked_at is None or last is None:
            _miss(collector, _NOT_ASKED, builder)
        elif self._clock.time() - item.asked_at > 2 * max(interval, item.period):
            _miss(collector, _TOO_OLD, builder)
        else:
            builder.keep(collector.name, collector.signals, collector.tells, last)


_TURNS: Final = 16
_ASLEEP: Final = Down(Missing.SUSPENDED, "the kernel has put the GPU to sleep")
_NOT_ASKED: Final = NvmlFailure(
    Missing.NO_SAMPLE, "the driver", "it is slow, and was not asked yet"
)
_TOO_OLD: Final = NvmlFailure(Missing.STALE, "the driver", "it is slow, and was not asked for long")
_SETTLING: Final = NvmlFailure(Missing.NO_SAMPLE, "nvmlInit", "the GPU was woken up just now")


def _miss(collector: NvmlCollector, failure: NvmlFailure, builder: ReadingBuilder) -> None:
    for signal in collector.signals:
        builder.fail(signal, failure)


def _is_absent(collector: NvmlCollector, builder: ReadingBuilder) -> bool:
    """Whether the device has none of the collector's signals: nothing was asked, then."""
    return all(
        signal in builder.failures and builder.failures[signal].reason is Missing.NOT_SUPPORTED
        for signal in collector.signals
    )


def _down(builder: ReadingBuilder) -> Down:
    """Why a device gave nothing: that it is lost, else the gravest of its failures."""
    failures = [builder.lost] if builder.lost else list(builder.failures.values())
    if not failures:
        return Down(Missing.NOT_READ, "every collector is disabled")
    gravest = min(failures, key=lambda failure: _MILDNESS.get(failure.reason, 0))
    return Down(gravest.reason, str(gravest))


_MILDNESS: Final = {Missing.NO_SAMPLE: 1, Missing.RELEASED: 1, Missing.NOT_SUPPORTED: 2}
"""How little a reason tells of a device that gives nothing; the others tell more."""
