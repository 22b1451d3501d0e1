"""Summaries of `nsys stats` without a time line: kernels, copies, calls."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.model.profile import (
    CopyKind,
    CopyUse,
    DeviceProfile,
    HostMemory,
    HostSpanUse,
    KernelUse,
    LaunchUse,
    ProfiledDevice,
    SpanKind,
)
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.names import (
    is_collective,
    range_kind,
    range_name,
    uses_tensor_cores,
)
from rightsizer.telemetry.profiles.nsight_stats.report import StatsReport, StatsRow, copy_of
from rightsizer.telemetry.profiles.nsight_systems.activities import call_name, is_launch, is_wait
from rightsizer.telemetry.profiles.tables import short_name

_KERNEL_REPORTS: Final = (StatsReport.KERNELS, StatsReport.KERNELS_BY_GRID, StatsReport.GPU_SUMS)
"""The same kernels stand in each; the first that is there counts."""
_REST: Final = "(other kernels)"
_ALL_DEVICES: Final = ProfiledDevice(key="all")


@dataclass(frozen=True, slots=True)
class _Sum:
    """Of one name."""

    count: int
    seconds: float
    shortest: float
    longest: float

    def plus(self, other: "_Sum") -> "_Sum":
        return _Sum(
            self.count + other.count,
            self.seconds + other.seconds,
            min(self.shortest, other.shortest),
            max(self.longest, other.longest),
        )


class StatsSums:
    """Takes rows of summaries and tells what they come to."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._kernels: dict[StatsReport, dict[str, _Sum]] = {each: {} for each in _KERNEL_REPORTS}
        self._copies: dict[StatsReport, dict[tuple[CopyKind, HostMemory], CopyUse]] = {
            each: {}
            for each in (StatsReport.COPY_TIMES, StatsReport.COPY_SIZES, StatsReport.GPU_SUMS)
        }
        self._spans: dict[tuple[SpanKind, str], HostSpanUse] = {}
        self._launches: LaunchUse | None = None
        self._calls_of: StatsReport | None = None
        self.events = 0
        """Rows that were taken in."""
        self.unread: Counter[str] = Counter()

    @property
    def has_device(self) -> bool:
        """Whether anything of a device is in it."""
        return any(self._kernels.values()) or any(self._copies.values())

    @property
    def lacks_sizes(self) -> bool:
        """Whether copies are in it without their sizes."""
        return any(self._copies.values()) and not self._copies[StatsReport.COPY_SIZES]

    @property
    def lacks_times(self) -> bool:
        """Whether copies are in it without their times."""
        sizes = self._copies[StatsReport.COPY_SIZES]
        return bool(sizes) and not any(
            self._copies[each] for each in (StatsReport.COPY_TIMES, StatsReport.GPU_SUMS)
        )

    def add(self, row: StatsRow) -> None:
        """A row of any summary."""
        taken = False
        if row.report in {StatsReport.KERNELS, StatsReport.KERNELS_BY_GRID}:
            taken = self._add_kernel(row, row.text("name"))
        elif row.report is StatsReport.GPU_SUMS:
            taken = self._add_of_category(row, row.text("category").upper())
        elif row.report in {StatsReport.COPY_TIMES, StatsReport.COPY_SIZES}:
            taken = self._add_copy(row)
        elif row.report is StatsReport.CALLS:
            taken = self._add_call(row, row.text("name"))
        elif row.report is StatsReport.RANGES:
            taken = self._add_range(row)
        if taken:
            self.events += 1
        else:
            self.unread[f"row of {row.report.value}"] += 1

    def device(self) -> DeviceProfile:
        """All devices as one: a summary does not tell them apart."""
        kernels = next(filter(None, (self._kernels[each] for each in _KERNEL_REPORTS)), {})
        return DeviceProfile(
            device=_ALL_DEVICES,
            time=None,
            kernels=tuple(
                KernelUse(
                    name=name,
                    count=each.count,
                    seconds=each.seconds,
                    shortest_seconds=each.shortest,
                    longest_seconds=each.longest,
                    is_collective=is_collective(name),
                    uses_tensor_cores=uses_tensor_cores(name),
                )
                for name, each in sorted(
                    kernels.items(), key=lambda each: (-each[1].seconds, each[0])
                )
            ),
            copies=self._joined_copies(),
            launches=self._launches,
        )

    def host_spans(self) -> tuple[HostSpanUse, ...]:
        """Longest in sum first."""
        return tuple(sorted(self._spans.values(), key=lambda each: (-each.seconds, each.name)))

    def _add_of_category(self, row: StatsRow, category: str) -> bool:
        if category.startswith("MEM"):
            return self._add_copy(row)
        if category.endswith("API"):
            return self._add_call(row, row.text("operation"))
        return self._add_kernel(row, row.text("operation"))

    def _add_kernel(self, row: StatsRow, name: str) -> bool:
        found = _sum_of(row, "instances")
        if found is None or not name:
            return False
        sums = self._kernels[row.report]
        name = short_name(name, self._limits.name_maximum_characters)
        if name not in sums and len(sums) >= self._limits.kernel_names_maximum:
            name = _REST
        sums[name] = sums[name].plus(found) if name in sums else found
        return True

    def _add_copy(self, row: StatsRow) -> bool:
        kind = copy_of(row.text("operation"))
        count = row.number("count", "instances")
        if kind is None or count is None or count < 0:
            return False
        use = CopyUse(*kind, round(count), row.bytes("total") or 0, row.seconds("total time") or 0)
        into = self._copies[row.report]
        known = into.get(kind)
        into[kind] = use if known is None else _together(known, use)
        return True

    def _joined_copies(self) -> tuple[CopyUse, ...]:
        times, sizes = self._copies[StatsReport.COPY_TIMES], self._copies[StatsReport.COPY_SIZES]
        joined = {**sizes, **(times or self._copies[StatsReport.GPU_SUMS])}
        return tuple(
            replace(use, bytes=sizes[kind].bytes if kind in sizes else 0)
            for kind, use in sorted(
                joined.items(), key=lambda each: (-each[1].seconds, -each[1].bytes, each[0])
            )
        )

    def _add_call(self, row: StatsRow, text: str) -> bool:
        name, found = call_name(text), _sum_of(row, "num calls", "instances")
        # The same calls stand in two reports; the first that is there counts.
        self._calls_of = self._calls_of or row.report
        if found is None or row.report is not self._calls_of:
            return False
        if is_launch(name):
            known = self._launches or LaunchUse(0, 0.0)
            self._launches = LaunchUse(
                known.count + found.count, known.host_seconds + found.seconds
            )
            return True
        if is_wait(name):
            self._add_span(SpanKind.SYNCHRONIZATION, name, found)
            return True
        return False

    def _add_range(self, row: StatsRow) -> bool:
        name, found = range_name(row.text("range").lstrip(":")), _sum_of(row, "instances")
        if found is None or not name:
            return False
        self._add_span(range_kind(name), name, found)
        return True

    def _add_span(self, kind: SpanKind, name: str, found: _Sum) -> None:
        name = short_name(name, self._limits.name_maximum_characters)
        if (kind, name) not in self._spans and len(self._spans) >= (
            self._limits.kernel_names_maximum
        ):
            name = "(others)"
        known = self._spans.get((kind, name), HostSpanUse(kind, name, 0, 0.0))
        self._spans[kind, name] = replace(
            known, count=known.count + found.count, seconds=known.seconds + found.seconds
        )


def _sum_of(row: StatsRow, *counted: str) -> _Sum | None:
    """`None` for what no report says: nothing, or less than nothing."""
    count, total = row.number(*counted), row.seconds("total time")
    if count is None or total is None or count < 1 or total < 0:
        return None
    mean = total / count
    shortest, longest = row.seconds("min"), row.seconds("max")
    return _Sum(
        round(count),
        total,
        mean if shortest is None else shortest,
        mean if longest is None else longest,
    )


def _together(one: CopyUse, other: CopyUse) -> CopyUse:
    return replace(
        one,
        count=one.count + other.count,
        bytes=one.bytes + other.bytes,
        seconds=one.seconds + other.seconds,
    )
