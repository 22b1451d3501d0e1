"""Parser of a GPU request in words, from the command line or a query."""

import re
from collections.abc import Mapping
from typing import Final

from rightsizer.broker.lease import GpuRequest, Interconnect
from rightsizer.config.spelling import parse_size
from rightsizer.model.errors import UsageError

WORDS: Final = ("gpus", "memory", "share", "interconnect", "mig")
_MOST: Final = 1024
"""More than any machine has."""
_PROFILE: Final = re.compile(r"(?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z.]+)*")
_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False, "": False}


def request_of(words: Mapping[str, str]) -> GpuRequest:
    """A request from texts by the names of `WORDS`; missing ones have their default.

    Raises:
        UsageError: a name or a value is unknown, or values contradict each other.
    """
    for name in words:
        if name not in WORDS:
            raise UsageError(f"'{name}' is nothing to ask for; choose from {', '.join(WORDS)}")
    gpus, memory = words.get("gpus", "1"), words.get("memory", "")
    if not (gpus.isascii() and gpus.isdecimal() and 1 <= int(gpus[:9]) <= _MOST):
        raise UsageError(f"gpus: '{gpus[:40]}' is no number from 1 to {_MOST}")
    try:
        memory_bytes = float(parse_size(memory)) if memory else None
    except ValueError as error:
        raise UsageError(f"memory: {error}") from None
    if memory_bytes is not None and memory_bytes <= 0:
        raise UsageError(f"memory: '{memory}' is none at all; leave it out for all of a GPU's")
    share = words.get("share", "")
    if (may_share := _SWITCH.get(share.lower())) is None:
        raise UsageError(f"share: '{share[:40]}' is neither true nor false")
    joined = words.get("interconnect", Interconnect.ANY).lower()
    if joined not in tuple(Interconnect):
        text, known = words["interconnect"], ", ".join(Interconnect)
        raise UsageError(f"interconnect: there is no '{text[:40]}'; choose from {known}")
    mig = words.get("mig", "").lower()
    if mig and not _PROFILE.fullmatch(mig):
        text = words["mig"]
        raise UsageError(f"mig: '{text[:40]}' is no MIG profile; write it like '1g.10gb'")
    request = GpuRequest(int(gpus), memory_bytes, may_share, Interconnect(joined), mig or None)
    if request.mig_profile and request.gpus > 1 and request.interconnect is Interconnect.NVLINK:
        raise UsageError(
            "interconnect: NVLink joins no MIG instances; leave it out, or ask for whole GPUs"
        )
    return request
