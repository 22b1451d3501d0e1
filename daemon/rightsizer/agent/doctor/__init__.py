"""Checks of what this machine and its sandbox allow, with loss and remedy for each failure."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from rightsizer.agent.doctor import gpus, host, own, peers
from rightsizer.agent.doctor.check import Check, CheckContext
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import SystemClock
from rightsizer.model.values import Snapshot

CHECKS: Final[tuple[Callable[[CheckContext], Check], ...]] = (
    gpus.check_device_files,
    gpus.check_driver,
    gpus.check_counters,
    gpus.check_gpu_processes,
    host.check_processes,
    host.check_control_groups,
    host.check_pressure,
    host.check_memory_placement,
    host.check_topology,
    peers.check_kubelet,
    peers.check_container_engine,
    peers.check_dcgm,
    peers.check_serving,
    own.check_extensions,
    own.check_history,
    own.check_broker,
    own.check_local_socket,
    own.check_web_port,
    peers.check_grafana,
    own.check_drop_folder,
    own.check_capture,
    host.check_clock,
    host.check_memory_limit,
)
_LOOKS: Final = 4
"""Profiling counters need two reads; NVML may still be opening during the first."""
_PATIENCE_SECONDS: Final = 6.0
"""Opening NVML takes about 3 s without a persistence daemon."""
_BETWEEN_SECONDS: Final = 0.3


def examine(settings: Settings, environ: Mapping[str, str] = os.environ) -> tuple[Check, ...]:
    """Run every check on this machine, as the calling user.

    Raises:
        RightsizerError: the settings name a scenario or a catalogue that cannot be read.
    """
    context = CheckContext(settings, first_snapshot(settings), environ)
    return tuple(check(context) for check in CHECKS)


def first_snapshot(settings: Settings, sleep: Callable[[float], None] = time.sleep) -> Snapshot:
    """Read the agent's source until profiling counters had time to appear, or patience is out."""
    began = time.monotonic()
    rounds = 0
    with closing(live_source(settings, SystemClock()).source) as source:
        while True:
            snapshot = source.read()
            rounds += snapshot.trouble is None or not snapshot.trouble.startswith("NVML ")
            if rounds >= _LOOKS or time.monotonic() - began > _PATIENCE_SECONDS:
                return snapshot
            sleep(_BETWEEN_SECONDS)
