"""Negotiation of the format of a scrape, and its rendering."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final

from msgspec import Struct

_OPEN_METRICS: Final = "application/openmetrics-text"
_TEXT: Final = "text/plain"
_OPEN_METRICS_VERSIONS: Final = ("", "1.0.0")
"""An empty version means any; 0.0.1 was a draft, 2.0.0 is not final."""
_TEXT_VERSIONS: Final = ("", "0.0.4", "1.0.0")
_ESCAPINGS: Final = ("allow-utf-8", "underscores", "dots", "values")
_DEFAULT_ESCAPING: Final = "underscores"
_HEADERS_KEPT: Final = 16
"""A scraper sends the same headers each time."""


class ExpositionFormat(Struct, frozen=True):
    """Format of a body."""

    content_type: str
    is_open_metrics: bool = False
    escaping: str = _DEFAULT_ESCAPING
    """Escaping of names. All of ours are plain, so that only dots and values change them."""


_PLAIN: Final = ExpositionFormat("text/plain; version=0.0.4; charset=utf-8")


@lru_cache(maxsize=_HEADERS_KEPT)
def format_for(accept: str) -> ExpositionFormat:
    """Return the format for an `Accept` header; text version 0.0.4 if none matches.

    Unsupported formats, such as protobuf and other versions, are skipped.
    """
    # Stable sort: equal quality keeps the order of the header.
    for _, name, parameters in sorted(_offers(accept), key=lambda offer: -offer[0]):
        if (chosen := _format_of(name, parameters)) is not None:
            return chosen
    return _PLAIN


@lru_cache(maxsize=_HEADERS_KEPT)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the body may be compressed; `gzip;q=0` forbids it."""
    return any(name in {"gzip", "x-gzip"} for _, name, _ in _offers(accept_encoding))


def _format_of(name: str, parameters: Mapping[str, str]) -> ExpositionFormat | None:
    version = parameters.get("version", "")
    escaping = parameters.get("escaping", _DEFAULT_ESCAPING)
    if escaping not in _ESCAPINGS:
        escaping = _DEFAULT_ESCAPING
    if name == _OPEN_METRICS and version in _OPEN_METRICS_VERSIONS:
        said = f"{_OPEN_METRICS}; version=1.0.0; charset=utf-8; escaping={escaping}"
        return ExpositionFormat(said, is_open_metrics=True, escaping=escaping)
    if name == _TEXT and version == "1.0.0":
        said = f"{_TEXT}; version=1.0.0; charset=utf-8; escaping={escaping}"
        return ExpositionFormat(said, escaping=escaping)
    if name in {_TEXT, "text/*", "*/*"} and version in _TEXT_VERSIONS:
        return _PLAIN
    return None


def _offers(header: str) -> Iterator[tuple[float, str, dict[str, str]]]:
    """Yield quality, name and parameters of each acceptable part of a header."""
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (parameter.partition("=") for parameter in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        with suppress(ValueError):
            if (quality := float(parameters.get("q", "1"))) > 0:
                yield quality, name.lower(), parameters


class Rendering(Struct, frozen=True):
    """A body with its headers."""

    body: bytes
    content_type: str
    encoding: str | None
    """`gzip`, or `None` for an uncompressed body."""
