"""Which Slurm job was given which GPU, as the site's prolog and epilog write it down.

The same folder that dcgm-exporter reads: a file for each GPU, named by its index, as `3`, or by
index and MIG instance, as `3.1`; one job a line. Names by uuid are better and are read too.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["JobMapError", "read_job_map"]

_BY_INDEX: Final = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")
_BY_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{36}")
_JOB: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_FILES_MAXIMUM: Final = 1024
_FILE_BYTES_MAXIMUM: Final = 65536
_JOBS_MAXIMUM: Final = 256


class JobMapError(Exception):
    """A folder of jobs that cannot be read, in words for an operator."""


def read_job_map(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Jobs by the device's key; files that are not named after a device are passed over.

    Raises:
        JobMapError: the folder cannot be listed.
    """
    found: dict[str, tuple[str, ...]] = {}
    try:
        files = sorted(folder.iterdir())[:_FILES_MAXIMUM]
    except OSError as error:
        raise JobMapError(f"job_map_folder: {folder} cannot be listed: {error.strerror}") from None
    for file in files:
        key = _key_of(file.name)
        jobs = _jobs(file) if key is not None else ()
        if key is not None and jobs:
            found[key] = jobs
    return found


def _key_of(name: str) -> str | None:
    if _BY_UUID.fullmatch(name):
        return name
    by_index = _BY_INDEX.fullmatch(name)
    if by_index is None:
        return None
    key = f"index:{int(by_index[1])}"
    return key if by_index[2] is None else f"{key}/gi{int(by_index[2])}"


def _jobs(path: Path) -> tuple[str, ...]:
    """The jobs of one file; none where it went away or is no file."""
    try:
        # Opening a pipe would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ()
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        text = os.read(descriptor, _FILE_BYTES_MAXIMUM).decode(errors="replace")
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    lines = (line.strip() for line in text.splitlines()[:_JOBS_MAXIMUM])
    return tuple(dict.fromkeys(line for line in lines if _JOB.fullmatch(line)))
