"""What the words in braces of a command that records may be."""

from collections.abc import Mapping
from typing import Final

__all__ = ["PLACEHOLDERS"]

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "pid": "a process of the workload on the GPU",
    "pids": "all of them, separated by commas",
    "gpu_uuid": "the GPU that the finding is about most",
    "gpu_index": "its index",
    "seconds": "how long to record",
    "folder": "where the profile goes, made for this capture",
    "workload": "the workload's key, without characters that mean something to programs",
}
"""Each with what it stands for."""
