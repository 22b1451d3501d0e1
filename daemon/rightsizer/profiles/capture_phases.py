"""Times in which graphs are recorded: what is launched then does not run."""

import numpy as np

from rightsizer.model.values import Nanoseconds
from rightsizer.profiles.timeline import Interval, Intervals, united


class CapturePhases:
    """Times in which graphs are recorded: what is launched then does not run."""

    def __init__(self) -> None:
        self._marks: list[tuple[Nanoseconds, int, str]] = []

    def mark(self, thread: int, end: str, span: Interval) -> None:
        """Add a call of a thread that begins or ends recording: `Begin` or `End`."""
        self._marks.append((span[end == "End"], thread, end))

    def phases(self) -> Intervals:
        """Return the phases: captures that follow each other within the time of the longest."""
        begun: dict[int, Nanoseconds] = {}
        captures: list[Interval] = []
        for at, thread, end in sorted(self._marks):
            if end == "Begin":
                begun.setdefault(thread, at)
            elif thread in begun:
                captures.append((begun.pop(thread), at))
        starts, ends = np.array(sorted(captures), np.int64).reshape(-1, 2).T
        longest = (ends - starts).max(initial=0)
        begins, untils = united(starts, ends + longest)
        return begins, untils - longest
