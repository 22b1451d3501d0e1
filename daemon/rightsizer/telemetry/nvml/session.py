"""All the readings of one GPU and its MIG instances, taken by the one thread that owns them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Subject:
    """A device, and the collectors that make sense for it."""

    handle: Handle
    collectors: tuple[Collector, ...]
    absent: Mapping[Signal, Failure]
    """Signals that a device of this kind does not have."""


@dataclass(slots=True)
class _Tally:
    """What accumulates over a round."""

    readings: dict[str, Reading] = field(default_factory=dict)
    down: dict[str, Down] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)


class Session:
    """The collectors of one GPU at work; enter and leave it on the thread that reads."""

    def __init__(self, gpu: Gpu, *, clock: Clock, settings: LiveSettings) -> None:
        """Asks the driver for nothing yet."""
        self.library = Library()
        self.collecting: str | None = None
        """The collector at work; another thread reads it to say which one hangs."""
        self._gpu = gpu
        self._settled: Nanoseconds | None = None
        self._clock = clock
        self._settings = settings
        self._subjects = [self._subject(target) for target in gpu.targets]

    def read(self) -> Round:
        """Ask every collector once."""
        if self._settled is None:
            settling = 0.0 if self._gpu.is_persistent else self._settings.settling_seconds
            self._settled = self._clock.time() + nanoseconds(settling)
        is_settled = self._clock.time() >= self._settled
        tally = _Tally()
        for subject in self._subjects:
            self._read(subject, tally, is_settled=is_settled)
        outcomes = {
            name: CollectorOutcome(name not in tally.failed, duration)
            for name, duration in tally.seconds.items()
        }
        return Round(
            tally.readings,
            tally.down,
            outcomes,
            driver_is_gone=any(failure.driver_is_gone for failure in tally.failures),
            is_unknown=not tally.readings and any(failure.is_unknown for failure in tally.failures),
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
        collectors = tuple(found for found in enabled if found.applies_to(device))
        return _Subject(handle, collectors, absent)

    def _read(self, subject: _Subject, tally: _Tally, *, is_settled: bool) -> None:
        device = subject.handle.target.device
        lost = tally.down.get(device.mig.parent_uuid) if device.mig else None
        if lost is not None and lost.reason is Missing.LOST:
            tally.down[device.uuid] = lost
            return
        draft = Draft()
        for collector in subject.collectors:
            if collector.settles and not is_settled:
                for signal in collector.signals:
                    draft.fail(signal, _SETTLING)
                continue
            self._collect(collector, subject.handle, draft, tally)
            if draft.lost is not None:
                break
        tally.failures.extend(draft.failures.values())
        if draft.lost is not None:
            tally.failures.append(draft.lost)
        if draft.lost is not None or not draft.values:
            tally.down[device.uuid] = _down(draft)
            return
        for signal, failure in subject.absent.items():
            draft.failures.setdefault(signal, failure)
        tally.readings[device.uuid] = draft.reading(device.uuid, self._clock.time())

    def _collect(self, collector: Collector, handle: Handle, draft: Draft, tally: _Tally) -> None:
        started = time.perf_counter()
        draft.troubled = False
        self.collecting = collector.name
        collector.read(handle, draft)
        self.collecting = None
        if _is_absent(collector, draft):
            return
        took = time.perf_counter() - started
        tally.seconds[collector.name] = tally.seconds.get(collector.name, 0.0) + took
        if draft.troubled:
            tally.failed.add(collector.name)


_SETTLING: Final = Failure(Missing.NO_SAMPLE, "nvmlInit", "the GPU was woken up just now")


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
    gravest = min(failures, key=lambda failure: failure.reason is Missing.NOT_SUPPORTED)
    return Down(gravest.reason, str(gravest))
