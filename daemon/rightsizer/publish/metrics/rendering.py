"""A scrape's answer."""

from dataclasses import dataclass

__all__ = ["Rendering"]


@dataclass(frozen=True, slots=True)
class Rendering:
    """A body, and what its headers say of it."""

    body: bytes
    content_type: str
    encoding: str | None
    """`gzip`, or `None` for a body as it is."""
