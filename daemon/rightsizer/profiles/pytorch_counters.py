"""Hardware counters per kernel, as PyTorch's profiler writes them in ranges."""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from rightsizer.domain.profile import DeviceProfile, KernelUse, ProfiledDevice
from rightsizer.domain.units import Nanoseconds
from rightsizer.profiles.event_time import number
from rightsizer.profiles.kernel_table import KernelRow, KernelTable
from rightsizer.profiles.reader import ReadLimits

__all__ = ["CounterTable"]

_UNNAMED: Final = ("", "__missing__")
_TENSOR: Final = re.compile(r"pipe_tensor|hmma|imma|inst_executed_op_\w*mma")
_PERCENT: Final = (
    ("compute_ratio", re.compile(r"^sm__throughput\..*pct")),
    ("dram_ratio", re.compile(r"^(?:gpu__dram|dram)__?throughput\..*pct")),
    ("occupancy_ratio", re.compile(r"^sm__warps_active\..*pct")),
)


class CounterTable:
    """The kernels of a profile that has counters in place of a time line."""

    __slots__ = ("_ratios", "_table", "count")

    def __init__(self, limits: ReadLimits) -> None:
        self._table = KernelTable(limits)
        self._ratios: dict[str, dict[str, list[Decimal]]] = {}
        self.count = 0
        """Ranges so far."""

    def add(self, name: str, duration: Nanoseconds, counters: Mapping[str, Any]) -> None:
        """One range: one run of one kernel."""
        self.count += 1
        found = self._table.row("(unnamed)" if name in _UNNAMED else name)
        found.add(duration, None)
        ratios = self._ratios.setdefault(found.name, {})
        for metric, written in counters.items():
            value = number(written)
            if value is not None:
                _take(found, ratios, metric, value)

    def profile(self, device: ProfiledDevice) -> DeviceProfile:
        """The kernels of what is one device, for ranges do not name theirs."""
        return DeviceProfile(
            device=device, time=None, kernels=tuple(map(self._with_ratios, self._table.uses()))
        )

    def _with_ratios(self, use: KernelUse) -> KernelUse:
        means = {
            name: float(total / count / 100)
            for name, (total, count) in self._ratios[use.name].items()
        }
        return replace(
            use,
            compute_ratio=means.get("compute_ratio"),
            dram_ratio=means.get("dram_ratio"),
            occupancy_ratio=means.get("occupancy_ratio"),
        )


def _take(row: KernelRow, ratios: dict[str, list[Decimal]], metric: str, value: Decimal) -> None:
    if _TENSOR.search(metric):
        row.uses_tensor_cores = value > 0 or row.uses_tensor_cores is True
    for ratio, pattern in _PERCENT:
        if pattern.search(metric):
            sums = ratios.setdefault(ratio, [Decimal(0), Decimal(0)])
            sums[0] += value
            sums[1] += 1
