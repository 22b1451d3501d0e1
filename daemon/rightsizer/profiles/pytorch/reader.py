"""Reader of PyTorch's profiler: Kineto's JSON, plain or packed, with or without counters."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.model.profile import DeviceProfile, Profile, ProfiledDevice, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.json_events import JsonEvents
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.pytorch.events import PyTorchEvents
from rightsizer.profiles.pytorch.kineto_header import HEADER_KEYS, TraceHeader
from rightsizer.profiles.reader import NO_EVENTS, ProfileReader
from rightsizer.profiles.recorder import Recorder

_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[{\[]")
_MARKS: Final = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|fwdbwd|ac2g|gpu_mem(?:cpy|set)|cuda_profiler_range'
    rb"|(?:cuda|hip|xpu|mtia|privateuse1)_(?:runtime|driver)"
    rb'|python_function|user_annotation|gpu_user_annotation|Operator|Runtime|Kernel|kernel)"'
    rb"|ProfilerStep#"
)


def _read(path: Path, limits: ReadLimits) -> Profile:
    trace = JsonEvents(path, limits, keep=HEADER_KEYS)
    recorder = Recorder(limits)
    events = PyTorchEvents(recorder, limits)
    for batch in trace.batches():
        events.take(batch)
    events.finish()
    if not trace.count and not trace.fault:
        raise ProfileError(NO_EVENTS)
    header = TraceHeader(trace.values)
    for key in events.used_devices:
        recorder.device(key, **header.facts(key))
    devices = recorder.devices()
    if not devices and events.range_count:
        # Ranges have no device.
        device = ProfiledDevice("0", **header.facts("0"))
        devices = (DeviceProfile(device, time=None, kernels=events.ranges.uses()),)
    # Operators launched on a GPU only last as long as their launches.
    has_gpu = bool(header.devices or events.has_gpu)
    lacks_steps = recorder.stacks.has_operators and not recorder.has_steps
    host_steps = recorder.host_steps(are_operators_known=not has_gpu)
    return Profile(
        format=ProfileFormat.PYTORCH,
        source=path.name,
        version=header.version,
        start=header.start(events.latest),
        rank=header.rank,
        world_size=header.world_size,
        devices=devices,
        host_spans=recorder.host_spans(),
        host_steps=host_steps,
        events=trace.count,
        unread=dict(sum((events.unread, trace.unread, recorder.refused), Counter())),
        notes=(
            *recorder.notes,
            *_notes(trace, events, devices, has_gpu=has_gpu, lacks_steps=lacks_steps),
        ),
        is_whole=not trace.fault and events.lost.is_whole,
    )


def _notes(
    trace: JsonEvents,
    events: PyTorchEvents,
    devices: tuple[DeviceProfile, ...],
    *,
    has_gpu: bool,
    lacks_steps: bool,
) -> Iterator[str]:
    if trace.fault:
        yield f"Not whole: {trace.fault}; what came before is shown."
    else:
        yield from events.lost.notes
    if events.range_count:
        yield (
            f"Hardware counters of {events.range_count} kernel runs in place of a timeline: "
            "times of kernels are those of the profiler's ranges, and idle time is not known."
        )
    elif not any(device.time for device in devices):
        yield (
            "No kernel in it: it was recorded without a GPU, with host activities only, or on a "
            "device whose events are not read."
        )
        if has_gpu:
            yield events.lost.all_lost_text or (
                "A GPU is listed or was called: what operators of the host launched there was not "
                "recorded; profile with ProfilerActivity.CUDA (XPU) too."
            )
        elif lacks_steps:
            yield (
                "No step is marked, by which the host's own time could be judged; give the "
                "profiler a schedule, without which it marks none, and call its step() after each."
            )
    if events.copies_without_size:
        yield f"The sizes of {events.copies_without_size} copies are not in it."


PYTORCH: Final = ProfileReader(
    ProfileFormat.PYTORCH,
    lambda head: bool(_JSON.match(head.data) and _MARKS.search(head.data)),
    _read,
)
