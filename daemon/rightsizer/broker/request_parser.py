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
    request = GpuRequest(
        gpus=_gpus(words.get("gpus", "1")),
        memory_bytes=_memory(words.get("memory", "")),
        may_share=_switch(words.get("share", "")),
        interconnect=_interconnect(words.get("interconnect", Interconnect.ANY)),
        mig_profile=_profile(words.get("mig", "")),
    )
    if request.mig_profile and request.gpus > 1 and request.interconnect is Interconnect.NVLINK:
        raise UsageError(
            "interconnect: NVLink joins no MIG instances; leave it out, or ask for whole GPUs"
        )
    return request


def _gpus(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _MOST):
        raise UsageError(f"gpus: '{text[:40]}' is no number from 1 to {_MOST}")
    return int(text)


def _memory(text: str) -> float | None:
    if not text:
        return None
    try:
        size = float(parse_size(text))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from None
    if size <= 0:
        raise UsageError(f"memory: '{text}' is none at all; leave it out for all of a GPU's")
    return size


def _switch(text: str) -> bool:
    value = _SWITCH.get(text.lower())
    if value is None:
        raise UsageError(f"share: '{text[:40]}' is neither true nor false")
    return value


def _interconnect(text: str) -> Interconnect:
    try:
        return Interconnect(text.lower())
    except ValueError:
        known = ", ".join(Interconnect)
        raise UsageError(f"interconnect: there is no '{text[:40]}'; choose from {known}") from None


def _profile(text: str) -> str | None:
    profile = text.lower()
    if profile and not _PROFILE.fullmatch(profile):
        raise UsageError(f"mig: '{text[:40]}' is no MIG profile; write it like '1g.10gb'")
    return profile or None
