"""What this machine and the sandbox allow, and what each thing that is missing costs."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from rightsizer.agent.doctor.captures import check_capture, check_drop_folder
from rightsizer.agent.doctor.check import Check, CheckContext
from rightsizer.agent.doctor.gpus import (
    check_counters,
    check_device_files,
    check_driver,
    check_gpu_processes,
)
from rightsizer.agent.doctor.host import (
    check_clock,
    check_control_groups,
    check_memory_limit,
    check_memory_placement,
    check_pressure,
    check_processes,
    check_topology,
)
from rightsizer.agent.doctor.own import (
    check_broker,
    check_history,
    check_local_socket,
    check_web_port,
)
from rightsizer.agent.doctor.peers import (
    check_container_engine,
    check_dcgm,
    check_grafana,
    check_kubelet,
)
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import SystemClock
from rightsizer.model.snapshot import Snapshot

CHECKS: Final[tuple[Callable[[CheckContext], Check], ...]] = (
    check_device_files,
    check_driver,
    check_counters,
    check_gpu_processes,
    check_processes,
    check_control_groups,
    check_pressure,
    check_memory_placement,
    check_topology,
    check_kubelet,
    check_container_engine,
    check_dcgm,
    check_history,
    check_broker,
    check_local_socket,
    check_web_port,
    check_grafana,
    check_drop_folder,
    check_capture,
    check_clock,
    check_memory_limit,
)
_LOOKS: Final = 4
"""Profiling counters take two; the first may find NVML still being opened."""
_PATIENCE_SECONDS: Final = 6.0
"""Opening NVML takes some 3 s where no persistence daemon runs."""
_BETWEEN_SECONDS: Final = 0.3


def examine(settings: Settings, environ: Mapping[str, str] = os.environ) -> tuple[Check, ...]:
    """Every check of this machine, as the user that asks.

    Raises:
        RightsizerError: the settings name a scenario or a catalogue that cannot be read.
    """
    place = CheckContext(settings, look(settings), environ)
    return tuple(check(place) for check in CHECKS)


def look(settings: Settings, sleep: Callable[[float], None] = time.sleep) -> Snapshot:
    """What the agent's source reads, after as many looks as that takes."""
    clock = SystemClock()
    source = live_source(settings, clock).source
    began, looks = time.monotonic(), 0
    try:
        while True:
            snapshot = source.read()
            assert snapshot is not None  # noqa: S101 - a live source never ends.
            looks += snapshot.trouble is None or not snapshot.trouble.startswith("NVML ")
            if looks >= _LOOKS or time.monotonic() - began > _PATIENCE_SECONDS:
                return snapshot
            sleep(_BETWEEN_SECONDS)
    finally:
        source.close()
