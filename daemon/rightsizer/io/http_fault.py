"""What a failed request tells, read from headers and exceptions."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after_seconds(header: str | None, now_seconds: float) -> float | None:
    """How long a peer asks to be left alone, in seconds or as a date; `None` if it does not."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", header.strip()):
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now_seconds)


def is_about_a_file(error: BaseException) -> bool:
    """Whether a certificate or its key cannot be read, which is met while connecting."""
    found = error.args[-1] if error.args else None
    return isinstance(found, OSError) and found.filename is not None


def cause(error: BaseException) -> str:
    """What the operating system said, without urllib3's words around it."""
    if isinstance(error.__cause__, OSError):
        return str(error.__cause__)
    if isinstance(error, OSError) or not error.args:
        return str(error) or type(error).__name__
    return str(error.args[-1])
