"""Serves everything below a path, as behind a proxy that passes paths on as they are."""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from rightsizer.domain.errors import UsageError
from rightsizer.publish.web.message import Request, Response

__all__ = ["below", "checked_path"]

_Answer = Callable[[Request], Response]


def checked_path(text: str) -> str:
    """A path as an operator writes it.

    Raises:
        UsageError: it does not begin with a slash, or has what no path has.
    """
    if not text.startswith("/") or not (text.isascii() and text.isprintable()):
        raise UsageError(f"'{text}' is not a path; write it like '/metrics'")
    if set(text) & set(" ?#{}%"):
        raise UsageError(f"'{text}' has a letter that a path cannot have; write it like '/metrics'")
    return text


def below(prefix: str, answer: _Answer) -> _Answer:
    """Answers that know nothing of the prefix, for requests that have it."""
    prefix = prefix.rstrip("/")
    if not prefix:
        return answer

    def answer_below(request: Request) -> Response:
        if request.path in {"/", prefix}:
            return Response.of_text(f"see {prefix}/", HTTPStatus.FOUND, {"Location": f"{prefix}/"})
        if not request.path.startswith(f"{prefix}/"):
            return Response.of_text(
                f"there is nothing at {request.path}; everything is below {prefix}/",
                HTTPStatus.NOT_FOUND,
            )
        return answer(replace(request, path=request.path.removeprefix(prefix)))

    return answer_below
