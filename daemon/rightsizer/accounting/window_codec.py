"""Codec of windows for memory and history: lossless, versioned; and a check of stored rows."""

import json
import struct
import zlib
from collections.abc import Mapping
from itertools import chain
from math import isfinite
from typing import Any, Final

from rightsizer.model.values import (
    Blocks,
    Cause,
    Condition,
    Distribution,
    Histogram,
    Observation,
    Resource,
    State,
    Tier,
    UnknownReason,
    Window,
)

_JSON: Final = b"{"
_PACKED: Final = b"\x02"
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_HEAD: Final = struct.Struct(">I")
"""Length of the JSON."""
_WORDS: Final = (
    b'"start":,"end":,"conditions":{"network_bound":,"rank_imbalance":,"no_tensor_cores":,'
    b'"near_out_of_memory":,"numa_misplaced":,"pcie_link_degraded":,"hardware_slowdown":,'
    b'"thermal_throttled":,"power_throttled":},"states":{"unknown":,"host_bound":,'
    b'"storage_bound":,"launch_bound":,"compute_bound":,"memory_bandwidth_bound":,'
    b'"pcie_bound":,"hidden_stall":,"idle_empty":,"idle_held":,"productive":},'
    b'"tiers":{"none":,"basic":,"power":,"profiling":300000000000},'
    b'"saturated":{"compute":,"memory_bandwidth":},"pressed":{"memory":},'
    b'"waste_seconds":{"throttled":,"launch":,"pcie":,"storage":,"host":,"stalled":,"idle":,'
    b'"headroom":},"waste_joules":{"headroom":},"used_seconds":,"used_joules":,'
    b'"energy_joules":,"demands":{"nvlink":[[0,],"pcie":[[1,10000000000],[2,],'
    b'"memory_bandwidth":[[,"memory":[[60,300000000000]],"compute":[[100,0000000000],[0,]]},'
    b'"compute_at_least":[[99,0000000000],[0,300000000000]]}'
)
"""Compression dictionary, most frequent text last; part of form 2, so it must never change."""
_ALWAYS: Final = frozenset({"start", "end"})
"""Keys always written, since a recording may begin at 0; others are omitted if empty."""


DURATIONS: Final[Mapping[str, type[Any]]] = {
    "states": State,
    "second_causes": State,
    "unknown_reasons": UnknownReason,
    "conditions": Condition,
    "observed": Observation,
    "tiers": Tier,
    "saturated": Resource,
    "pressed": Resource,
}
AMOUNTS: Final[Mapping[str, type[Any]]] = {"waste_seconds": Cause, "waste_joules": Cause}
_MEMBERS: Final = {
    key: {str(member): member for member in kind} for key, kind in {**DURATIONS, **AMOUNTS}.items()
}
SUMS: Final = (
    "used_seconds",
    "used_joules",
    "energy_joules",
    "cycles",
    "cycle_seconds",
    "cycle_busy_seconds",
)
_KEYS: Final = ("start", "end", *DURATIONS, *AMOUNTS, *SUMS)
"""Plain values in written order; the histograms follow."""


def encode_window(window: Window) -> bytes:
    """Encode a window in a few hundred bytes."""
    fields = {key: getattr(window, key) for key in _KEYS}
    fields["demands"] = {resource: _pairs(demand) for resource, demand in window.demands.items()}
    fields["compute_at_least"] = _pairs(window.compute_at_least)
    kept = {key: value for key, value in fields.items() if value or key in _ALWAYS}
    text = _ENCODER.encode(kept).encode()
    packer = zlib.compressobj(zdict=_WORDS)
    parts = _HEAD.pack(len(text)), text, window.blocks.columns()
    return b"".join([_PACKED, *map(packer.compress, parts), packer.flush()])


def decode_window(uuid: str, data: bytes) -> Window:
    """Decode the output of `encode_window`, of this form or the one before.

    Raises:
        ValueError: the bytes are not a window, or of a newer form.
    """
    text, blocks = _parts(data)
    fields: dict[str, Any] = json.loads(text)
    try:
        if text is data and fields.get("v") != 1:
            raise ValueError(f"window of form {fields.get('v')}, which this program cannot read")
        keyed: dict[str, Any] = {
            key: {members[name]: value for name, value in fields.get(key, {}).items()}
            for key, members in _MEMBERS.items()
        }
        demands = fields.get("demands", {}).items()
        return Window(
            uuid,
            fields["start"],
            fields["end"],
            **keyed,
            **{key: fields.get(key, 0.0) for key in SUMS},
            demands={Resource(name): _histogram(pairs) for name, pairs in demands},
            compute_at_least=_histogram(fields.get("compute_at_least", ())),
            blocks=Blocks.from_columns(blocks),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"not a window: {error!r}") from None


def _parts(data: bytes) -> tuple[bytes, bytes]:
    if data[:1] == _JSON:
        return data, b""
    if data[:1] != _PACKED:
        raise ValueError(f"a window of form {data[:1]!r}, which this program cannot read")
    try:
        unpacker = zlib.decompressobj(zdict=_WORDS)
        body = unpacker.decompress(data[1:]) + unpacker.flush()
        end = _HEAD.size + _HEAD.unpack_from(body)[0]
    except (zlib.error, struct.error) as error:
        raise ValueError(f"not a window: {error}") from None
    if not unpacker.eof:
        raise ValueError("not a window: it is cut off")
    return body[_HEAD.size : end], body[end:]


def _pairs(histogram: Distribution) -> list[tuple[int, float]]:
    return [
        (index, int(weight) if weight == int(weight) else weight)
        for index, weight in sorted(histogram.items())
    ]


def _histogram(pairs: Any) -> Histogram:
    return Histogram({index: float(weight) for index, weight in pairs})


_LATEST: Final = 2**62
"""Nanoseconds since the epoch, in the year 2116; the sum of two still fits into a column."""


def parse_window_row(uuid: str, data: bytes) -> Window | None:
    """Decode the window of a row; `None` if invalid, so that other rows can still be read."""
    try:
        window = decode_window(uuid, data)
        return window if _is_sound(window) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _is_sound(window: Window) -> bool:
    durations = chain.from_iterable(getattr(window, key).values() for key in DURATIONS)
    amounts = chain.from_iterable(getattr(window, key).values() for key in AMOUNTS)
    histograms = (window.compute_at_least, *window.demands.values())
    bins = chain.from_iterable(histogram.items() for histogram in histograms)
    times = (window.start, window.end, *durations)
    return (
        all(type(time) is int and 0 <= time < _LATEST for time in times)
        and window.start <= window.end
        and all(map(_is_amount, (*(getattr(window, key) for key in SUMS), *amounts)))
        and all(type(percent) is int and _is_amount(weight) for percent, weight in bins)
    )


def _is_amount(value: Any) -> bool:
    return type(value) in {int, float} and isfinite(value) and value >= 0
