"""The names that `nsys stats` gives to copies and fills."""

import re
from collections.abc import Mapping
from typing import Final

from rightsizer.domain.profile import CopyKind, HostMemory

__all__ = ["copy_of", "is_fill", "is_operation"]

_COPY: Final = re.compile(r"\[CUDA (Unified Memory )?memcpy ([\w-]+)\]", re.IGNORECASE)
_FILL: Final = re.compile(r"\[CUDA memset\]", re.IGNORECASE)
_DIRECTIONS: Final[Mapping[str, CopyKind]] = {
    "host-to-device": CopyKind.HOST_TO_DEVICE,
    "device-to-host": CopyKind.DEVICE_TO_HOST,
    "device-to-device": CopyKind.DEVICE_TO_DEVICE,
    "peer-to-peer": CopyKind.PEER,
    "htod": CopyKind.HOST_TO_DEVICE,
    "dtoh": CopyKind.DEVICE_TO_HOST,
    "dtod": CopyKind.DEVICE_TO_DEVICE,
    "ptop": CopyKind.PEER,
}


def copy_of(name: str) -> tuple[CopyKind, HostMemory] | None:
    """What an operation copies; `None` where it is no copy."""
    found = _COPY.fullmatch(name.strip())
    if not found:
        return None
    memory = HostMemory.MANAGED if found[1] else HostMemory.UNKNOWN
    return _DIRECTIONS.get(found[2].lower(), CopyKind.OTHER), memory


def is_fill(name: str) -> bool:
    """Whether an operation sets memory."""
    return _FILL.fullmatch(name.strip()) is not None


def is_operation(name: str) -> bool:
    """Whether a name is that of no kernel."""
    return name.startswith("[CUDA ")
