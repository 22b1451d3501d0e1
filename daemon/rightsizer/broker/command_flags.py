"""Command-line flags shared by the broker's commands."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rightsizer.broker.lease import Interconnect
from rightsizer.broker.request_parser import request_of
from rightsizer.console.settings_flags import add_config_flag, settings_of
from rightsizer.host.settings import PathSettings
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import RightsizerError, UsageError


@dataclass(frozen=True, slots=True)
class _BrokerCommandSettings:
    """Sections that the commands read."""

    path: PathSettings = field(default_factory=PathSettings)


def add_request_flags(parser: argparse.ArgumentParser) -> None:
    """What is wanted, in the words of `rightsizer place`."""
    parser.add_argument("--gpus", default="1", metavar="N", help="how many")
    parser.add_argument(
        "--memory",
        default="",
        metavar="SIZE",
        help="needed on each, as in 30GiB; without it all of a GPU's",
    )
    parser.add_argument(
        "--share",
        action="store_true",
        help="take GPUs beside others too, where memory and measured needs of all fit; "
        "needs --memory",
    )
    parser.add_argument(
        "--interconnect",
        choices=tuple(map(str, Interconnect)),
        default=str(Interconnect.ANY),
        help="'nvlink': only GPUs that NVLink joins each to each",
    )
    parser.add_argument(
        "--mig",
        default="",
        metavar="PROFILE",
        help="MIG instances of this profile, as in 1g.10gb; without it whole GPUs, or one instance "
        "where no GPU is left",
    )


def add_agent_flags(parser: argparse.ArgumentParser) -> None:
    """Where the agent is."""
    parser.add_argument(
        "--path.api-socket",
        dest="api_socket",
        type=Path,
        metavar="FILE",
        help="the agent's socket; without it path.api_socket of the configuration "
        f"(default: {PathSettings().api_socket})",
    )
    add_config_flag(parser)


def words_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is wanted, as the agent takes it.

    Raises:
        UsageError: it contradicts itself.
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


def client_of(arguments: argparse.Namespace) -> LocalClient:
    """The agent.

    Raises:
        RightsizerError: the configuration names no socket.
    """
    path = arguments.api_socket or settings_of(arguments, _BrokerCommandSettings).path.api_socket
    if not path:
        raise RightsizerError(
            "path.api_socket is empty, so the agent takes no requests; set it and restart the agent"
        )
    return LocalClient(Path(path))
