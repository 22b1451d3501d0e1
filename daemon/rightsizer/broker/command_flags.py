"""Command-line flags shared by the broker's commands."""

import argparse
from typing import Any, Final

from rightsizer.broker.lease import Interconnect
from rightsizer.broker.request_parser import request_of
from rightsizer.console.command import add_flags
from rightsizer.model.errors import UsageError

_FLAGS: Final = """
--gpus N: how many
--memory SIZE: needed on each, as in 30GiB; without it all of a GPU's
--share: take GPUs beside others too, where memory and measured needs of all fit; needs --memory
--interconnect: 'nvlink': only GPUs that NVLink joins each to each
--mig PROFILE: MIG instances of this profile, as in 1g.10gb; without it whole GPUs, or one instance
  where no GPU is left
"""


def add_request_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of a GPU request."""
    kinds = {"choices": tuple(map(str, Interconnect)), "default": str(Interconnect.ANY)}
    one, none = {"default": "1"}, {"default": ""}
    add_flags(parser.add_argument, _FLAGS, gpus=one, memory=none, interconnect=kinds, mig=none)


def words_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The request as the agent takes it.

    Raises:
        UsageError: it is contradictory.
    """
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
