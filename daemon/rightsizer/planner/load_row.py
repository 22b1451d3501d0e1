"""Load of a plan in common units: requests, sequences, images, seconds of sound."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from rightsizer.config.row import Row, shown
from rightsizer.io.near import hint
from rightsizer.model.errors import RequirementError
from rightsizer.planner.aliases import aliases_of
from rightsizer.sizing.load import (
    RequestLoad,
    WorkUnit,
    units_per_request,
    units_per_token,
    work_unit,
)
from rightsizer.sizing.models import Model, Transformer

_REQUESTS: Final = "requests_per_second"
_STREAMS: Final = "streams"
_PREFILLED: Final = "is_prefilled"
_TOKENS: Final = "tokens_per_second"
_RATES: Final[Mapping[str, frozenset[WorkUnit]]] = {
    _REQUESTS: frozenset(WorkUnit),
    _TOKENS: frozenset(WorkUnit),
    "sequences_per_second": frozenset({WorkUnit.SEQUENCES}),
    "images_per_second": frozenset({WorkUnit.IMAGES}),
    "videos_per_second": frozenset({WorkUnit.VIDEOS}),
    "samples_per_second": frozenset(WorkUnit) - {WorkUnit.TOKENS, WorkUnit.AUDIO_SECONDS},
    "audio_seconds_per_second": frozenset({WorkUnit.AUDIO_SECONDS}),
    _STREAMS: frozenset({WorkUnit.AUDIO_SECONDS}),
}
"""Units of rates, and the units of work of the models that support them."""
SPELLINGS: Final[Mapping[str, str]] = {**{key: key for key in _RATES}, **aliases_of("load")}
"""Field of a load for each key; rates keep their names."""
_PERIOD: Final = re.compile(r"(.*[^\s/])\s*/\s*(s|min|h|day)")
"""`600/min`."""
_PERIOD_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
LOAD_WORDS: Final = tuple(SPELLINGS)
"""All keys of a load; each may also be beside the model, as on the command line."""
_MEANT: Final = aliases_of("key")
"""Names in other tools for keys of a plan."""
_MILLISECONDS: Final = ("ttft_ms", "tpot_ms", "latency_ms")
_CLOSED: Final = -1.0
"""In place of a burstiness: each request follows the answer to another."""
_MOST: Final = 1e15
_LEAST: Final = 1e-6
"""Minimum of any requested value; less cannot be distinguished from nothing."""
_SEQUENCE_TOKENS: Final = 256.0
"""Length of a text to embed or classify; assumed."""
_FRAMES_PER_SECOND: Final = 50.0
"""Of sound, for models with audio input."""
_SPOKEN_TOKENS_PER_SECOND: Final = 3.3
"""150 words per minute, 1.3 tokens per word; assumed."""
_ARRIVALS: Final[Mapping[str, float]] = {"closed": _CLOSED, "steady": 0.0, "poisson": 1.0}
_BURSTY: Final = "bursty"
_MOST_BURSTY: Final = 1000.0
_TARGETS: Final = {each: each.replace("_ms", "_percentile") for each in _MILLISECONDS}
_TARGET: Final = re.compile(r"\{?\s*[pP](\d+(?:\.\d+)?)\s*[=: ]\s*([^}]+?)\s*\}?")
_STREAM_CHUNK_SECONDS: Final = 2.0
"""Live, a window is processed again with this much new sound; assumed."""


def meant_flags(flags: Collection[str]) -> dict[str, str]:
    """Return the flag to suggest for each word of plan files or of other tools."""
    spelled = {key: word for word, key in SPELLINGS.items() if word in flags}
    spelled |= {word: word for word in flags}
    keys = {word: key.partition(",") for word, key in {**SPELLINGS, **_MEANT}.items()}
    return {
        word: f"write --{spelled[key]}{comma}{more}"
        for word, (key, comma, more) in keys.items()
        if key in spelled
    }


def unknown_hint(word: str, known: Sequence[str]) -> str:
    """Return a suggestion in place of an unknown key."""
    if word.lower() in _MEANT:
        return f"write {_MEANT[word.lower()]}"
    return hint(word, known)


class StatedLoad(Struct, frozen=True):
    """Load as stated in a plan; each value is valid by itself."""

    values: Mapping[str, float]
    spelled: Mapping[str, str]
    """Where each is stated: `load.ttft`."""

    @property
    def writes_nothing(self) -> bool:
        """Whether answers have no tokens."""
        return self.values.get("output_tokens") == 0

    def of(self, model: Model) -> tuple[RequestLoad, tuple[str, ...]]:
        """Return the load of a model in its own unit, and the assumptions made."""
        values: dict[str, Any] = {**self.values}
        if values.get("burstiness") == _CLOSED:
            del values["burstiness"]
            values["is_closed"] = True
        values[_PREFILLED] = bool(values.get(_PREFILLED))
        rates = {key: values.pop(key) for key in _RATES if key in values}
        for key, rate in rates.items():
            if not rate > 0:
                remedy = "give what is asked for, or leave it out"
                raise RequirementError(f"{self.spelled[key]}: {rate:g} is not above 0; {remedy}")
        unit = work_unit(model)
        name = model.name or "the model"
        for key in rates:
            if unit not in _RATES[key]:
                others = frozenset() if unit is WorkUnit.TOKENS else frozenset({_TOKENS})
                fitting = [each for each in _RATES if unit in _RATES[each] and each not in others]
                fault = f"{name} works in {unit}; give {' or '.join(fitting)}"
                fault += ", of all cameras together" * (key == _STREAMS and unit is WorkUnit.IMAGES)
                raise RequirementError(f"{self.spelled[key]}: {fault}")
        if len(rates) > 1:
            first, second = list(rates)[:2]
            fault = f"{self.spelled[first]} says how much already"
            raise RequirementError(f"{self.spelled[second]}: {fault}; leave one of them out")
        idle = [(self.spelled[key], why) for key, why in _unused(model) if key in values]
        notes = [f"{word} is given but not used: {name} {why}" for word, why in idle]
        if _STREAMS in rates:
            # Many streams together, each at its own pace, approximate random arrivals.
            values.setdefault("burstiness", 1.0)
        notes += _completed(values, model, is_live=_STREAMS in rates)
        load = RequestLoad(**values)
        for key, rate in rates.items():
            by = {_REQUESTS: units_per_request, _TOKENS: units_per_token}.get(key)
            demand = rate * (by(model, load) if by else 1.0)
            load = RequestLoad(**values, units_per_second=demand)
            if key == _TOKENS and unit in {WorkUnit.SEQUENCES, WorkUnit.AUDIO_SECONDS}:
                side = "input" if unit is WorkUnit.SEQUENCES else "output"
                same = f"{rate:,g} {side} tokens/s are {demand:,.4g} {unit}/s"
                notes.append(f"{same}; requests_per_second is plainer")
        return load, tuple(notes)


def _unused(model: Model) -> Iterator[tuple[str, str]]:
    """Yield keys of a load that do not apply to the model, and why."""
    unit = work_unit(model)
    if unit not in {WorkUnit.TOKENS, WorkUnit.AUDIO_SECONDS}:
        for key in ("output_tokens", "tpot_ms"):
            yield key, "answers in one pass; give latency"
        for key in ("speculative_tokens", "acceptance_ratio"):
            yield key, "answers in one pass"
    if not isinstance(model, Transformer):
        yield "input_tokens", f"works in {unit}"
        yield "adapters", "has no engine that serves adapters"
    if unit is not WorkUnit.AUDIO_SECONDS:
        yield "chunk_seconds", "has no audio input"


def _completed(values: dict[str, Any], model: Model, *, is_live: bool) -> Iterator[str]:
    """Fill in usual values for the kind of model; yield a sentence for each assumption."""
    unit = work_unit(model)
    if unit is WorkUnit.SEQUENCES and "input_tokens" not in values:
        values["input_tokens"] = _SEQUENCE_TOKENS
        yield f"input_tokens is not given: {_SEQUENCE_TOKENS:g} tokens a sequence are assumed"
    if unit is not WorkUnit.AUDIO_SECONDS or not isinstance(model, Transformer):
        return
    window = model.sound_seconds
    values.setdefault("input_tokens", window * _FRAMES_PER_SECOND)
    if "output_tokens" not in values:
        values["output_tokens"] = round(window * _SPOKEN_TOKENS_PER_SECOND)
        yield f"{values['output_tokens']:g} tokens of text are assumed for {window:g} s of speech"
    if is_live and "chunk_seconds" not in values:
        values["chunk_seconds"] = _STREAM_CHUNK_SECONDS
        again = f"last {window:g} s are transcribed again every {_STREAM_CHUNK_SECONDS:g} s"
        yield f"live: each stream's {again}; give chunk where it is otherwise"


def read_load(top: Row) -> StatedLoad:
    """Read the load under its key, or key by key beside the model; faults are added to the row."""
    values: dict[str, float] = {}
    spelled: dict[str, str] = {}
    inner = top.row("load")
    for row, place in ((inner, "load."), (top, "")):
        for word in row.values:
            key = SPELLINGS.get(str(word))
            if key is None or row.values[word] is None:
                if row is inner and key is None:
                    row.fault(str(word), f"unknown key; {unknown_hint(str(word), LOAD_WORDS)}")
                continue
            if key in values:
                row.fault(word, f"is given twice, as {spelled[key]} too; leave one of them out")
                continue
            spelled[key] = f"{place}{word}"
            if key in _MILLISECONDS:
                percentile = _take_percentile(row, word)
                if percentile is not None:
                    values[_TARGETS[key]] = percentile
            value = _arrivals(row, word) if key == "burstiness" else _value(row, word, key)
            if value is not None and 0.0 < abs(value) < _LEAST:
                row.fault(word, f"must be at least {_LEAST:g} (got {value:g})")
            elif value is not None:
                values[key] = value
    return StatedLoad(values, spelled)


def _arrivals(row: Row, word: str) -> float | None:
    """Read the arrival pattern: a word, or the squared variation of the times between requests."""
    given = row.values[word]
    if given == _BURSTY:
        return None
    if isinstance(given, str) and given in _ARRIVALS:
        return _ARRIVALS[given]
    if isinstance(given, str) and not given[:1].isdigit():
        known = ", ".join((*_ARRIVALS, _BURSTY))
        row.fault(word, f"{shown(given)} is not known; take one of {known}, or a number")
        return None
    return row.amount(word, 0.0, _MOST_BURSTY)


def _take_percentile(row: Row, word: str) -> float | None:
    """Split `{p95: 1s}` or `p95=1s`, and leave the duration in its place."""
    given = row.values[word]
    if isinstance(given, Mapping) and len(given) == 1:
        ((key, most),) = given.items()
        given = f"{key}={most}"
    elif not isinstance(given, str):
        return None
    if (found := _TARGET.fullmatch(given)) is None:
        return None
    row.values = {**row.values, word: found[2]}
    return float(found[1])


def _value(row: Row, word: str, key: str) -> float | None:
    if key == _PREFILLED:
        return float(row.flag(word, default=False))
    if key.endswith("_ms") or key == "chunk_seconds":
        value = row.milliseconds(word, is_bare=word == key)
        is_text = isinstance(row.values[word], str)
        return value if value is None or key.endswith("_ms") or not is_text else value / 1e3
    found = _PERIOD.fullmatch(str(row.values[word])) if key in _RATES and key != _STREAMS else None
    if found is None:
        return row.amount(word, -_MOST, _MOST)
    row.values = {**row.values, word: found[1]}
    rate = row.amount(word, -_MOST, _MOST)
    return None if rate is None else rate / _PERIOD_SECONDS[found[2]]
