"""Long profiles of each kind, made of the same run: kernels that a host launches one by one."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO, cast

from msgspec import Struct

from profile_mlperf import detail
from profile_nsight import details_page
from profile_xplane import length_field, number_field, varint

_PERIOD: Final = 10_000
"""Nanoseconds from one kernel's start to the next one's."""
_STEP: Final = 2000
"""Kernels of a step."""
_EPOCH_MICROSECONDS: Final = 1_767_571_200_000_000
_NAMES: Final = (
    *(
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, "
        f"float, at::native::Functor{number}>, std::array<char*, 3ul>>(int, std::array<char*>)"
        for number in range(30)
    ),
    *(f"ampere_bf16_s16816gemm_bf16_128x{size}_ldg8_f2f_stages_64x3_tn" for size in range(9)),
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)

_HOST_NAMES: Final = (
    "cuLaunchKernel",
    "ThunkExecutor::Execute",
    "Handle inputs",
    "ParseArguments",
    "PjRt::ExecutePrepare",
)
_STATS: Final = ("correlation_id", "kernel_details", "hlo_op", "hlo_module")
_SHARED_STATS: Final = tuple(
    number_field(1, key) + number_field(7, key) for key in range(2, 1 + len(_STATS))
)
_KERNEL_BYTES: Final = 400
"""Of an XPlane, for each kernel; real ones have from 1,300 to 2,300."""
_ROW_BYTES: Final = 375
"""Of an export of Nsight Systems, for each kernel: that of the densest real one at hand."""


class Writer(Struct, frozen=True):
    """One kind of file."""

    what: str
    name: str
    write: Callable[[Path, float], None]
    """Makes a file of about so many bytes, unpacked."""


def _kernel(number: int) -> tuple[str, int, int]:
    """Name, start and duration of the kernel with this number; the host is behind now and then."""
    start = number * _PERIOD + (number % 7) * 500
    return _NAMES[number * 7 % len(_NAMES)], start, 3000 + number % 5 * 1000


def _microseconds(time: int) -> str:
    return f"{_EPOCH_MICROSECONDS + time // 1000}.{time % 1000:03d}"


def _kineto_events() -> Iterator[str]:
    number = 0
    while True:
        name, start, duration = _kernel(number)
        at = _microseconds(start - 8000 if start > 8000 else 0)
        host = f'"pid": 4711, "tid": 4711, "ts": {at}'
        if number % _STEP == 0:
            yield (
                f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number // _STEP}", '
                f'{host}, "dur": {_STEP * _PERIOD / 1000 - 1}, "args": {{}}}}'
            )
        yield (
            f'{{"ph": "X", "cat": "cpu_op", "name": "aten::mul", {host}, "dur": 6.5, "args": '
            f'{{"External id": {number}, "Record function id": 0, "Ev Idx": {number}}}}}'
        )
        yield (
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", {host}, "dur": 4.217'
            f', "args": {{"External id": {number}, "cbid": 211, "correlation": {number}}}}}'
        )
        yield (f'{{"ph": "s", "id": {number}, {host}, "cat": "ac2g", "name": "ac2g"}}')
        yield (
            f'{{"ph": "X", "cat": "kernel", "name": {json.dumps(name)}, "pid": 0, "tid": 7, '
            f'"ts": {_microseconds(start)}, "dur": {duration / 1000}, "args": {{"External id": '
            f'{number}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": '
            f'{number}, "registers per thread": 32, "shared memory": 0, "blocks per SM": 1.939394, '
            '"warps per SM": 15.515152, "grid": [256, 1, 1], "block": [256, 1, 1], '
            '"est. achieved occupancy %": 24}}'
        )
        yield (
            f'{{"ph": "f", "id": {number}, "pid": 0, "tid": 7, "ts": {_microseconds(start)}, '
            '"cat": "ac2g", "name": "ac2g", "bp": "e"}'
        )
        number += 1


def _viewer_events() -> Iterator[str]:
    yield '{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}'
    yield (
        '{"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", '
        '"args": {"name": "Stream #16(Compute)"}}'
    )
    number = 0
    while True:
        name, start, duration = _kernel(number)
        yield (
            f'{{"ph": "X", "pid": 1, "tid": 1, "ts": {start / 1000}, "dur": {duration / 1000}, '
            f'"name": {json.dumps(name)}, "args": {{"correlation_id": "{number}", "kernel_details"'
            ': "regs:38 shm:0 grid:160,1,1 block:1024,1,1", "hlo_module": "jit_step"}}'
        )
        number += 1


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "wt", compresslevel=1, encoding="utf-8"))
    return path.open("w", encoding="utf-8")


def _json(path: Path, size: float, head: Mapping[str, Any], events: Iterator[str]) -> None:
    with _opened(path) as file:
        written = file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n' + next(events))
        while written < size:
            written += file.write(",\n" + next(events))
        file.write("\n]}")


def _kineto(path: Path, size: float) -> None:
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936}
    _json(path, size, {"schemaVersion": 1, "deviceProperties": [device]}, _kineto_events())


def _viewer(path: Path, size: float) -> None:
    _json(path, size, {"displayTimeUnit": "ns", "metadata": {}}, _viewer_events())


def _nsight_systems(path: Path, size: float) -> None:
    """Kernels, two calls for each, and three ranges: as dense as real ones are."""
    rows = int(size / _ROW_BYTES)
    connection = sqlite3.connect(path)
    with connection:
        connection.executescript(
            "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
            "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.24.0');"
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId '
            "INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid "
            "INTEGER, demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX "
            "INTEGER, blockX INTEGER, staticSharedMemory INTEGER, localMemoryTotal INTEGER);"
            'CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, eventClass '
            "INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue "
            "INTEGER);"
            'CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, '
            "rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, "
            "endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
        )
        connection.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", enumerate((*_NAMES, "cudaLaunchKernel_v7000"))
        )
        owner = 1 << 48 | 4242 << 24
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
            f"(?, ?, 0, 1, 7, ?, {owner}, ?, ?, 32, 256, 256, 0, 149815296)",
            (
                (start, start + duration, number, _NAMES.index(name), _NAMES.index(name))
                for number in range(rows)
                for name, start, duration in (_kernel(number),)
            ),
        )
        connection.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, {owner + 1}, ?, ?, 0)",
            (
                (max(0, start - 8000), max(0, start - 8000) + 4217, number, len(_NAMES))
                for number in range(rows)
                for _, start, _ in (_kernel(number),)
            ),
        )
        connection.executemany(
            f"INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, 0, 0, ?, {owner + 1}, NULL, NULL, 0)",
            (
                (begin, begin + 6000 - 1000 * depth, f"{name}, seq = {number}, op_id = {depth}")
                for number in range(rows)
                for begin in (max(0, _kernel(number)[1] - 9000),)
                for depth, name in enumerate(("aten::linear", "aten::addmm", "autograd::engine"))
            ),
        )
    connection.close()


def _nsight_compute(path: Path, size: float) -> None:
    metrics = (
        ("GPU Speed Of Light Throughput", "Duration", "ns", "21,058,944"),
        ("GPU Speed Of Light Throughput", "Compute (SM) Throughput", "%", "41.30"),
        ("GPU Speed Of Light Throughput", "DRAM Throughput", "%", "61.84"),
        ("Occupancy", "Achieved Occupancy", "%", "96.26"),
    )
    with path.open("w", encoding="utf-8", newline="") as file:
        written = number = 0
        while written < size:
            page = details_page(
                metrics,
                kernel=_NAMES[number % len(_NAMES)],
                number=number,
                has_header=number == 0,
            )
            written += file.write(page)
            number += 1


def _xplane(path: Path, size: float) -> None:
    """GPU's stream with its derived lines, and a dozen host events per launch.

    Real ones have more of them yet for a kernel. What holds events begins with its length, so that
    the longest line is written by itself first.
    """
    steps = max(1, int(size / _KERNEL_BYTES / _STEP))
    kernels = range(steps * _STEP)
    planes = (
        ("/device:GPU:0", "Stream #16(Compute)", _stream_event, "XLA Ops", _derived_event),
        ("/host:CPU", "python", _launch_event, "tf_XLAPjRt", _thread_events),
    )
    with path.open("wb") as file:
        for plane, line, event, repeated, more in planes:
            body = path.with_suffix(".events")
            with body.open("wb") as events:
                events.write(_line_head(line, 0))
                events.writelines(map(event, kernels))
            length = body.stat().st_size
            # What is alike in each step is encoded once, and a line of each step begins later.
            alike = b"".join(map(more, range(_STEP)))
            lines = [_line_head(repeated, at * _STEP * _PERIOD) for at in range(steps)]
            name = length_field(2, plane)
            tables = _plane_tables()
            heads = [_length_head(3, len(each) + len(alike)) for each in lines]
            extra = sum(map(len, heads)) + sum(map(len, lines)) + steps * len(alike)
            head = _length_head(3, length)
            whole = len(name) + len(head) + length + extra + len(tables)
            file.write(_length_head(1, whole) + name + head)
            with body.open("rb") as events:
                shutil.copyfileobj(events, file)
            body.unlink()
            for length_head, line_head in zip(heads, lines, strict=True):
                file.write(length_head + line_head + alike)
            file.write(tables)


def _line_head(name: str, start: int) -> bytes:
    return number_field(1, 7) + length_field(2, name) + number_field(3, start)


def _plane_tables() -> bytes:
    names = (*((4, at, name) for at, name in enumerate((*_NAMES, *_HOST_NAMES), 1)),)
    stats = tuple((5, at, name) for at, name in enumerate(_STATS, 1))
    return b"".join(
        length_field(
            table,
            number_field(1, key) + length_field(2, number_field(1, key) + length_field(2, name)),
        )
        for table, key, name in names + stats
    )


def _length_head(number: int, length: int) -> bytes:
    return varint(number << 3 | 2) + varint(length)


def _plane_event(name: int, start: int, duration: int, *stats: bytes) -> bytes:
    """Times in nanoseconds."""
    times = number_field(2, start * 1000) + number_field(3, duration * 1000)
    attached = b"".join(length_field(4, stat) for stat in stats)
    return length_field(4, number_field(1, name) + times + attached)


def _stream_event(number: int) -> bytes:
    name, start, duration = _kernel(number)
    stats = (number_field(1, 1) + number_field(3, number), *_SHARED_STATS)
    return _plane_event(_NAMES.index(name) + 1, start, duration, *stats)


def _derived_event(number: int) -> bytes:
    name, start, duration = _kernel(number)
    return _plane_event(_NAMES.index(name) + 1, start, duration, *_SHARED_STATS)


def _launch_event(number: int) -> bytes:
    _, start, _ = _kernel(number)
    correlation = number_field(1, 1) + number_field(3, number)
    return _plane_event(len(_NAMES) + 1, max(0, start - 8000), 4217, correlation)


def _thread_events(number: int) -> bytes:
    begin = max(0, _kernel(number)[1] - 8000)
    return b"".join(
        _plane_event(len(_NAMES) + 2 + each % 4, begin + each * 300, 250) for each in range(12)
    )


def _mlperf(path: Path, size: float) -> None:
    """Detail log of the load generator, mostly of issued queries."""
    with path.open("w", encoding="utf-8") as file:
        written = file.write(detail({"result_samples_per_second": 3590.46}))
        line = detail({"generated_query_duration": 600_000}).splitlines(keepends=True)[-1]
        while written < size:
            written += file.write(line)


def _nsight_stats(path: Path, size: float) -> None:
    """The table of all that a GPU did."""
    with path.open("w", encoding="utf-8") as file:
        written = file.write(
            "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
            "DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
        )
        number = 0
        while written < size:
            name, start, duration = _kernel(number)
            written += file.write(
                f"{start},{duration},{number},256,1,1,256,1,1,32,0.000,0.000,,,,,"
                f'NVIDIA H100 80GB HBM3 (0),1,7,"{name}"\n'
            )
            number += 1


WRITERS: Final = (
    Writer("PyTorch's JSON", "rank0.pt.trace.json", _kineto),
    Writer("PyTorch's JSON, packed", "rank0.pt.trace.json.gz", _kineto),
    Writer("Nsight Systems' SQLite", "report.sqlite", _nsight_systems),
    Writer("`nsys stats`", "trace.csv", _nsight_stats),
    Writer("Nsight Compute's CSV", "report.csv", _nsight_compute),
    Writer("an XPlane", "host.xplane.pb", _xplane),
    Writer("a trace viewer's JSON, packed", "host.trace.json.gz", _viewer),
    Writer("an MLPerf detail log", "mlperf_log_detail.txt", _mlperf),
)
