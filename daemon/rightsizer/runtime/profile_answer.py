"""Files of profilers read, told apart by workload, and judged."""

from collections.abc import Iterable
from pathlib import Path

from rightsizer.profiles.formats import read_all
from rightsizer.profiles.reader import ReadLimits
from rightsizer.runtime.profiled_workload import ProfiledWorkload, judged_workloads

__all__ = ["ProfiledWorkload", "judged_workloads", "profiled_workloads"]


def profiled_workloads(paths: Iterable[Path], limits: ReadLimits) -> tuple[ProfiledWorkload, ...]:
    """Every workload of some files and folders.

    Raises:
        ProfileError: one of them cannot be read, or is of no known format.
    """
    return judged_workloads(read_all(paths, limits))
