"""Values of flags that are more than words and numbers."""

import argparse

from rightsizer.model.errors import UsageError
from rightsizer.model.units import parse_duration
from rightsizer.web.settings import parse_address


def checked_address(text: str) -> str:
    """An address of the command line, as it was written.

    Raises:
        UsageError: it is none.
    """
    try:
        parse_address(text)
    except UsageError as error:
        raise UsageError(f"--web.listen-address: {error}") from None
    return text


def duration(text: str) -> float:
    """Seconds of a duration on the command line, longer than none."""
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no time at all")
    return value
