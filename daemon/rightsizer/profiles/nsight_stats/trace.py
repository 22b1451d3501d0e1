"""`cuda_gpu_trace`, `cuda_api_trace` and `nvtx_pushpop_trace`: reports with a time line."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from rightsizer.domain.profile import CopyKind, HostMemory, SpanKind
from rightsizer.profiles.nsight_stats.operation import copy_of, is_fill, is_operation
from rightsizer.profiles.nsight_stats.report import Report, Row
from rightsizer.profiles.nsight_systems.host_calls import call_name, is_launch, is_wait
from rightsizer.profiles.range_names import is_step, range_kind, range_name
from rightsizer.profiles.recorder import Recorder

__all__ = ["StatsTrace"]

_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,4})\)")
_MEMORIES: Final[Mapping[str, HostMemory]] = {
    "pageable": HostMemory.PAGEABLE,
    "pinned": HostMemory.PINNED,
    "managed": HostMemory.MANAGED,
}


class StatsTrace:
    """Takes rows of traces and hands them to the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._devices: dict[str, str] = {}
        self.has_kernels = False
        self.has_calls = False
        self.unread: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """A row of any trace."""
        start, duration = row.nanoseconds("start"), row.nanoseconds("duration")
        if start is None or duration is None:
            self.unread[f"row of {row.report.value}"] += 1
        elif row.report is Report.RANGE_TRACE:
            self._add_range(row, start, start + duration)
        elif row.report is Report.GPU_TRACE:
            self._add_activity(row, start, start + duration)
        else:
            self._add_call(row, start, start + duration)

    def _add_activity(self, row: Row, start: int, end: int) -> None:
        name, device = row.text("name"), self._device(row.text("device"))
        stream = row.text("strm")
        if copied := copy_of(name):
            kind, memory = copied
            if memory is HostMemory.UNKNOWN:
                memory = _memory_of(kind, row)
            self._recorder.copy(device, stream, start, end, kind, memory, row.bytes("bytes") or 0)
        elif is_fill(name):
            self._recorder.fill(device, stream, start, end, row.bytes("bytes") or 0)
        elif is_operation(name) or not name:
            self.unread["operation that is no kernel, copy or fill"] += 1
        else:
            self.has_kernels = True
            self._recorder.kernel(device, stream, start, end, name, correlation=_correlation(row))

    def _add_call(self, row: Row, start: int, end: int) -> None:
        name, correlation = call_name(row.text("name")), _correlation(row)
        self.has_calls = True
        if is_launch(name) and correlation is not None:
            self._recorder.launch(correlation, start, end)
        elif is_wait(name):
            self._recorder.host_span(SpanKind.SYNCHRONIZATION, name, start, end)
        else:
            self.unread["CUDA call that neither launches nor waits"] += 1

    def _add_range(self, row: Row, start: int, end: int) -> None:
        name = range_name(row.text("name").lstrip(":"))
        if not name:
            self.unread["NVTX range without a name"] += 1
            return
        self._recorder.host_span(range_kind(name), name, start, end)
        if is_step(name):
            self._recorder.step(name, start, end)

    def _device(self, text: str) -> str:
        if text not in self._devices:
            found = _DEVICE.fullmatch(text)
            key = found[2] if found else text or "0"
            name = found[1] if found else text
            self._recorder.device(key, index=int(found[2]) if found else None, name=name)
            self._devices[text] = key
        return self._devices[text]


def _memory_of(kind: CopyKind, row: Row) -> HostMemory:
    column = {CopyKind.HOST_TO_DEVICE: "srcmemkd", CopyKind.DEVICE_TO_HOST: "dstmemkd"}.get(kind)
    said = row.text(column).lower() if column else ""
    return _MEMORIES.get(said, HostMemory.UNKNOWN)


def _correlation(row: Row) -> int | None:
    number = row.number("corrid")
    return None if number is None else int(number)
