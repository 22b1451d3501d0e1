"""Samples into a store by the protocol of remote write, as Prometheus' own agents send them."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final
from urllib.request import Request, urlopen

import numpy as np

from planted_fleet.series import Series, fleet_series, times
from prometheus_server import Prometheus, prometheus_server, scrape_config
from victoria_server import victoria_server

__all__ = ["STORES", "filled_store"]

_WINDOW_SECONDS: Final = {"Prometheus": 3600, "VictoriaMetrics": 2 * 86_400}
"""Sent at once for all series: Prometheus takes nothing older than an hour before its newest."""
_SAMPLE: Final = np.dtype(
    [("head", "u1", 3), ("value", "<f8"), ("tag", "u1"), ("milliseconds", "u1", 6)]
)
"""Field 2 of a `TimeSeries`: a double, and a varint that has six bytes until the year 2109."""
_MOST_BYTES: Final = 8 * 2**20
_LITERAL: Final = 63 << 2
"""Snappy's tag of uncompressed bytes whose length follows in four."""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _part(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _head(series: Series) -> bytes:
    """Labels of a `TimeSeries`, sorted as the protocol demands."""
    labels = sorted((("__name__", series.name), *(label for label in series.labels if label[1])))
    return b"".join(
        _part(1, _part(1, name.encode()) + _part(2, str(value).encode())) for name, value in labels
    )


def _samples(moments: range) -> np.ndarray:
    """Samples of some moments, whose values are still missing."""
    samples = np.zeros(len(moments), _SAMPLE)
    samples["head"] = (0x12, 16, 0x09)
    samples["tag"] = 0x10
    milliseconds = np.array(moments, np.uint64) * np.uint64(1000)
    for place in range(6):
        bits = milliseconds >> np.uint64(7 * place) & np.uint64(0x7F)
        samples["milliseconds"][:, place] = bits | (0x80 if place < 5 else 0)
    return samples


def _requests(
    fleet: Sequence[Series], interval_seconds: int, window_seconds: int
) -> Iterator[bytes]:
    heads = [_head(series) for series in fleet]
    moments = times(interval_seconds)
    length = window_seconds // interval_seconds
    for start in range(0, len(moments), length):
        block = _samples(moments[start : start + length])
        parts = list[bytes]()
        size = 0
        for head, series in zip(heads, fleet, strict=True):
            first = max(0, series.first - start)
            last = min(len(block), series.first + len(series.values) - start)
            if first >= last:
                continue
            some = block[first:last]
            some["value"] = series.values[start + first - series.first :][: last - first]
            parts.append(_part(1, head + some.tobytes()))
            if (size := size + len(parts[-1])) > _MOST_BYTES:
                yield b"".join(parts)
                parts = []
                size = 0
        yield b"".join(parts)


def _send(url: str, messages: Iterable[bytes]) -> None:
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    for message in messages:
        literal = bytes((_LITERAL,)) + struct.pack("<I", len(message) - 1) + message
        body = _varint(len(message)) + literal
        with urlopen(Request(url, data=body, headers=headers, method="POST"), timeout=120):
            pass


STORES: Final = ("Prometheus", "VictoriaMetrics")


@contextmanager
def filled_store(store: str, interval_seconds: int) -> Iterator[Prometheus]:
    """A real store with all samples of the planted fleet."""
    fleet = _fleet(interval_seconds)
    window_seconds = _WINDOW_SECONDS[store]
    messages = _requests(fleet, interval_seconds, window_seconds)
    if store == "Prometheus":
        flags = ("--web.enable-remote-write-receiver",)
        with prometheus_server(scrape_config(), flags=flags) as server:
            _send(f"{server.url}/api/v1/write", messages)
            yield server
        return
    with victoria_server() as server:
        _send(f"{server.url}/api/v1/write", messages)
        with urlopen(f"{server.url}/internal/force_flush", timeout=60):
            pass
        yield server


@cache
def _fleet(interval_seconds: int) -> tuple[Series, ...]:
    return tuple(fleet_series(interval_seconds))
