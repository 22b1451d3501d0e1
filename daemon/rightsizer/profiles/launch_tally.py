"""How kernels came to a device, told while they are walked through in order."""

from collections.abc import Iterator

from rightsizer.domain.profile import LaunchUse
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.profiles.idle import Started
from rightsizer.profiles.launches import Launches
from rightsizer.profiles.time_line import KernelLine

__all__ = ["LaunchTally"]


class LaunchTally:
    """Counts the calls that brought kernels; a graph's many kernels come by one."""

    __slots__ = ("_count", "_host", "_launches", "_matched", "_seen", "_short")

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._seen = bytearray(len(launches))
        self._count = self._matched = self._short = 0
        self._host: Nanoseconds = 0

    def started(self, line: KernelLine) -> Iterator[Started]:
        """The kernels with the starts of their launches; each is counted as it passes."""
        launches = self._launches
        for start, end, correlation in line.launched():
            row = None if correlation is None else launches.row(correlation)
            if row is None:
                yield start, end, None
                continue
            self._count_one(row, end - start)
            yield start, end, launches.start(row)

    def use(self) -> LaunchUse | None:
        """What it comes to; `None` where no launch is known."""
        if not self._matched:
            return None
        return LaunchUse(
            count=self._count,
            host_seconds=seconds(self._host),
            short_kernels=self._short,
            matched=self._matched,
        )

    def _count_one(self, row: int, duration: Nanoseconds) -> None:
        call = self._launches.duration(row)
        self._matched += 1
        self._short += duration < call
        if not self._seen[row]:
            self._seen[row] = 1
            self._count += 1
            self._host += call
