"""Parser of API responses: bytes to series, without an object for each sample."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
import orjson
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.source import SampledSeries
from rightsizer.model.values import NANOSECONDS_PER_SECOND

_LENGTH: Final = 400


def plain(text: str) -> str:
    """Return the text on one line, without control characters, shortened."""
    # Twice the shown length, to allow for spaces.
    words = " ".join(text[: 2 * _LENGTH].split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:_LENGTH]


_HEAD: Final = b'"result":[{"metric":'
_NEXT: Final = b',{"metric":'
_BRACKETS: Final = (
    (b',"values":[[', b"]]}", bytes.rsplit),
    (b',"value":[', b"]}", bytes.split),
)
"""Delimiters around the samples of range and instant queries; many samples end near the end."""
_AT_ONCE: Final = 16
"""Series parsed together: as Python objects their numbers take three times the text's size, and
more of them than fit into a core's cache take half as long again."""
_HALF_CHARACTERS: Final = (b"\\ud", b"\\uD")
_MILLISECOND: Final = NANOSECONDS_PER_SECOND // 1000
_END_OF_TIME: Final = 2.0**33
"""Seconds since the epoch beyond which nanoseconds exceed 64 bits, approximately."""
_TEXT_ALONE: Final = frozenset({str})
_SHOWN: Final = 80
_TEXTS: Final = 10
"""More of them add no information."""
_HARMLESS: Final = ("PromQL info", "PromQL warning", "No StoreAPIs matched for this query")
"""Prefixes of warnings about the query, or about times without data."""


class BrokenAnswerError(ValueError):
    """An answer that was cut off or damaged on its way, so that it may be asked for again."""


class ParsedResponse(Struct, frozen=True):
    """Series of an answer, and the store's warnings."""

    series: Sequence[SampledSeries]
    warnings: tuple[str, ...] = ()
    """Warnings that do not mean missing data."""
    partial: str | None = None
    """Why data may be missing; `None` if the answer is complete."""


def parse_response(raw: bytes) -> ParsedResponse:
    """Parse a response body.

    Raises:
        ValueError: it is no such answer; the message completes "the store answered with".
    """
    try:
        envelope, series = _cut(raw)
    except (ValueError, TypeError):
        envelope = _loaded(raw)
        series = list(map(_slowly, _results(envelope)))
    if b"\\" in raw and any(character in raw for character in _HALF_CHARACTERS):
        # Lone surrogates cannot be written to files or queries.
        series = [
            replace(
                sampled_series,
                labels={
                    name.encode(errors="replace").decode(): text.encode(errors="replace").decode()
                    for name, text in sampled_series.labels.items()
                },
            )
            for sampled_series in series
        ]
    warnings = [
        plain(str(text))
        for texts in (envelope.get("warnings"), envelope.get("infos"))
        if isinstance(texts, list)
        for text in texts[:_TEXTS]
    ]
    partial = [text for text in warnings if not text.startswith(_HARMLESS)]
    if envelope.get("isPartial"):
        partial.append("isPartial is true")
    printable = tuple(text for text in warnings if text.startswith(_HARMLESS))
    return ParsedResponse(series, printable, "; ".join(partial) or None)


def _cut(raw: bytes) -> tuple[Mapping[str, Any], list[SampledSeries]]:
    """Split the response into its envelope and its series.

    Opening delimiters cannot occur in quoted text, as quotes there are escaped.

    Raises:
        ValueError: the text has an unusual format.
        TypeError: it has non-numeric samples.
    """
    opening, closing, split = next((pair for pair in _BRACKETS if pair[0] in raw), _BRACKETS[0])
    first, *others = raw.split(opening)
    head, _, first = first.partition(_HEAD)
    series: list[SampledSeries] = []
    moments: list[Any] = []
    after = _NEXT + first
    for at in range(0, len(others), _AT_ONCE):
        parts = (split(other, closing, 1) for other in others[at : at + _AT_ONCE])
        samples, afters = zip(*parts, strict=True)
        series += _series((after, *afters[:-1]), samples, moments)
        after = afters[-1]
    return _loaded(head + _HEAD.removesuffix(_NEXT[1:]) + after), series


