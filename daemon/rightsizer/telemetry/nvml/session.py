"""All the readings of one GPU and its MIG instances, taken by the one thread that owns them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from rightsizer.domain.device import Device
from rightsizer.domain.reading import Missing, Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.snapshot import CollectorOutcome, Down
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.inventory import Gpu, Target
from rightsizer.telemetry.nvml.library import Library
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.topology.address import kernel_address
from rightsizer.telemetry.topology.bus import is_asleep

__all__ = ["Round", "Session"]


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of a GPU's collectors brought."""

    readings: Mapping[str, Reading]
    down: Mapping[str, Down]
    collectors: Mapping[str, CollectorOutcome]
    driver_is_gone: bool = False
    is_unknown: bool = False
    """Whether the GPU gave nothing but unknown errors."""
    holds_counters: bool = True
    """Whether the driver still lends it what a profiler may need."""


@dataclass(slots=True)
class _Outcomes:
    """How the collectors of some devices fared."""

    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def add(self, name: str, seconds: float, *, failed: bool) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if failed:
            self.failed.add(name)

    def merge(self, other: "_Outcomes") -> None:
        for name, seconds in other.seconds.items():
            self.add(name, seconds, failed=name in other.failed)


@dataclass(slots=True)
class _Slow:
    """What the slow collectors of a device found last; it holds until they read again."""

    draft: Draft
    outcomes: _Outcomes
    due: Nanoseconds


@dataclass(slots=True)
class _Subject:
    """A device, and the collectors that make sense for it."""

    handle: Handle
    collectors: tuple[Collector, ...]
    slow_collectors: tuple[Collector, ...]
    absent: Mapping[Signal, Failure]
    """Signals that a device of this kind does not have."""
    slow: _Slow | None = None


@dataclass(slots=True)
class _Tally:
    """What accumulates over a round."""

    readings: dict[str, Reading] = field(default_factory=dict)
    down: dict[str, Down] = field(default_factory=dict)
    outcomes: _Outcomes = field(default_factory=_Outcomes)
    failures: list[Failure] = field(default_factory=list)


