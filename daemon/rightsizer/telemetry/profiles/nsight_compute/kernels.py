"""Kernels by device and name from their launches, and notes of the profiler's rules."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from rightsizer.model.profile import DeviceProfile, KernelUse, ProfiledDevice
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.names import is_collective, uses_tensor_cores
from rightsizer.telemetry.profiles.nsight_compute.launch import (
    KernelLaunch,
    LaunchFigures,
    duration_figure,
    figures_of,
    multiprocessors_of,
)
from rightsizer.telemetry.profiles.tables import short_name

_KEPT_MAXIMUM: Final = 500
_NOTES_MAXIMUM: Final = 12
_KERNEL_CHARACTERS: Final = 80
_TEXT_CHARACTERS: Final = 400
_LINK: Final = re.compile(r"@\w+:[^@:]*:([^@]*)@")
"""How rules point to other sections; only the last part is for people."""
_ADDRESS: Final = re.compile(r"\s*\(https?://[^\s)]*\)|\s*https?://[^\s)]+")
_ABOUT_ITSELF: Final = re.compile(r"The optional metric \S+ could not be found")


class RuleNotes:
    """Takes launches and keeps the rules that promise most."""

    def __init__(self) -> None:
        self._speedups: dict[str, float] = {}

    def add(self, launch: KernelLaunch) -> None:
        """The rules of one launch."""
        for rule in launch.rules:
            if _ABOUT_ITSELF.match(rule.text):
                continue
            text = " ".join(_ADDRESS.sub("", _LINK.sub(r"\1", rule.text)).split())
            note = f"{short_name(launch.kernel, _KERNEL_CHARACTERS)}: {text[:_TEXT_CHARACTERS]}"
            known = self._speedups.get(note)
            if known is not None or len(self._speedups) < _KEPT_MAXIMUM:
                self._speedups[note] = max(rule.speedup_percent, known or 0.0)

    def notes(self) -> tuple[str, ...]:
        """The highest estimated speed-up first."""
        ranked = sorted(self._speedups, key=lambda note: -self._speedups[note])
        return tuple(ranked[:_NOTES_MAXIMUM])


_REST: Final = "(other kernels)"
_AVERAGED: Final = ("compute_ratio", "dram_ratio", "dram_bytes_per_second", "occupancy_ratio")


@dataclass(slots=True)
class _Kernel:
    """All launches of one kernel on one device."""

    count: int = 0
    seconds: float = 0.0
    shortest: float | None = None
    longest: float | None = None
    uses_tensor_cores: bool | None = None
    _sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _weights: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, figures: LaunchFigures, launch: KernelLaunch) -> None:
        """Longer launches weigh more."""
        self.count += launch.count
        self.seconds += (figures.seconds or 0.0) * launch.count
        if extremes := duration_figure(launch):
            self.shortest = min(extremes[0], self.shortest or extremes[0])
            self.longest = max(extremes[1], self.longest or extremes[1])
        if figures.uses_tensor_cores is not None:
            self.uses_tensor_cores = bool(self.uses_tensor_cores) or figures.uses_tensor_cores
        weight = (figures.seconds or 1e-9) * launch.count
        for name in _AVERAGED:
            value = getattr(figures, name)
            if value is not None:
                self._sums[name] += value * weight
                self._weights[name] += weight

    def mean(self, name: str) -> float | None:
        """Over the launches in which it was measured."""
        weight = self._weights.get(name)
        return self._sums[name] / weight if weight else None


class MeasuredKernels:
    """Takes launches and tells what they come to."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._kernels: dict[str, dict[str, _Kernel]] = {}
        self._names: dict[str, str] = {}
        self._multiprocessors: dict[str, int] = {}
        self.untimed = 0
        """Launches of which no duration was measured."""

    def add(self, launch: KernelLaunch) -> None:
        """One launch."""
        figures = figures_of(launch)
        self.untimed += launch.count if figures.seconds is None else 0
        kernels = self._kernels.setdefault(launch.device, {})
        name = short_name(launch.kernel, self._limits.name_maximum_characters)
        if name not in kernels and len(kernels) >= self._limits.kernel_names_maximum:
            name = _REST
        kernels.setdefault(name, _Kernel()).add(figures, launch)
        if launch.device_name:
            self._names.setdefault(launch.device, launch.device_name)
        if (count := multiprocessors_of(launch)) is not None:
            self._multiprocessors.setdefault(launch.device, count)

    def devices(self) -> tuple[DeviceProfile, ...]:
        """Each device's kernels, longest in sum first."""
        return tuple(self._device(key) for key in sorted(self._kernels))

    def _device(self, key: str) -> DeviceProfile:
        kernels = (_use(name, kernel) for name, kernel in self._kernels[key].items())
        return DeviceProfile(
            device=ProfiledDevice(
                key=key,
                index=int(key) if key.isascii() and key.isdigit() else None,
                name=self._names.get(key, ""),
                multiprocessors=self._multiprocessors.get(key),
            ),
            time=None,
            kernels=tuple(sorted(kernels, key=lambda use: (-use.seconds, use.name))),
        )


def _use(name: str, kernel: _Kernel) -> KernelUse:
    counted = kernel.uses_tensor_cores
    return KernelUse(
        name=name,
        count=kernel.count,
        seconds=kernel.seconds,
        shortest_seconds=kernel.shortest or 0.0,
        longest_seconds=kernel.longest or 0.0,
        is_collective=is_collective(name),
        uses_tensor_cores=uses_tensor_cores(name) if counted is None else counted,
        occupancy_ratio=kernel.mean("occupancy_ratio"),
        compute_ratio=kernel.mean("compute_ratio"),
        dram_ratio=kernel.mean("dram_ratio"),
        dram_bytes_per_second=kernel.mean("dram_bytes_per_second"),
    )
