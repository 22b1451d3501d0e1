"""Kernels that were launched and whose runs the profiler lost: full buffers drop records."""

from functools import cached_property
from typing import Final

import numpy as np

from rightsizer.profiles.columns import Texts, coded
from rightsizer.profiles.timeline import LATEST, Columns, Numbers

_LEAST_RATIO: Final = 0.01
"""Share of launches worth naming; recordings that lost nothing have none."""


class LostKernels:
    """Matches launches of single kernels with runs, by correlation."""

    def __init__(self) -> None:
        self._calls = Columns("i8", "i8")
        self._runs = Columns("i8")
        self._is_known = True
        self._launches = 0

    def calls(self, names: Texts, correlations: Numbers, starts: Numbers) -> None:
        """Add calls of the host; in a capture kernels are launched without a run."""
        functions = coded(names)
        if any("BeginCapture" in name for name in functions.values):
            self._is_known = False
        is_counted = functions.array(_launches_a_kernel, bool)
        self._launches += int(is_counted.sum())
        self._calls.extend(starts[is_counted], correlations[is_counted])
        for column in (correlations, starts):
            self._is_known &= bool(((column > -LATEST) & (column < LATEST)).all())

    def runs(self, correlations: Numbers) -> None:
        """Add runs of kernels."""
        if ((correlations <= -LATEST) | (correlations >= LATEST)).any():
            self._is_known = False
        else:
            self._runs.extend(correlations)

    @cached_property
    def _counts(self) -> tuple[int, int]:
        """Runs lost between others, and after the last; 0 if few or unknown."""
        if not self._is_known or not len(self._runs):
            return 0, 0
        starts, launched = self._calls.read()
        is_lost = ~np.isin(launched, self._runs.read()[0])
        last = starts[~is_lost].max(initial=starts.min(initial=LATEST))
        later = int((starts[is_lost] > last).sum())
        least = _LEAST_RATIO * self._launches
        between, later = (
            count if count >= least else 0 for count in (int(is_lost.sum()) - later, later)
        )
        return between, later

    @property
    def is_whole(self) -> bool:
        """Whether no runs are missing between others."""
        return not self._counts[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what is missing beside runs."""
        between, later = self._counts
        notes = []
        if between:
            notes.append(
                f"Not whole: {between:,} of {self._launches:,} launched kernels are not in "
                "it, since the profiler dropped records; record fewer steps."
            )
        if later:
            notes.append(
                f"The last {later:,} launched kernels are not in it: recording ended early."
            )
        return tuple(notes)

    @property
    def all_lost_text(self) -> str:
        """Sentence on launches without any run; empty without launches."""
        if not self._launches:
            return ""
        return (
            f"{self._launches:,} launches of kernels were recorded, but no run: another "
            "profiler may hold the GPU's activities, or its driver restricts them."
        )


def _launches_a_kernel(name: str) -> bool:
    return "Launch" in name and "Graph" not in name and "HostFunc" not in name
