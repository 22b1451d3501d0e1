"""Metrics of the agent's own process, equal to those of prometheus_client's collector.

Importing that collector loads the library's servers and clients, which few agents need.
"""

import os
import resource
from collections.abc import Iterator
from functools import cache
from typing import Final

from rightsizer.exposition.families import FamilyHead, MetricSeries, SampleFamily
from rightsizer.host.files import read_file
from rightsizer.model.values import Collector

_HEADS: Final = tuple(
    FamilyHead(name, sentence, kind, Collector.PROCESS)
    for name, kind, sentence in (
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes."),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
        ),
        ("process_cpu_seconds", "counter", "Total user and system CPU time spent in seconds."),
        ("process_open_fds", "gauge", "Number of open file descriptors."),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors."),
    )
)
_USER = 11
_SYSTEM = 12
_START = 19
_VIRTUAL = 20
_RESIDENT = 21
"""Indices of the fields after the command's name (proc_pid_stat(5))."""


_SERIES: Final = tuple(
    MetricSeries(head.name + ("_total" if head.kind == "counter" else "")) for head in _HEADS
)


@cache
def _boot_seconds() -> float:
    """Boot time; cached, since /proc/stat is slow to read on a large machine."""
    return float((read_file("/proc/stat") or "").partition("\nbtime ")[2].partition("\n")[0])


def process_families() -> Iterator[SampleFamily]:
    """Yield the kernel's figures for this process; nothing if procfs is unreadable."""
    fields = (read_file("/proc/self/stat") or "").rpartition(")")[2].split()
    try:
        boot = _boot_seconds()
    except ValueError:
        return
    if not fields:
        return
    ticks = os.sysconf("SC_CLK_TCK")
    values = (
        float(fields[_VIRTUAL]),
        float(fields[_RESIDENT]) * resource.getpagesize(),
        float(fields[_START]) / ticks + boot,
        float(fields[_USER]) / ticks + float(fields[_SYSTEM]) / ticks,
        float(len(os.listdir("/proc/self/fd"))),  # noqa: PTH208 - only names are needed.
        float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    for head, series, value in zip(_HEADS, _SERIES, values, strict=True):
        yield SampleFamily(head, [series.line(value)])
