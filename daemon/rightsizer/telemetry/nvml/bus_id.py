"""The PCI address of an answer, as the driver writes it."""

from typing import Any

__all__ = ["bus_id"]


def bus_id(info: Any) -> str | None:
    """The address in lower case; `None` where the driver filled in nothing that is one.

    Args:
        info: The bindings' structure, or `None` for no answer.
    """
    try:
        text = "" if info is None else info.busId
    except UnicodeDecodeError:  # The bindings decode a field when it is asked for.
        return None
    decoded = text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)
    return decoded.lower() or None
