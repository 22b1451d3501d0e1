"""Parser of API responses: bytes to series, without an object for each sample."""

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, Final

from rightsizer.fleet.source import SampledSeries
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_LENGTH: Final = 400


def plain(text: str) -> str:
    """The text on one line, without what a terminal would obey, and not longer than two or so."""
    # Twice as much as is shown, as spaces go.
    words = " ".join(text[: 2 * _LENGTH].split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:_LENGTH]


_RESULT: Final = b'"result":['
_SERIES: Final = b'{"metric":'
_FORMS: Final = ((b',"values":[[', b"]]}"), (b',"value":[', b"]}"))
"""What stands before and after the samples of a range query, and of an instant one."""
_LEAST_PARTS: Final = 3
"""Of a text with one sample in it, split at its quotes."""
_HALF_CHARACTERS: Final = (b"\\ud", b"\\uD")
_MILLISECOND: Final = NANOSECONDS_PER_SECOND // 1000
_END_OF_TIME: Final = 2.0**33
"""Seconds since the epoch at which nanoseconds no longer fit into 64 bits, about."""
_JSON: Final = json.JSONDecoder()
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


def parse_response(raw: bytes, step: Nanoseconds = 0) -> ParsedResponse:
    """The answer in a body, whose samples are at equal steps unless `step` is 0.

    Raises:
        ValueError: it is no such answer; the message completes "the store answered with".
    """
    try:
        envelope, series = _cut(raw, step)
    except (ValueError, RecursionError):
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


def _cut(raw: bytes, step: Nanoseconds) -> tuple[Mapping[str, Any], list[SampledSeries]]:
    """What is around the series, and the series.

    No quoted text can hold what is searched for, as its quotes have backslashes.

    Raises:
        ValueError: the text is not written as usual.
    """
    first = raw.index(_RESULT + _SERIES) + len(_RESULT)
    opening, closing = next((form for form in _FORMS if form[0] in raw), _FORMS[0])
    reader = _SampleReader(step)
    following = b"," + _SERIES
    series = []
    at = first + len(_SERIES)
    while True:
        begin = raw.index(opening, at)
        text = raw[at:begin].decode()
        found, length = _JSON.raw_decode(text)
        if length != len(text):
            raise ValueError("something beside the labels")
        labels = _labels(found)
        begin += len(opening)
        end = raw.index(closing, begin)
        series.append(reader.read(labels, raw[begin:end]))
        at = end + len(closing)
        if not raw.startswith(following, at):
            break
        at += len(following)
    # What else may follow breaks the rest.
    return _loaded(raw[:first] + raw[at:]), series


class _SampleReader:
    """Reads the samples of one series after the other; most have the times of the last."""

    def __init__(self, step: Nanoseconds) -> None:
        self._step = step
        self._times: dict[tuple[bytes, bytes, int], Sequence[Nanoseconds]] = {}

    def read(self, labels: Mapping[str, str], text: bytes) -> SampledSeries:
        """A series from `time,"value"],[time,"value"`.

        Raises:
            ValueError: the text is not written so.
        """
        parts = text.split(b'"')
        if len(parts) < _LEAST_PARTS or parts[-1]:
            raise ValueError("other samples")
        values = list(map(float, parts[1::2]))
        key = parts[0], parts[-_LEAST_PARTS], len(values)
        times = self._times.get(key) or self._of(key, parts)
        # A sum is finite only where all of its parts are; one that overflows is looked at in vain.
        if math.isfinite(sum(values)):
            return SampledSeries(labels, times, array("d", values))
        return _finite(labels, times, values)

    def _of(self, key: tuple[bytes, bytes, int], parts: Sequence[bytes]) -> Sequence[Nanoseconds]:
        """Times that stand before values: `time,` and then each time `],[time,`."""
        first, last = (_nanoseconds(float(each.strip(b"[],"))) for each in key[:2])
        step, more = self._step, key[2] - 1
        if (step and last - first == step * more) or not more:
            # Ascending times that are multiples of a step apart: none is left out.
            self._times[key] = range(first, last + 1, step or 1)
            return self._times[key]
        texts = b"".join(parts[:-1:2])[:-1].split(b",],[")
        try:
            return tuple(map(NANOSECONDS_PER_SECOND.__mul__, map(int, texts)))
        except ValueError:
            return tuple(map(_nanoseconds, map(float, texts)))


def _slowly(result: Any) -> SampledSeries:
    """A series that was read as JSON.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(result, dict) or "histogram" in result or "histograms" in result:
        raise ValueError("native histograms, which this program does not read; ask for another")
    try:
        labels = _labels(result["metric"])
        samples = result["values"] if "values" in result else [result["value"]]
        times = [_nanoseconds(float(time)) for time, _ in samples]
        return _finite(labels, times, [float(value) for _, value in samples])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError("a series that is none") from error


def _finite(
    labels: Mapping[str, str], times: Sequence[Nanoseconds], values: Sequence[float]
) -> SampledSeries:
    """A series without the samples that are no numbers."""
    known = list(map(math.isfinite, values))
    return SampledSeries(labels, tuple(compress(times, known)), array("d", compress(values, known)))


def _nanoseconds(seconds: float) -> Nanoseconds:
    """Stores know milliseconds, and a double of seconds is too coarse for nanoseconds.

    Raises:
        ValueError: no clock is that wrong.
    """
    if not 0 <= seconds < _END_OF_TIME:
        raise ValueError("a time that is none")
    return round(seconds * 1000) * _MILLISECOND


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
