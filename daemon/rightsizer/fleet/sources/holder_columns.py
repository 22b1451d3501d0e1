"""Holders of devices by interval: whose peers stall, and whose GPUs do unequal work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from rightsizer.accounting.conditions import ImbalanceDetector, job_of
from rightsizer.accounting.settings import ImbalanceSettings
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.column_interpreter import ColumnInterpreter
from rightsizer.model.values import Allocator, Device, Holding, Signal, seconds

_COMPARED: Final = (Signal.GPU_BUSY, Signal.POWER)


_Rows = dict[int, Floats]
"""Intervals of devices, by their row."""


class HolderColumns:
    """Holders of devices, by device and interval."""

    def __init__(
        self, devices: Sequence[Device], holdings: Sequence[Sequence[DeviceHolding]], grid: Grid
    ) -> None:
        self._devices = devices
        counts = np.zeros((len(devices), grid.count), int)
        self.is_preallocated = np.zeros_like(counts, bool)
        """Where a holder allocates its memory at the start."""
        workloads = defaultdict[str | None, _Rows](dict)
        jobs = defaultdict[str | None, _Rows](dict)
        for row, (device, holding) in enumerate(zip(devices, holdings, strict=True)):
            for run in holding:
                inside = slice(run.first, run.last + 1)
                counts[row, inside] += 1
                if run.workload.allocator is Allocator.PREALLOCATING:
                    self.is_preallocated[row, inside] = True
                job = job_of(device, (Holding(run.workload, run.share_ratio),))
                for rows in (workloads[run.workload.key], jobs[job]):
                    rows.setdefault(row, np.zeros(grid.count, bool))[inside] = True
        jobs.pop(None, None)
        self._workloads = tuple(_of_several(workloads))
        """With several devices, where each held a part."""
        self._jobs = tuple(
            (job, rows, held & (counts[rows] == 1)) for job, rows, held in _of_several(jobs)
        )
        """With several devices, where they are its ranks."""

    def stalled_peers(self, looks_stalled: Floats) -> Floats:
        """Return where another device of the same workload also looks stalled."""
        peers = np.zeros_like(looks_stalled)
        for _, rows, held in self._workloads:
            both = held & looks_stalled[rows]
            peers[rows] |= both & (both.sum(axis=0) > 1)
        return peers

    def out_of_balance(
        self, signals: ColumnInterpreter, is_known: Floats, grid: Grid, settings: ImbalanceSettings
    ) -> Floats:
        """Return where the GPUs of a job do unequal work, over two intervals at least."""
        is_unbalanced = np.zeros(is_known.shape, bool)
        columns = {
            signal: np.broadcast_to(signals.term(signal), is_known.shape) for signal in _COMPARED
        }
        suspects = []
        for job, rows, ranks in self._jobs:
            spreads = (
                np.fmax.reduce(np.where(ranks, column[rows], -np.inf))
                - np.fmin.reduce(np.where(ranks, column[rows], np.inf))
                for column in columns.values()
            )
            if any((spread >= settings.spread_ratio).any() for spread in spreads):
                suspects.append((job, rows, ranks & is_known[rows]))
        longest = max(settings.window_seconds, 2.0 * seconds(grid.step))
        detector = ImbalanceDetector(replace(settings, window_seconds=longest))
        for place in range(grid.count) if suspects else ():
            end = grid.time(place + 1)
            detector.judge(end)
            for job, rows, ranks in suspects:
                for row in rows[ranks[:, place]].tolist():
                    device = self._devices[row]
                    is_unbalanced[row, place] = detector.holds(device.uuid)
                    values = {signal: float(columns[signal][row, place]) for signal in _COMPARED}
                    readings = {signal: value for signal, value in values.items() if value == value}  # noqa: PLR0124 - Not nan.
                    detector.add(device, job, end, grid.step, readings)
        return is_unbalanced


def _of_several(
    groups: Mapping[str | None, _Rows],
) -> Iterator[tuple[str | None, Floats, Floats]]:
    """Yield each group of several devices: its key, their rows, and their intervals."""
    for key, intervals in groups.items():
        if len(intervals) > 1:
            yield key, np.array([*intervals]), np.stack([*intervals.values()])
