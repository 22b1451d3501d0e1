"""What a probe found in a store, for a person: each source, and what it does and does not tell."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightsizer.cli.counted import counted
from rightsizer.cli.wrapped import wrapped
from rightsizer.domain.units import format_duration

__all__ = ["sources_text"]


def sources_text(sources: Sequence[Mapping[str, Any]], now_seconds: float) -> list[str]:
    """In lines of at most 100 columns; those that are not there in one of them.

    Args:
        sources: As JSON has them.
        now_seconds: Wall time.
    """
    lines = ["Sources:"]
    for source in sources:
        if source["is_found"]:
            lines += _source(source, now_seconds)
    if absent := [each["source"] for each in sources if not each["is_found"]]:
        lines += wrapped(f"not in the store: {', '.join(absent)}", 2)
    return lines


def _source(source: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    facts = ", ".join(_facts(source, now_seconds))
    yield f"  {source['source']}{': ' if facts else ''}{facts}"
    for mark, key in (("+", "can"), ("-", "cannot"), ("!", "warnings")):
        for sentence in source[key]:
            yield from wrapped(f"{mark} {sentence}", 4)


def _facts(source: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    """What is counted of a source that tells of devices; others have none of it."""
    if source["devices"]:
        yield counted(source["devices"], "device")
    if source["oldest"] is not None:
        yield f"{format_duration(max(0.0, now_seconds - source['oldest']))} back"
    elif source["devices"]:
        yield "nothing within the lookback"
    if source["resolution_seconds"] is not None:
        yield f"every {format_duration(source['resolution_seconds'])}"
    if source["devices"]:
        yield f"{source['tier']} tier"
