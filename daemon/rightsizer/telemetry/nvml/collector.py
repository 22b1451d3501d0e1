"""NVML collectors: base class, values of fields and functions, rates of counters, new samples."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from msgspec import Struct

from rightsizer.host.rates import CounterMeter, MonotonicCounter
from rightsizer.model.values import Device, Missing, Signal, seconds
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

Read = Callable[[DeviceHandle, ReadingBuilder], None]
"""Calls the driver and puts each answer, failures included, into the reading."""

_FIRST: Final = NvmlFailure(
    Missing.NO_SAMPLE, "nvmlDeviceGetFieldValues", "the first look at a counter, or a reset one"
)


def _meter(_: DeviceHandle, __: FieldKey) -> CounterMeter[Signal]:
    return CounterMeter(0)


class NvmlRate(Struct, frozen=True):
    """A signal that is the rate of a counter in a numbered field, between two rounds."""

    signal: Signal
    field: FieldKey
    scale: float = 1.0
    """Factor to the signal's unit."""

    def read(self, handle: DeviceHandle, builder: ReadingBuilder) -> None:
        """Put the counter's growth a second, unless an earlier collector gave the signal."""
        meter = handle.hold(_meter, self.field)
        now = handle.fields_time
        count = handle.field(self.field)
        if self.signal in builder.values:
            meter.update(now, dict)  # Forgets the last value.
            return
        if not isinstance(count, NvmlFailure):
            counter = MonotonicCounter(count, seconds(now))
            count = meter.update(now, lambda: {self.signal: counter}).get(self.signal, _FIRST)
        builder.put(self.signal, count, self.scale)


class SampleCursor:
    """Place in a buffer of the driver's samples; gives each sample once.

    Samples have times of the wall clock: set back, it would hide new ones, so that a look without
    a new one is followed by one at the whole buffer.
    """

    def __init__(self) -> None:
        self.last = 0
        """Time of the newest sample."""
        self.since = 0
        """Time after which to ask for samples."""

    def take(self, samples: Iterable[Any]) -> list[Any]:
        """Return the samples that are new; `samples` is empty if the driver gave none."""
        sample_list = list(samples)
        fresh = [sample for sample in sample_list if sample.timeStamp > self.last]
        self.last = max((sample.timeStamp for sample in sample_list), default=self.last)
        self.since = self.last if fresh else 0
        return fresh


class NvmlValue(Struct, frozen=True):
    """A signal read from a numbered field or, if the driver lacks it, by functions."""

    signal: Signal
    calls: tuple[tuple[Any, ...], ...] = ()
    """Functions of the bindings with their arguments, newest first, for older drivers."""
    field: FieldKey | None = None
    scale: float = 1.0
    """Factor to the signal's unit."""
    part: Callable[[Any], Any] | None = None
    """Extracts the value from a function's answer."""
    is_percent: bool = False
    is_constant: bool = False
    """Whether the first function is not called again after an answer."""

    def read(self, handle: DeviceHandle, builder: ReadingBuilder) -> None:
        """Read the value and put it into the reading."""
        answer = None if self.field is None else handle.field(self.field)
        is_unknown = isinstance(answer, NvmlFailure) and answer.is_unsupported
        if answer is None or (is_unknown and self.calls):
            if self.is_constant:
                answer = handle.ask_once(*self.calls[0])
            else:
                answer = handle.ask_first(*self.calls)
            if self.part is not None and not isinstance(answer, NvmlFailure):
                answer = self.part(answer)
        if self.is_percent:
            builder.put_percent(self.signal, answer)
        else:
            builder.put(self.signal, answer, self.scale)


class NvmlCollector(Struct, frozen=True):
    """Signals of a device that are read together."""

    name: str
    signals: tuple[Signal, ...]
    read: Read
    part_of: str = ""
    """Collector under whose name its outcome is reported; its own if empty."""
    fields: tuple[FieldKey, ...] = ()
    """NVML field ids it uses; those of all collectors are fetched in one call a round."""
    is_essential: bool = False
    """Whether it runs every round, however slow the driver is."""
    is_slow: bool = False
    """Whether its signals change slowly: read at the slow interval, and held in between."""
    attributes: tuple[str, ...] = ()
    """Attributes of the reading that it sets beside its signals."""
    release: Read | None = None
    """Frees what a profiler needs, and puts why the signals are missing meanwhile."""
    on_mig_parent: bool = True
    on_mig_instance: bool = False
    settles: bool = False
    """Whether values mislead shortly after a GPU was woken up."""

    @classmethod
    def of(cls, name: str, *values: NvmlValue | NvmlRate, **options: Any) -> Self:
        """Create a collector that reads these values one by one."""

        def read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
            for value in values:
                value.read(handle, builder)

        fields = tuple(value.field for value in values if value.field is not None)
        return cls(name, tuple(value.signal for value in values), read, fields=fields, **options)

    @property
    def reported_name(self) -> str:
        """Name under which its outcome is reported."""
        return self.part_of or self.name

    def applies_to(self, device: Device) -> bool:
        """Whether a device of this kind can have these signals."""
        if device.mig is not None:
            return self.on_mig_instance
        return self.on_mig_parent or not device.has_mig_instances


def checked_collector(_: str, value: object) -> NvmlCollector:
    """Return a collector of another package; raises `TypeError` if it is none."""
    if isinstance(value, NvmlCollector):
        return value
    raise TypeError(f"{value!r} is no rightsizer.telemetry.nvml.collector.NvmlCollector")
