"""Where a figure of the catalogue comes from, and how far it can be trusted."""

from dataclasses import dataclass
from enum import StrEnum


class OriginKind(StrEnum):
    """How a figure came to be known, the surest first."""

    STATED = "stated"
    """By the operator, in a file of their own."""
    MEASURED = "measured"
    VERIFIED = "verified"
    """Recalled, and compared with a public table."""
    RECALLED = "recalled"
    """From a datasheet, not compared with anything."""
    ASSUMED = "assumed"
    """From what is known of boards alike."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How a figure came to be known, and from whom."""

    kind: OriginKind
    source: str
