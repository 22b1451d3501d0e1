"""Metrics of the agent's own process, as prometheus_client's collector has them.

That collector cannot be had without the library's servers and clients, which few agents need.
"""

import os
import resource
from collections.abc import Iterator
from typing import Final

from rightsizer.exposition.families import SampleFamily, series_of
from rightsizer.host.files import read_file
from rightsizer.model.metric_family import Collector

_HELP: Final = {
    "process_virtual_memory_bytes": "Virtual memory size in bytes.",
    "process_resident_memory_bytes": "Resident memory size in bytes.",
    "process_start_time_seconds": "Start time of the process since unix epoch in seconds.",
    "process_cpu_seconds_total": "Total user and system CPU time spent in seconds.",
    "process_open_fds": "Number of open file descriptors.",
    "process_max_fds": "Maximum number of open file descriptors.",
}
_USER, _SYSTEM, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21
"""Of the fields behind the command's name (proc_pid_stat(5))."""


def process_families() -> Iterator[SampleFamily]:
    """What the kernel says of this process; nothing where procfs cannot be read."""
    text = (read_file("/proc/self/stat") or "").rpartition(")")[2]
    boot = (read_file("/proc/stat") or "").partition("\nbtime ")[2].partition("\n")[0]
    if not text or not boot:
        return
    fields, ticks = text.split(), os.sysconf("SC_CLK_TCK")
    values = (
        float(fields[_VIRTUAL]),
        float(fields[_RESIDENT]) * resource.getpagesize(),
        float(fields[_START]) / ticks + float(boot),
        float(fields[_USER]) / ticks + float(fields[_SYSTEM]) / ticks,
        float(len(os.listdir("/proc/self/fd"))),  # noqa: PTH208 - names are enough.
        float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    for (name, sentence), value in zip(_HELP.items(), values, strict=True):
        stem = name.removesuffix("_total")
        kind = "gauge" if stem == name else "counter"
        sample = (series_of(name, (), ()), value)
        yield SampleFamily(stem, sentence, kind, "", Collector.PROCESS, [sample])
