"""A command: name, flags, function; and its standard output, which may be closed."""

import argparse
import os
import re
import sys
from collections.abc import Callable
from typing import Final

from rightsizer.model.errors import RightsizerError
from rightsizer.model.frozen import dataclass

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal would do something at, turn around, or choke on; names of others may hold it."""


def say(text: str) -> None:
    """Print a text at once, so that a fault can still be told.

    Raises:
        BrokenPipeError: nobody reads any more.
        RightsizerError: it cannot be written.
    """
    try:
        print(harmless(text), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise RightsizerError(
            f"standard output cannot be written: {error.strerror}; make room where it goes, or "
            "send it elsewhere"
        ) from None


def harmless(text: str) -> str:
    """A text that does nothing to a terminal."""
    return _OBEYED.sub("?", text)


def discard_output() -> None:
    """Let what waits in standard output go nowhere, so that leaving has nothing to fail at."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@dataclass(frozen=True, slots=True)
class Command:
    """One word after `rightsizer`."""

    name: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    description: str = ""
