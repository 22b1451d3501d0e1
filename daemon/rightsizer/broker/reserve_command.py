"""`rightsizer reserve` and `rightsizer cancel`: reserve GPUs for later, or cancel that."""

import argparse
import time
from typing import Any, Final

from rightsizer.broker.command_flags import add_request_flags, words_of
from rightsizer.broker.paths import LEASES_PATH, RESERVATIONS_PATH
from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.command import Command, add_flags, answer, say
from rightsizer.console.flags import duration, moment
from rightsizer.model.errors import RefusedError, RightsizerError, UsageError
from rightsizer.model.units import seconds

_DESCRIPTION: Final = """\
Keep GPUs free for a time to come. From now on nothing is lent on them that may last into it; what
runs on is not ended. Use it by its id:

  rightsizer reserve --gpus 4 --at 2026-12-01T08:00+01:00 --for 6h
  rightsizer run --gpus 4 --reservation ID -- python train.py

'rightsizer cancel ID' takes it back.
"""


_LENGTH: Final = """
--for TIME: how long, as in 6h
"""
_BEGIN: Final = """
--in TIME: from so long on (default: now)
--at TIME: from then on: ISO 8601, or seconds of the epoch
"""
_ANSWER: Final = """
--user NAME: for whom; for others by operators alone
--json: answer in JSON; times in seconds
"""


def configure_reserve(parser: argparse.ArgumentParser) -> None:
    """What, for whom, and when."""
    add_request_flags(parser)
    add_flags(parser.add_argument, _LENGTH, for_={"type": duration, "required": True})
    begin = parser.add_mutually_exclusive_group()
    add_flags(begin.add_argument, _BEGIN, in_=duration, at=moment)
    add_flags(parser.add_argument, _ANSWER, user={"default": ""})
    add_agent_flags(parser)


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    """What to take back."""
    parser.add_argument("id", help="of a lease, a ticket or a reservation (rightsizer queue)")
    add_agent_flags(parser)


def reserve(arguments: argparse.Namespace) -> int:
    """Ask, and say what is kept."""
    ahead = arguments.in_ or 0.0
    if arguments.at is not None:
        ahead = seconds(arguments.at) - time.time()
        if ahead < 0:
            raise UsageError("--at: is in the past; leave it out to begin now")
    body = {
        **words_of(arguments),
        "in": _written(ahead),
        "for": _written(arguments.for_),
        "user": arguments.user or None,
    }
    try:
        form: Any = client_of(arguments).post(RESERVATIONS_PATH, body)
    except RefusedError as error:
        # Rightly asked: another time, or for less, it can be had.
        raise RightsizerError(str(error)) from None
    answer(arguments, form, _sentence(form["message"]))
    return 0


def cancel(arguments: argparse.Namespace) -> int:
    """Take back, and say what."""
    client = client_of(arguments)
    try:
        form = client.delete(f"{RESERVATIONS_PATH}/{arguments.id}")
    except UsageError as error:
        if "there is no" not in str(error):
            raise
        form = client.delete(f"{LEASES_PATH}/{arguments.id}")
    say(_sentence(form["message"]))
    return 0


def _written(duration_seconds: float) -> str:
    """As the agent takes it, to the millisecond."""
    return f"{round(duration_seconds * 1000)}ms" if duration_seconds else "0s"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


RESERVE = Command("reserve", configure_reserve, reserve, _DESCRIPTION)
CANCEL = Command("cancel", configure_cancel, cancel)
