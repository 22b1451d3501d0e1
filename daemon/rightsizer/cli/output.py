"""Standard output, which may be full, or read by somebody who has seen enough."""

import os
import sys

from rightsizer.domain.errors import RightsizerError

__all__ = ["discard_output", "say"]


def say(text: str) -> None:
    """Print a text at once, so that a fault can still be told.

    Raises:
        BrokenPipeError: nobody reads any more.
        RightsizerError: it cannot be written.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise RightsizerError(
            f"standard output cannot be written: {error.strerror}; make room where it goes, or "
            "send it elsewhere"
        ) from None


def discard_output() -> None:
    """Let what waits in standard output go nowhere, so that leaving has nothing to fail at."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
