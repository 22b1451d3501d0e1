"""Which span of the past a request asks for."""

from collections.abc import Collection, Mapping, Sequence

from rightsizer.domain.errors import UsageError
from rightsizer.domain.span import DEFAULT_SPAN, SPANS, Span, span_named

__all__ = ["span_asked"]


def span_asked(query: Mapping[str, Sequence[str]], known: Collection[str]) -> Span:
    """The span of a query, a day where it asks for none.

    Args:
        query: What was asked.
        known: The names that it may have.

    Raises:
        UsageError: it has another name, or asks for a span that there is not.
    """
    for name in query:
        if name not in known:
            raise UsageError(f"'{name}' is nothing to ask for; choose from {', '.join(known)}")
    asked = query.get("span", [DEFAULT_SPAN.name])[-1]
    span = span_named(asked)
    if span is None:
        names = ", ".join(each.name for each in SPANS)
        raise UsageError(f"span: there is no '{asked}'; choose from {names}")
    return span
