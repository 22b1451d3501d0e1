"""Reader of PyTorch's profiler: Kineto's JSON, plain or packed."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rightsizer.model.profile import DeviceProfile, Profile, ProfiledDevice, ProfileFormat
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.profiles.json_events import JsonEvents, whole_number
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.pytorch_events import PyTorchEvents
from rightsizer.telemetry.profiles.reader import Head, ProfileReader
from rightsizer.telemetry.profiles.recorder import Recorder


class PyTorchDevice:
    """The list of GPUs that were visible, and what it says of one that was used."""

    __slots__ = ("_by_id",)

    def __init__(self, properties: Any) -> None:
        self._by_id = dict(listed_devices(properties))

    def of(self, key: str) -> Mapping[str, Any]:
        """The fields of `ProfiledDevice` that are known of a device by its number.

        ROCm numbers the devices of kernels otherwise than those of the list; where all in the list
        are alike, what they are is known all the same.
        """
        index = whole_number(key)
        own = self._by_id.get(index) if index is not None else None
        if own is None:
            kinds = list(self._by_id.values())
            own = kinds[0] if kinds and all(each == kinds[0] for each in kinds) else {}
        return {"index": index, **own}


def listed_devices(properties: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and facts of each entry that is understood."""
    for entry in properties if isinstance(properties, list) else ():
        index = whole_number(entry.get("id")) if isinstance(entry, dict) else None
        if index is None:
            continue
        name = entry.get("name")
        multiprocessors = entry.get("numSms", entry.get("multiProcessorCount"))
        yield (
            index,
            {
                "name": name[:200] if isinstance(name, str) else "",
                "memory_bytes": whole_number(entry.get("totalGlobalMem")),
                "multiprocessors": whole_number(multiprocessors),
            },
        )


_KEPT: Final = (
    "schemaVersion",
    "deviceProperties",
    "computeProperties",
    "distributedInfo",
    "baseTimeNanoseconds",
    "cuda_runtime_version",
    "hip_runtime_version",
)
"""Of the top level. Its `metadata` may hold the whole environment of who recorded it."""
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[{\[]")
_MARKS: Final = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|gpu_mem(?:cpy|set)|cuda_profiler_range'
    rb"|(?:cuda|hip|xpu|mtia|privateuse1)_(?:runtime|driver)"
    rb'|python_function|user_annotation|gpu_user_annotation|Operator|Runtime|Kernel|kernel)"'
    rb"|ProfilerStep#"
)
_EPOCH: Final = 10**9 * NANOSECONDS_PER_SECOND
"""Of September 2001: times beyond it count from 1970, times before it from a start of its own."""
_LATEST: Final = 2**63
"""Of the year 2262: no clock that counts nanoseconds gets further."""


def recognizes_pytorch(head: Head) -> bool:
    """By the keys and categories that Kineto alone writes."""
    if head.is_folder or not _JSON.match(head.data):
        return False
    return _MARKS.search(head.data) is not None


def read_pytorch(path: Path, limits: ReadLimits) -> Profile:
    """One rank's trace.

    Raises:
        ProfileError: it is no trace, or asks for more than it may.
    """
    trace = JsonEvents(path, limits, keep=_KEPT)
    recorder = Recorder(limits)
    events = PyTorchEvents(recorder, limits)
    for event in trace:
        events.take(event)
    events.finish()
    # The list had another name until 2021.
    listed = (trace.values.get(key) for key in ("deviceProperties", "computeProperties"))
    facts = PyTorchDevice(next(filter(None, listed), None))
    for key in events.used_devices:
        recorder.device(key, **facts.of(key))
    devices = _devices(recorder, events, facts)
    distributed = trace.values.get("distributedInfo")
    ranks: Mapping[str, Any] = distributed if isinstance(distributed, dict) else {}
    return Profile(
        format=ProfileFormat.PYTORCH,
        source=path.name,
        version=_version(trace.values),
        start=_start(trace.values.get("baseTimeNanoseconds"), events.latest),
        rank=whole_number(ranks.get("rank")),
        world_size=whole_number(ranks.get("world_size")),
        devices=devices,
        host_spans=recorder.host_spans(),
        host_steps=recorder.host_steps(),
        events=trace.count,
        unread=dict(sum((events.unread, trace.unread, recorder.refused), Counter())),
        notes=tuple(_notes(trace, events, devices)),
    )


PYTORCH: Final = ProfileReader(ProfileFormat.PYTORCH, recognizes_pytorch, read_pytorch)


def _devices(
    recorder: Recorder, events: PyTorchEvents, facts: PyTorchDevice
) -> tuple[DeviceProfile, ...]:
    devices = recorder.devices()
    if devices or not events.counters.count:
        return devices
    return (events.counters.profile(ProfiledDevice("0", **facts.of("0"))),)


def _version(values: Mapping[str, Any]) -> str:
    schema = whole_number(values.get("schemaVersion"))
    runtimes = (
        (name, whole_number(values.get(key)))
        for name, key in (("CUDA", "cuda_runtime_version"), ("HIP", "hip_runtime_version"))
    )
    parts = [] if schema is None else [f"schema {schema}"]
    for name, number in runtimes:
        if number is not None and name == "CUDA":
            parts.append(f"CUDA {number // 1000}.{number % 1000 // 10}")
        elif number is not None:
            parts.append(f"HIP {number // 10_000_000}.{number // 100_000 % 100}")
    return ", ".join(parts)


def _start(base: Any, latest: Nanoseconds) -> Nanoseconds | None:
    known = whole_number(base)
    if known is not None and 0 <= known < _LATEST:
        return known
    return 0 if latest > _EPOCH else None


def _notes(
    trace: JsonEvents, events: PyTorchEvents, devices: tuple[DeviceProfile, ...]
) -> Iterator[str]:
    if trace.fault:
        yield f"Not whole: {trace.fault}; what came before is shown."
    if events.counters.count:
        yield (
            f"Hardware counters of {events.counters.count} kernel runs in place of a time line: "
            "times of kernels are those of the profiler's ranges, and idle time is not known."
        )
    elif not any(device.time for device in devices):
        yield "No kernel in it: it was recorded without a GPU, or with host activities only."
    if events.copies_without_size:
        yield f"The sizes of {events.copies_without_size} copies are not in it."
