"""Negotiation of the format of a scrape, and its rendering."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rightsizer.model.frozen import dataclass

_OPEN_METRICS: Final = "application/openmetrics-text"
_TEXT: Final = "text/plain"
_OPEN_METRICS_VERSIONS: Final = ("", "1.0.0")
"""An empty one means any. Version 0.0.1 was a draft, 2.0.0 is not written yet."""
_TEXT_VERSIONS: Final = ("", "0.0.4", "1.0.0")
_ESCAPINGS: Final = ("allow-utf-8", "underscores", "dots", "values")
_DEFAULT_ESCAPING: Final = "underscores"
_HEADERS_KEPT: Final = 16
"""A scraper sends the same each time."""


@dataclass(frozen=True, slots=True)
class ExpositionFormat:
    """What a body is written in."""

    content_type: str
    is_open_metrics: bool = False
    escaping: str = _DEFAULT_ESCAPING
    """Of names that are not plain. All of ours are, so that only dots and values change them."""


_PLAIN: Final = ExpositionFormat("text/plain; version=0.0.4; charset=utf-8")


@dataclass(frozen=True, slots=True)
class _FormatOffer:
    """One part of an `Accept` header."""

    name: str
    parameters: dict[str, str]

    @property
    def quality(self) -> float:
        """How much it is wanted, 0 to 1; what cannot be read counts as not wanted."""
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 0.0


@lru_cache(maxsize=_HEADERS_KEPT)
def format_for(accept: str) -> ExpositionFormat:
    """The format for an `Accept` header; version 0.0.4 of the text where none fits.

    What we do not write, such as protobuf and other versions, is passed over.
    """
    offers = [offer for offer in _offers(accept) if offer.quality > 0]
    # A stable sort: of two that are wanted alike, the first one named.
    for offer in sorted(offers, key=lambda offer: -offer.quality):
        if (chosen := _format_of(offer)) is not None:
            return chosen
    return _PLAIN


@lru_cache(maxsize=_HEADERS_KEPT)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the body may be compressed; `gzip;q=0` says that it may not."""
    return any(
        offer.name in {"gzip", "x-gzip"} and offer.quality > 0 for offer in _offers(accept_encoding)
    )


def _format_of(offer: _FormatOffer) -> ExpositionFormat | None:
    version = offer.parameters.get("version", "")
    escaping = offer.parameters.get("escaping", _DEFAULT_ESCAPING)
    if escaping not in _ESCAPINGS:
        escaping = _DEFAULT_ESCAPING
    if offer.name == _OPEN_METRICS and version in _OPEN_METRICS_VERSIONS:
        said = f"{_OPEN_METRICS}; version=1.0.0; charset=utf-8; escaping={escaping}"
        return ExpositionFormat(said, is_open_metrics=True, escaping=escaping)
    if offer.name == _TEXT and version == "1.0.0":
        said = f"{_TEXT}; version=1.0.0; charset=utf-8; escaping={escaping}"
        return ExpositionFormat(said, escaping=escaping)
    if offer.name in {_TEXT, "text/*", "*/*"} and version in _TEXT_VERSIONS:
        return _PLAIN
    return None


def _offers(header: str) -> Iterator[_FormatOffer]:
    for part in header.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield _FormatOffer(
            name.lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        )


@dataclass(frozen=True, slots=True)
class Rendering:
    """A body, and what its headers say of it."""

    body: bytes
    content_type: str
    encoding: str | None
    """`gzip`, or `None` for a body as it is."""
