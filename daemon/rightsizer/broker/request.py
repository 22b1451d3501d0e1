"""GPU requests of commands and queries: routes, words, flags."""

import argparse
import re
from collections.abc import Mapping
from typing import Any, Final

from rightsizer.broker.lease import GpuRequest, Interconnect
from rightsizer.config.spelling import parse_size
from rightsizer.console.command import add_flags, help_of
from rightsizer.model.errors import UsageError

_HELP: Final = help_of(__file__)
LEASES_PATH: Final = "/api/v1/leases"
BROKER_PATH: Final = "/api/v1/broker"
RESERVATIONS_PATH: Final = "/api/v1/reservations"
ROUTES: Final = (
    ("POST", LEASES_PATH),
    ("GET", f"{LEASES_PATH}/{{id}}"),
    ("DELETE", f"{LEASES_PATH}/{{id}}"),
    ("GET", BROKER_PATH),
    ("POST", RESERVATIONS_PATH),
    ("DELETE", f"{RESERVATIONS_PATH}/{{id}}"),
)
PLACE_PATH: Final = "/api/v1/place"
WORDS: Final = ("gpus", "memory", "share", "interconnect", "mig")
_MOST: Final = 1024
"""More than any machine has."""
_PROFILE: Final = re.compile(r"(?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z.]+)*")
_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False, "": False}


def request_of(words: Mapping[str, str]) -> GpuRequest:
    """Parse a request from texts by the names of `WORDS`, with defaults for missing ones.

    Raises:
        UsageError: a name or a value is unknown, or values contradict each other.
    """
    for name in words:
        if name not in WORDS:
            raise UsageError(f"'{name}' is nothing to ask for; choose from {', '.join(WORDS)}")
    gpus = words.get("gpus", "1")
    memory = words.get("memory", "")
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
        text = words["interconnect"]
        choices = ", ".join(Interconnect)
        raise UsageError(f"interconnect: there is no '{text[:40]}'; choose from {choices}")
    if (mig := words.get("mig", "").lower()) and not _PROFILE.fullmatch(mig):
        text = words["mig"]
        raise UsageError(f"mig: '{text[:40]}' is no MIG profile; write it like '1g.10gb'")
    request = GpuRequest(int(gpus), memory_bytes, may_share, Interconnect(joined), mig or None)
    if request.mig_profile and request.gpus > 1 and request.interconnect is Interconnect.NVLINK:
        raise UsageError(
            "interconnect: NVLink joins no MIG instances; leave it out, or ask for whole GPUs"
        )
    return request


def add_request_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a GPU request."""
    kinds = {"choices": tuple(map(str, Interconnect)), "default": str(Interconnect.ANY)}
    one = {"default": "1"}
    none = {"default": ""}
    add_flags(
        parser.add_argument, _HELP["flags"], gpus=one, memory=none, interconnect=kinds, mig=none
    )


def words_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Request in the agent's format; raises `UsageError` if contradictory."""
    if arguments.share and not arguments.memory:
        raise UsageError("--share: say how much memory is needed on each GPU, as in --memory 10GiB")
    words = {
        "gpus": arguments.gpus,
        "memory": arguments.memory,
        "share": "true" if arguments.share else "",
        "interconnect": arguments.interconnect,
        "mig": arguments.mig,
    }
    given = {name: word for name, word in words.items() if word}
    request_of(given)
    return given
