"""The spans of the past that a reader can choose, as links."""

from dataclasses import dataclass

from rightsizer.domain.span import SPANS, Span

__all__ = ["SpanLink", "span_links"]


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A span to go to."""

    name: str
    text: str
    is_current: bool


def span_links(current: Span) -> tuple[SpanLink, ...]:
    """All spans, shortest first."""
    return tuple(SpanLink(span.name, f"the last {span.text}", span == current) for span in SPANS)
