"""Writes `*.xplane.pb` files byte by byte, and the trace viewer's form of the same events."""

import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

__all__ = [
    "GPU",
    "WORKED",
    "Event",
    "Line",
    "Plane",
    "Reference",
    "kernel",
    "length_field",
    "number_field",
    "space",
    "varint",
    "viewer_trace",
]

MICROSECOND: Final = 1000


class Reference(str):
    """A value that a file holds as the name of an entry, as it does with texts that come often."""

    __slots__ = ()


class Event(Struct, frozen=True):
    """Times in nanoseconds since its line's; no start for a sum of several."""

    name: str
    start: int | None
    duration: int
    stats: Mapping[str, int | float | str] = {}


class Line(Struct, frozen=True):
    """A stream, a thread, or what is derived from them."""

    name: str
    events: Sequence[Event]
    time: int = 0


class Plane(Struct, frozen=True):
    """A device, the host, or what else there is."""

    name: str
    lines: Sequence[Line] = ()
    stats: Mapping[str, int | float | str] = {}


def varint(value: int) -> bytes:
    """An integer of variable length; negative ones as 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """A field that is an integer."""
    return varint(number << 3) + varint(value)


def length_field(number: int, data: bytes | str) -> bytes:
    """A field that is bytes, a text or a message."""
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def space(
    planes: Sequence[Plane],
    errors: Sequence[str] = (),
    warnings: Sequence[str] = (),
    hostnames: Sequence[str] = (),
) -> bytes:
    """A whole file."""
    return b"".join(
        [
            *(length_field(1, _plane(plane)) for plane in planes),
            *(length_field(2, error) for error in errors),
            *(length_field(3, warning) for warning in warnings),
            *(length_field(4, hostname) for hostname in hostnames),
        ]
    )


class _Names:
    """A table of names; the lines that use it come before it in a file."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}

    def key(self, name: str) -> int:
        return self.keys.setdefault(name, len(self.keys) + 1)

    def fields(self, number: int) -> bytes:
        return b"".join(
            length_field(
                number,
                number_field(1, key)
                + length_field(2, number_field(1, key) + length_field(2, name)),
            )
            for name, key in self.keys.items()
        )


def _plane(plane: Plane) -> bytes:
    events = _Names()
    stats = _Names()
    lines = b"".join(length_field(3, _line(line, events, stats)) for line in plane.lines)
    own = b"".join(length_field(6, _stat(*each, stats)) for each in plane.stats.items())
    name = length_field(2, plane.name)
    return name + lines + events.fields(4) + stats.fields(5) + own


def _line(line: Line, events: _Names, stats: _Names) -> bytes:
    inner = b"".join(length_field(4, _event(event, events, stats)) for event in line.events)
    return number_field(1, 7) + length_field(2, line.name) + number_field(3, line.time) + inner


def _event(event: Event, events: _Names, stats: _Names) -> bytes:
    when = number_field(5, 3) if event.start is None else number_field(2, event.start * 1000)
    inner = b"".join(length_field(4, _stat(*each, stats)) for each in event.stats.items())
    head = number_field(1, events.key(event.name))
    return head + when + number_field(3, event.duration * 1000) + inner


def _stat(name: str, value: float | str, stats: _Names) -> bytes:
    head = number_field(1, stats.key(name))
    if isinstance(value, Reference):
        return head + number_field(7, stats.key(value))
    if isinstance(value, str):
        return head + length_field(5, value)
    if isinstance(value, int):
        return head + number_field(3 if value >= 0 else 4, value)
    return head + varint(2 << 3 | 1) + struct.pack("<d", value)


def viewer_trace(planes: Sequence[Plane]) -> bytes:
    """The same events as `trace.json.gz` has them: names first, all arguments texts."""
    events: list[dict[str, Any]] = []
    for pid, plane in enumerate(planes, start=1):
        events.append(_named("process_name", plane.name, pid=pid))
        for tid, line in enumerate(plane.lines, start=1):
            events.append(_named("thread_name", line.name, pid=pid, tid=tid))
            events += [
                {
                    "ph": "X",
                    "pid": pid,
                    "tid": tid,
                    "name": event.name,
                    "ts": (line.time + event.start) / MICROSECOND,
                    "dur": event.duration / MICROSECOND,
                    "args": {key: str(value) for key, value in event.stats.items()},
                }
                for event in line.events
                if event.start is not None
            ]
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    text = json.dumps({**document, "traceEvents": [*events, {}]})
    return gzip.compress(text.encode(), mtime=0)


def _named(kind: str, name: str, **place: int) -> dict[str, Any]:
    return {"ph": "M", "name": kind, **place, "args": {"name": name}}


def kernel(name: str, start: int, duration: int, **stats: float | str) -> Event:
    """A kernel on a stream."""
    details = Reference("regs:38 shm:0 grid:160,1,1 block:1024,1,1")
    return Event(name, start, duration, {"kernel_details": details, **stats})


GPU: Final[Mapping[str, int]] = {
    "clock_rate": 1530000,
    "core_count": 80,
    "memory_bandwidth": 898048000000,
    "memory_size": 16945512448,
}

WORKED: Final = (
    Plane(
        "/device:GPU:3",
        [
            Line(
                "Stream #16(Compute)",
                [
                    kernel("gemm", 1000, 400, correlation_id=1),
                    kernel("add", 1500, 100, correlation_id=2),
                    kernel("ncclDevKernel_AllReduce", 2000, 500, correlation_id=3),
                ],
                10_000,
            ),
            Line("Stream #17(Compute)", [kernel("gemm", 1300, 300, correlation_id=4)], 10_000),
            Line(
                "Stream #18(MemcpyH2D)",
                [
                    Event(
                        "MemcpyH2D",
                        1550,
                        150,
                        {
                            "memcpy_details": Reference(
                                "kind_src:pinned kind_dst:device size:4096 dest:3 async:1"
                            )
                        },
                    ),
                    Event("Memset", 1800, 10, {"memset_details": "kind:device size:64 async:1"}),
                ],
                10_000,
            ),
            Line("XLA Ops", [Event("gemm.1", 1000, 5000)], 10_000),
            Line("Steps", [Event("7", 1000, 1500, {"group_id": 7})], 10_000),
        ],
        GPU,
    ),
    Plane("/device:GPU:4", [], GPU),
    Plane(
        "/host:CPU",
        [
            Line(
                "python3/1",
                [
                    Event("cuLaunchKernel", 900, 20, {"correlation_id": 1, "device_id": 3}),
                    Event("cuLaunchKernel", 930, 20, {"correlation_id": 2}),
                    Event("cuLaunchKernel", 1900, 30, {"correlation_id": 3}),
                    Event("cuLaunchKernel", 960, 20, {"correlation_id": 4}),
                    Event("IteratorGetNextOp::DoCompute", 100, 700),
                    Event("$/home/somebody/train.py:12 block_until_ready", 2000, 600),
                    Event(
                        "MemoryAllocation",
                        500,
                        0,
                        {
                            "allocator_name": "GPU_3_bfc",
                            "bytes_allocated": 1000,
                            "peak_bytes_in_use": 5000,
                        },
                    ),
                    Event("ExecutorState::Process", 0, 3000, {"id": 5}),
                ],
                10_000,
            )
        ],
    ),
    Plane(
        "Task Environment",
        [],
        {
            "profile_start_time": 1_779_266_702_889_805_563,
            "profile_stop_time": 1_779_266_712_621_715_175,
        },
    ),
)
"""A GPU that worked 1.1 us of 1.5 and waited 0.4 for its host, one that did nothing, their host."""
