"""Where the time of a device went, between any of a few marks on its time line."""

from collections.abc import Iterable
from heapq import merge
from itertools import chain

from rightsizer.domain.profile import LaunchUse, TimeUse
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.profiles.host_spans import HostSpans
from rightsizer.profiles.idle import IdleCause, gaps
from rightsizer.profiles.intervals import Ruler, Within, union
from rightsizer.profiles.launch_tally import LaunchTally
from rightsizer.profiles.launches import Launches
from rightsizer.profiles.time_line import KernelLine, SpanLine

__all__ = ["MeasuredLine"]


class MeasuredLine:
    """A device's time line, laid on rulers in one walk; whole nanoseconds until the end."""

    __slots__ = (
        "_checkpoint_wait",
        "_collective",
        "_compute",
        "_copy",
        "_either",
        "_host_wait",
        "_kernel",
        "_kernel_wait",
        "_loader_wait",
        "launches",
        "span",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the lines that are laid beside each other.
        self,
        kernels: KernelLine,
        copies: SpanLine,
        launches: Launches,
        spans: HostSpans,
        marks: Iterable[Nanoseconds],
        adjacent: Nanoseconds,
    ) -> None:
        """Measure.

        Args:
            kernels: At least one.
            copies: Any number.
            launches: Of all devices.
            spans: What the host did.
            marks: Where steps start and end.
            adjacent: Kernels no further apart than this follow each other directly.
        """
        self.span = kernels.span()
        every = sorted({*marks, *self.span})
        self._kernel, self._host_wait, self._kernel_wait = Ruler(every), Ruler(every), Ruler(every)
        self._loader_wait, self._checkpoint_wait = Ruler(every), Ruler(every)
        self._collective, self._compute = Ruler(every), self._kernel
        self._copy, self._either = Ruler(every), self._kernel
        self._kernel.add_all(union(kernels.intervals()))
        self.launches = self._lay_idle(kernels, launches, spans, every[0], adjacent)
        if kernels.collectives:
            apart = (kernels.collective_intervals(is_collective=each) for each in (True, False))
            self._collective.add_all(union(next(apart)))
            self._compute = Ruler(every)
            self._compute.add_all(union(next(apart)))
        if len(copies):
            self._copy.add_all(union(copies.intervals()))
            self._either = Ruler(every)
            self._either.add_all(union(merge(kernels.intervals(), copies.intervals())))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> TimeUse:
        """Where the time between two of the marks went."""
        kernel = self._kernel.length(start, end)
        host_wait = self._host_wait.length(start, end)
        kernel_wait = self._kernel_wait.length(start, end)
        return TimeUse(
            span_seconds=seconds(end - start),
            kernel_seconds=seconds(kernel),
            collective_seconds=seconds(self._collective.length(start, end)),
            exposed_collective_seconds=seconds(kernel - self._compute.length(start, end)),
            copy_seconds=seconds(self._copy.length(start, end)),
            exposed_copy_seconds=seconds(self._either.length(start, end) - kernel),
            host_wait_seconds=seconds(host_wait),
            loader_wait_seconds=seconds(self._loader_wait.length(start, end)),
            kernel_wait_seconds=seconds(kernel_wait),
            other_idle_seconds=seconds(end - start - kernel - host_wait - kernel_wait),
            checkpoint_wait_seconds=seconds(self._checkpoint_wait.length(start, end)),
        )

    def whole(self) -> TimeUse:
        """Where the time from the first kernel to the last went."""
        return self.between(*self.span)

    def _lay_idle(
        self,
        kernels: KernelLine,
        launches: Launches,
        spans: HostSpans,
        first_mark: Nanoseconds,
        adjacent: Nanoseconds,
    ) -> LaunchUse | None:
        tally = LaunchTally(launches)
        loader, checkpoints = Within(spans.loader()), Within(spans.checkpoints())
        # Before the first kernel the device waited as well, where a step had begun by then.
        lead_in = ((first_mark, first_mark, None),)
        for begin, end, cause in gaps(chain(lead_in, tally.started(kernels)), adjacent):
            if cause is IdleCause.KERNEL_WAIT:
                self._kernel_wait.add(begin, end)
                continue
            if checkpoints.current is not None:
                self._checkpoint_wait.add_all(checkpoints.of(begin, end))
            if cause is IdleCause.HOST_WAIT:
                self._host_wait.add(begin, end)
                if loader.current is not None:
                    self._loader_wait.add_all(loader.of(begin, end))
        return tally.use()
