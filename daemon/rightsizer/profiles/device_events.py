"""Events of one device, in columns and sums."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.io.terminal import counted
from rightsizer.model.profile import ProfiledDevice
from rightsizer.model.values import Nanoseconds, seconds
from rightsizer.profiles.call_stacks import FrameTree
from rightsizer.profiles.columns import Texts, chosen, coded, grouped
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.tables import CollectiveTable, CopyTable, KernelTable
from rightsizer.profiles.time_use import CountedTimes, StepSpan
from rightsizer.profiles.timeline import (
    KERNEL_KINDS,
    NO_KERNEL,
    Columns,
    Interval,
    KernelLine,
    MemoryCurve,
    Numbers,
)

_MOST_NUMBERED: Final = 255
"""Streams, or groups of ranks, with a number of their own. Source: one byte each."""
_OTHER_STREAMS: Final = "(other streams)"


class DeviceEvents:
    """Accumulator of one device."""

    def __init__(self, key: str, limits: ReadLimits) -> None:
        self.facts = ProfiledDevice(key)
        self.runs = Columns(*KERNEL_KINDS)
        self.copied = Columns("i8", "i8")
        self.filled = Columns("i8", "i8")
        self.kernels = KernelTable(limits)
        self.copies = CopyTable()
        self.collectives = CollectiveTable()
        self.steps: list[StepSpan] = []
        self.memory = MemoryCurve()
        self.streams: dict[str, int] = {}
        self.groups: dict[str, int] = {"": 0}
        self.frame_times = CountedTimes()

    def add_kernels(  # noqa: PLR0913, PLR0917 - a column each.
        self,
        tree: FrameTree,
        collectives: Collection[str],
        starts: Numbers,
        ends: Numbers,
        correlations: Numbers,
        names: Texts,
        streams: Texts,
        occupancy_ratios: Sequence[float | None] | None,
        groups: Texts | None,
        frames: Sequence[Sequence[str] | None] | None,
    ) -> None:
        """Add runs of kernels; those without a name are graphs."""
        rows = coded(names).mapped(lambda name: None if name is None else self.kernels.row(name))
        for name, row in zip(coded(names).values, rows.values, strict=True):
            if name in collectives:
                row.is_collective = True
        self.runs.extend(
            starts,
            ends,
            correlations,
            rows.array(lambda row: NO_KERNEL if row is None else row.number),
            rows.array(lambda row: row is not None and row.is_collective, bool),
            coded(streams).array(self.stream),
            coded(groups or [""] * starts.size).array(self.group),
        )
        durations = (ends - starts).tolist()
        for code, ratio, duration in zip(
            rows.codes.tolist(), occupancy_ratios or (), durations, strict=False
        ):
            if ratio is not None and (row := rows.values[code]):
                row.measure("occupancy_ratio", ratio, duration or 1)
        for path, of_path in grouped(frames or ()):
            if path is not None:
                (times,) = chosen(of_path, ends - starts)
                self.frame_times.add(tree.path(path), int(times.sum()), of_path.size)

    def stream(self, name: str) -> int:
        """Return the number of a stream; streams beyond 255 share one."""
        return _number(self.streams, name, _OTHER_STREAMS)

    def group(self, name: str) -> int:
        """Return the number of a group of ranks; groups beyond 255 count as unknown."""
        return _number(self.groups, name, "")

    def collective_runs(self, line: KernelLine) -> Iterator[tuple[Interval, str]]:
        """Yield each collective by start, with its kernel and group."""
        names = self.kernels.numbered()
        groups = list(self.groups)
        for span, kernel, group in line.collective_runs():
            yield span, f"{names[kernel].name} {groups[group]}".rstrip()

    @property
    def unknown_streams(self) -> set[int]:
        """Numbers of what is no stream of its own."""
        return {self.streams.get(name, _MOST_NUMBERED) for name in ("", _OTHER_STREAMS)}

    def line(self) -> tuple[KernelLine, Iterator[str]]:
        """Return the kernels, which are added up, and sentences on what was ended."""
        line, overruns = KernelLine(*self.runs.read()).without_overruns(self.unknown_streams)
        self.kernels.add_runs(*line.runs())
        return line, self._ended(overruns)

    def _ended(self, overruns: Mapping[int, tuple[int, Nanoseconds]]) -> Iterator[str]:
        rows = self.kernels.numbered()
        for kernel, (count, time) in sorted(overruns.items(), key=lambda overrun: -overrun[1][1]):
            name = "graphs" if kernel == NO_KERNEL else rows[kernel].name
            yield (
                f"{counted(count, 'run')} of {name} on device {self.facts.key} ended after what "
                "follows on the same stream, which cannot be: each is taken to end where its "
                f"successor begins, {1000 * seconds(time):,.1f} ms less in all; do not trust its "
                "times."
            )

    @property
    def is_used(self) -> bool:
        """Whether anything ran on it, or its memory is known."""
        return bool(len(self.runs) or len(self.copied)) or self.memory.peak is not None


def _number(numbers: dict[str, int], name: str, other: str) -> int:
    is_new = name not in numbers and len(numbers) >= _MOST_NUMBERED
    return numbers.setdefault(other if is_new else name, len(numbers))
