"""What a copy's name tells: `Memcpy HtoD (Pageable -> Device)`."""

import re
from typing import Final

from rightsizer.domain.profile import CopyKind, HostMemory

__all__ = ["copy_kind", "host_memory"]

# M is what Intel's tracer calls memory that the device's driver did not allocate: the host's.
_KINDS: Final = (
    (re.compile(r"HtoD|[HM]2D|Host[- ]?to[- ]?Device", re.IGNORECASE), CopyKind.HOST_TO_DEVICE),
    (re.compile(r"DtoH|D2[HM]|Device[- ]?to[- ]?Host", re.IGNORECASE), CopyKind.DEVICE_TO_HOST),
    (re.compile(r"PtoP|P2P|Peer", re.IGNORECASE), CopyKind.PEER),
    (re.compile(r"DtoD|D2D|Device[- ]?to[- ]?Device", re.IGNORECASE), CopyKind.DEVICE_TO_DEVICE),
)
_MEMORIES: Final = (
    (re.compile(r"pageable", re.IGNORECASE), HostMemory.PAGEABLE),
    (re.compile(r"pinned", re.IGNORECASE), HostMemory.PINNED),
    (re.compile(r"managed|unified", re.IGNORECASE), HostMemory.MANAGED),
)


def copy_kind(name: str) -> CopyKind:
    """From where to where."""
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), CopyKind.OTHER)


def host_memory(name: str) -> HostMemory:
    """What the host's side is; ROCm does not say."""
    found = (memory for pattern, memory in _MEMORIES if pattern.search(name))
    return next(found, HostMemory.UNKNOWN)