class Session:
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
        self.library = Library()
        self.collecting: str | None = None
        """The collector at work; another thread reads it to say which one hangs."""
        self._gpu = gpu
        self._settled: Nanoseconds | None = None
        self._clock = clock
        self._settings = settings
        self._counters_are_released = counters_are_released
        self._counters_are_free = False
        address = kernel_address(gpu.whole.device.pci_bus_id)
        folder = sysfs / "bus/pci/devices" / (address or "")
        self._folder = folder if address is not None and folder.exists() else None
        self._subjects = [self._subject(target) for target in gpu.targets]

    def read(self) -> Round:
        """Ask every collector that is due; a GPU that is asleep is left so."""
        if self._folder is not None and is_asleep(self._folder):
            uuids = (target.device.uuid for target in self._gpu.targets)
            return Round({}, dict.fromkeys(uuids, _ASLEEP), {}, holds_counters=False)
        if self._settled is None:
            settling = 0.0 if self._gpu.is_persistent else self._settings.settling_seconds
            self._settled = self._clock.time() + nanoseconds(settling)
        tally = _Tally()
        self._counters_are_free = self._counters_are_released()
        for subject in self._subjects:
            self._read(subject, tally)
        outcomes = {
            name: CollectorOutcome(name not in tally.outcomes.failed, duration)
            for name, duration in tally.outcomes.seconds.items()
        }
        return Round(
            tally.readings,
            tally.down,
            outcomes,
            driver_is_gone=any(failure.driver_is_gone for failure in tally.failures),
            is_unknown=not tally.readings and any(failure.is_unknown for failure in tally.failures),
            holds_counters=not self._counters_are_free,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for subject in self._subjects:
            subject.handle.close()

    def _subject(self, target: Target) -> _Subject:
        handle = Handle(target, library=self.library, clock=self._clock, settings=self._settings)
        enabled = [
            collector
            for collector in COLLECTORS
            if collector.name not in self._settings.disabled_collectors
        ]
        device = target.device
        absent = {
            signal: Failure(Missing.NOT_SUPPORTED, collector.name, _kind(device))
            for collector in enabled
            if not collector.applies_to(device)
            for signal in collector.signals
        }
        fitting = [found for found in enabled if found.applies_to(device)]
        return _Subject(
            handle,
            tuple(found for found in fitting if not found.is_slow),
            tuple(found for found in fitting if found.is_slow),
            absent,
        )

    def _read(self, subject: _Subject, tally: _Tally) -> None:
        device = subject.handle.target.device
        lost = tally.down.get(device.mig.parent_uuid) if device.mig else None
        if lost is not None and lost.reason is Missing.LOST:
            tally.down[device.uuid] = lost
            return
        draft = Draft()
        is_slow_due = subject.slow is None or self._clock.time() >= subject.slow.due
        self._fetch_fields(subject, with_slow=is_slow_due)
        self._collect_all(subject.collectors, subject.handle, draft, tally.outcomes)
        # A device that gives nothing is not kept alive by what it gave before.
        if draft.values and draft.lost is None:
            slow = self._read_slowly(subject) if is_slow_due else subject.slow
            if slow is not None:
                draft.adopt(slow.draft)
                draft.lost = slow.draft.lost
                tally.outcomes.merge(slow.outcomes)
        tally.failures.extend(draft.failures.values())
        if draft.lost is not None:
            tally.failures.append(draft.lost)
        if draft.lost is not None or not draft.values:
            tally.down[device.uuid] = _down(draft)
            return
        for signal, failure in subject.absent.items():
            draft.failures.setdefault(signal, failure)
        tally.readings[device.uuid] = draft.reading(device.uuid, self._clock.time())

    def _fetch_fields(self, subject: _Subject, *, with_slow: bool) -> None:
        """Ask for the fields of all collectors that are due in one call."""
        due = (*subject.collectors, *(subject.slow_collectors if with_slow else ()))
        self.collecting = "fields"
        subject.handle.fetch_fields([key for collector in due for key in collector.fields])

    def _read_slowly(self, subject: _Subject) -> _Slow:
        """What the slow collectors find now; it holds until they are due again."""
        interval = nanoseconds(self._settings.slow_interval_seconds)
        # Devices take turns, so that no tick has all the slow reads.
        turn = subject.handle.target.device.index % _TURNS if subject.slow is None else 0
        due = self._clock.time() + interval + turn * interval // _TURNS
        slow = _Slow(Draft(), _Outcomes(), due)
        self._collect_all(subject.slow_collectors, subject.handle, slow.draft, slow.outcomes)
        # What a lost device did not tell is asked for as soon as it is back.
        subject.slow = slow if slow.draft.lost is None else None
        return slow

    def _collect_all(
        self,
        collectors: Sequence[Collector],
        handle: Handle,
        draft: Draft,
        outcomes: _Outcomes,
    ) -> None:
        is_settled = self._settled is not None and self._clock.time() >= self._settled
        for collector in collectors:
            if collector.settles and not is_settled:
                _miss(collector, _SETTLING, draft)
            elif collector.release is not None and self._counters_are_free:
                collector.release(handle, draft)
            else:
                self._collect(collector, handle, draft, outcomes)
            if draft.lost is not None:
                break
        self.collecting = None

    def _collect(
        self, collector: Collector, handle: Handle, draft: Draft, outcomes: _Outcomes
    ) -> None:
        started = time.perf_counter()
        draft.troubled = False
        self.collecting = name = collector.part_of or collector.name
        draft.collecting = collector.name
        try:
            collector.read(handle, draft)
        except Exception as error:  # noqa: BLE001 - a fault of one collector costs its signals alone.
            _miss(collector, Failure(Missing.FAILED, collector.name, repr(error)), draft)
        if not _is_absent(collector, draft):
            outcomes.add(name, time.perf_counter() - started, failed=draft.troubled)


_TURNS: Final = 16
_ASLEEP: Final = Down(Missing.SUSPENDED, "the kernel has put the GPU to sleep")
_SETTLING: Final = Failure(Missing.NO_SAMPLE, "nvmlInit", "the GPU was woken up just now")


def _miss(collector: Collector, failure: Failure, draft: Draft) -> None:
    for signal in collector.signals:
        draft.fail(signal, failure)


def _is_absent(collector: Collector, draft: Draft) -> bool:
    """Whether the device has none of the collector's signals: nothing was asked, then."""
    return all(
        signal in draft.failures and draft.failures[signal].reason is Missing.NOT_SUPPORTED
        for signal in collector.signals
    )


def _kind(device: Device) -> str:
    return "not of a MIG instance" if device.mig else "not of a GPU with MIG instances"


def _down(draft: Draft) -> Down:
    """Why a device gave nothing: that it is lost, else the gravest of its failures."""
    failures = [draft.lost] if draft.lost else list(draft.failures.values())
    if not failures:
        return Down(Missing.NOT_READ, "every collector is disabled")
    gravest = min(failures, key=lambda failure: _MILDNESS.get(failure.reason, 0))
    return Down(gravest.reason, str(gravest))


_MILDNESS: Final = {Missing.NO_SAMPLE: 1, Missing.RELEASED: 1, Missing.NOT_SUPPORTED: 2}
"""How little a reason tells of a device that gives nothing; the others tell more."""