def _series(
    heads: Sequence[bytes], samples: Sequence[bytes], moments: list[Any]
) -> Iterator[SampledSeries]:
    """Yield series, given the text before the samples of each.

    `moments` are the seconds and times of the series before, which most of an answer share.

    Raises:
        ValueError: the text has an unusual format.
        TypeError: it has non-numeric samples.
    """
    # Times and values alternate; quotes of values are removed.
    numbers = orjson.loads(b"[" + b",".join(samples).translate(None, b'[]"') + b"]")
    ends = [*accumulate(sample.count(b"[") + 1 for sample in samples)]
    if 2 * ends[-1] != len(numbers):
        raise ValueError("something beside times and values")
    values = np.fromiter(numbers[1::2], float, ends[-1])
    for head, begin, end in zip(heads, (0, *ends), ends, strict=False):
        seconds = numbers[2 * begin : 2 * end : 2]
        if not moments or moments[0] != seconds:
            moments[:] = seconds, _nanoseconds(np.fromiter(seconds, float, len(seconds)))
        yield SampledSeries(_named(head), moments[1], values[begin:end])


@lru_cache(maxsize=4096)  # Twice the series of one query.
def _named(head: bytes) -> Mapping[str, str]:
    """Return the labels before a series' samples, which the answers of a shard share.

    Raises:
        ValueError: something else is there.
    """
    if not head.startswith(_NEXT):
        raise ValueError("something between the series")
    return _labels(orjson.loads(head.removeprefix(_NEXT)))


def _slowly(result: Any) -> SampledSeries:
    """Return a series parsed as JSON, without non-numeric samples.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(result, dict) or "histogram" in result or "histograms" in result:
        raise ValueError("native histograms, which this program does not read; ask for another")
    try:
        labels = _labels(result["metric"])
        samples = result["values"] if "values" in result else [result["value"]]
        pairs = np.array([(float(time), float(value)) for time, value in samples]).reshape(-1, 2)
        is_known = np.isfinite(pairs[:, 1])
        return SampledSeries(labels, _nanoseconds(pairs[is_known, 0]), pairs[is_known, 1])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError("a series that is none") from error


def _nanoseconds(seconds: Floats) -> NDArray[np.int64]:
    """Convert seconds to nanoseconds via milliseconds, the precision of stores.

    Raises:
        ValueError: a time is out of range.
    """
    if not np.all((seconds >= 0) & (seconds < _END_OF_TIME)):
        raise ValueError("a time that is none")
    return np.rint(seconds * 1000).astype(np.int64) * _MILLISECOND


def _labels(metric: Any) -> Mapping[str, str]:
    if not isinstance(metric, dict) or not _TEXT_ALONE.issuperset(map(type, metric.values())):
        raise ValueError("a series whose labels are none")
    return metric


def _loaded(raw: bytes) -> Mapping[str, Any]:
    """Return the envelope of a successful response.

    Raises:
        ValueError: it is none, or reports an error.
    """
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        shown = plain(raw[:_SHOWN].decode(errors="replace"))
        if shown.startswith("{"):
            raise BrokenAnswerError(f"JSON that is broken or cut off ('{shown}')") from None
        raise ValueError(
            f"something that is not JSON ('{shown}'); is a login page or a proxy in the way?"
        ) from None
    if isinstance(document, dict) and document.get("status") == "error":
        raise ValueError(plain(f"an error ({document.get('errorType')}): {document.get('error')}"))
    if not isinstance(document, dict) or document.get("status") != "success":
        raise ValueError("JSON that is no answer of Prometheus's API; is the path right?")
    return document


def _results(envelope: Mapping[str, Any]) -> list[Any]:
    data = envelope.get("data")
    if not isinstance(data, dict):
        raise ValueError("JSON without data; is the path right?")  # noqa: TRY004 - a fault of the text.
    kind = data.get("resultType")
    result = data.get("result")
    if kind == "scalar":
        return [{"metric": {}, "value": result}]
    if kind not in ("vector", "matrix") or not isinstance(result, list):
        raise ValueError("JSON without series; is the path right?")
    return result
