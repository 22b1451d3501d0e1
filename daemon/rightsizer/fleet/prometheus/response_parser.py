"""Parser of API responses: bytes to series, without an object for each sample."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.source import SampledSeries
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.units import NANOSECONDS_PER_SECOND

_LENGTH: Final = 400


def plain(text: str) -> str:
    """The text on one line, without what a terminal would obey, and not longer than two or so."""
    # Twice as much as is shown, as spaces go.
    words = " ".join(text[: 2 * _LENGTH].split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:_LENGTH]


_HEAD: Final = b'"result":[{"metric":'
_NEXT: Final = b',{"metric":'
_BRACKETS: Final = ((b',"values":[[', b"]]}"), (b',"value":[', b"]}"))
"""What stands before and after the samples of a range query, and of an instant one."""
_HALF_CHARACTERS: Final = (b"\\ud", b"\\uD")
_MILLISECOND: Final = NANOSECONDS_PER_SECOND // 1000
_END_OF_TIME: Final = 2.0**33
"""Seconds since the epoch at which nanoseconds no longer fit into 64 bits, about."""
_TEXT_ALONE: Final = frozenset({str})
_SHOWN: Final = 80
_TEXTS: Final = 10
"""More of them say no more."""
_HARMLESS: Final = ("PromQL info", "PromQL warning", "No StoreAPIs matched for this query")
"""How warnings begin that are about the query, or about a time of which nothing is kept."""


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """The series of an answer, and the store's warnings."""

    series: Sequence[SampledSeries]
    warnings: tuple[str, ...] = ()
    """Those that do not mean that something is missing."""
    partial: str | None = None
    """Why something may be missing; `None` where the answer is whole."""


def parse_response(raw: bytes) -> ParsedResponse:
    """The answer in a body.

    Raises:
        ValueError: it is no such answer; the message completes "the store answered with".
    """
    try:
        envelope, series = _cut(raw)
    except (ValueError, TypeError):
        envelope = _loaded(raw)
        series = list(map(_slowly, _results(envelope)))
    if b"\\" in raw and any(each in raw for each in _HALF_CHARACTERS):
        # No file and no query takes a half of a character.
        series = [
            replace(
                each,
                labels={
                    name.encode(errors="replace").decode(): text.encode(errors="replace").decode()
                    for name, text in each.labels.items()
                },
            )
            for each in series
        ]
    warnings = [
        plain(str(text))
        for found in (envelope.get("warnings"), envelope.get("infos"))
        if isinstance(found, list)
        for text in found[:_TEXTS]
    ]
    partial = [text for text in warnings if not text.startswith(_HARMLESS)]
    if envelope.get("isPartial"):
        partial.append("isPartial is true")
    harmless = tuple(text for text in warnings if text.startswith(_HARMLESS))
    return ParsedResponse(series, harmless, "; ".join(partial) or None)


def _cut(raw: bytes) -> tuple[Mapping[str, Any], list[SampledSeries]]:
    """What is around the series, and the series.

    No quoted text can hold what is searched for, as its quotes have backslashes.

    Raises:
        ValueError: the text is not written as usual.
        TypeError: it has samples that are no numbers.
    """
    opening, closing = next((pair for pair in _BRACKETS if pair[0] in raw), _BRACKETS[0])
    first, *others = raw.split(opening)
    head, _, first = first.partition(_HEAD)
    samples, afters = zip(*(other.split(closing, 1) for other in others), strict=True)
    *followers, tail = afters
    if not all(each.startswith(_NEXT) for each in followers):
        raise ValueError("something between the series")
    texts = (first, *(each.removeprefix(_NEXT) for each in followers))
    metrics = orjson.loads(b"[" + b",".join(texts) + b"]")
    # Times and values in turn, the latter without their quotes.
    numbers = orjson.loads(b"[" + b",".join(samples).translate(None, b'[]"') + b"]")
    pairs = np.fromiter(numbers, float, len(numbers)).reshape(-1, 2)
    ends = np.cumsum([each.count(b"[") + 1 for each in samples]).tolist()
    if len(metrics) != len(samples) or ends[-1] != len(pairs):
        raise ValueError("something beside times and values")
    times, values = _nanoseconds(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    found = [
        SampledSeries(_labels(metric), times[begin:end], values[begin:end])
        for metric, begin, end in zip(metrics, (0, *ends), ends, strict=False)
    ]
    return _loaded(head + _HEAD.removesuffix(_NEXT[1:]) + tail), found


def _slowly(result: Any) -> SampledSeries:
    """A series that was read as JSON, without the samples that are no numbers.

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
    """Stores know milliseconds, and a double of seconds is too coarse for nanoseconds.

    Raises:
        ValueError: no clock is that wrong.
    """
    if not np.all((seconds >= 0) & (seconds < _END_OF_TIME)):
        raise ValueError("a time that is none")
    return np.rint(seconds * 1000).astype(np.int64) * _MILLISECOND


def _labels(metric: Any) -> Mapping[str, str]:
    if not isinstance(metric, dict) or not _TEXT_ALONE.issuperset(map(type, metric.values())):
        raise ValueError("a series whose labels are none")
    return metric


def _loaded(raw: bytes) -> Mapping[str, Any]:
    """The envelope of a success.

    Raises:
        ValueError: it is none, or not of a success.
    """
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        shown = plain(raw[:_SHOWN].decode(errors="replace"))
        if shown.startswith("{"):
            raise ValueError(f"JSON that is broken or cut off ('{shown}'); ask again") from None
        raise ValueError(
            f"something that is not JSON ('{shown}'); is a login page or a proxy in the way?"
        ) from None
    if isinstance(found, dict) and found.get("status") == "error":
        raise ValueError(plain(f"an error ({found.get('errorType')}): {found.get('error')}"))
    if not isinstance(found, dict) or found.get("status") != "success":
        raise ValueError("JSON that is no answer of Prometheus's API; is the path right?")
    return found


def _results(envelope: Mapping[str, Any]) -> list[Any]:
    data = envelope.get("data")
    if not isinstance(data, dict):
        raise ValueError("JSON without data; is the path right?")  # noqa: TRY004 - a fault of the text.
    kind, result = data.get("resultType"), data.get("result")
    if kind == "scalar":
        return [{"metric": {}, "value": result}]
    if kind not in ("vector", "matrix") or not isinstance(result, list):
        raise ValueError("JSON without series; is the path right?")
    return result
