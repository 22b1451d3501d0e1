"""Equal bytes as one object: a workload that has a device to itself did what the device did."""

from functools import lru_cache
from typing import Final

__all__ = ["shared"]

_LATEST: Final = 256
"""Equal ones come close together: what closes at one moment, of all devices and workloads."""


@lru_cache(maxsize=_LATEST)
def shared(data: bytes) -> bytes:
    """The bytes themselves, or equal ones that were lately shared and so take no more room."""
    return data
