"""Load of a plan in common units: requests, sequences, images, seconds of sound."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from msgspec import Struct

from rightsizer.config.spelling import parse_number, show
from rightsizer.model.errors import RequirementError
from rightsizer.model.settings import Spec, settings_class
from rightsizer.model.units import parse_duration
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
_UNITS: Final = dict.fromkeys(("vram", "memory", "gpu_memory"), "GB")
"""Units of bare numbers in other tools."""
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
_TARGETS: Final = {
    millisecond: millisecond.replace("_ms", "_percentile") for millisecond in _MILLISECONDS
}
_TARGET: Final = re.compile(r"\{?\s*[pP](\d+(?:\.\d+)?)\s*[=: ]\s*([^}]+?)\s*\}?")
_STREAM_CHUNK_SECONDS: Final = 2.0
"""Live, a window is processed again with this much new sound; assumed."""


def meant_flags(flags: Collection[str]) -> dict[str, str]:
    """Return the flag to suggest for each word of other tools that means ours in other values."""
    return {
        word: f"write --{flag}, {more}"
        for word, (flag, more) in _flags_by_word(flags).items()
        if more
    }


def accepted_flags(flags: Collection[str]) -> dict[str, str]:
    """Return our flag for each word of plan files or of other tools that means the same."""
    words = _flags_by_word(flags)
    return {
        word: flag
        for word, (flag, more) in words.items()
        if word not in flags and (not more or word in _UNITS)
    }


def accepted_keys() -> dict[str, list[str]]:
    """Return the words of other tools for each key of a file's inner part: `training.sequence`."""
    words: dict[str, list[str]] = {}
    for word, key in _MEANT.items():
        if "." in key:
            words.setdefault(key, []).append(word)
    return words


def with_unit(word: str, text: str) -> str:
    """Return the value of a word of another tool in the unit that it is in there: `24GB`."""
    return text + _UNITS.get(word, "") if text.replace(".", "", 1).isdecimal() else text


def _flags_by_word(flags: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return for each word our flag, and what its values are like if they differ."""
    spelled = {key: word for word, key in SPELLINGS.items() if word in flags}
    spelled |= {word: word for word in flags}
    keys = {word: key.partition(", ") for word, key in {**SPELLINGS, **_MEANT}.items()}
    return {word: (spelled[key], more) for word, (key, _, more) in keys.items() if key in spelled}


class StatedLoad(Struct, frozen=True):
    """Load as stated in a plan; each value is valid by itself."""

    values: Mapping[str, float]
    spelled: Mapping[str, str]
    """Where each is stated: `load.ttft`."""

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
                fitting = [
                    rate_key
                    for rate_key in _RATES
                    if unit in _RATES[rate_key] and rate_key not in others
                ]
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


def _duration(value: object, factor: float, *, is_bare: bool) -> object:
    """Convert a text like `50ms`, in seconds times the factor; `is_bare` allows a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if is_bare:
            return value
        raise ValueError(f"has no unit (got {value:g}); write it like 50ms or 1s")
    try:
        return parse_duration(str(value).replace(" ", "")) * factor
    except ValueError:
        remedy = "write it like 50ms or 1s"
        raise ValueError(f"must be a duration (got {show(value)}); {remedy}") from None


def _latency(value: object, *, is_bare: bool) -> object:
    """Split `{p95: 1s}` or `p95=1s` into milliseconds and percentile."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((key, limit),) = value.items()
        value = f"{key}={limit}"
    target = _TARGET.fullmatch(value) if isinstance(value, str) else None
    if target is None:
        return [_duration(value, 1e3, is_bare=is_bare)]
    return [_duration(target[2], 1e3, is_bare=False), float(target[1])]


def _arrivals(value: object) -> object:
    """Number for a pattern of arrivals in words."""
    if value == _BURSTY:
        return None
    if isinstance(value, str) and value in _ARRIVALS:
        return _ARRIVALS[value]
    if isinstance(value, str) and not value[:1].isdigit():
        choices = ", ".join((*_ARRIVALS, _BURSTY))
        raise ValueError(f"{show(value)} is not known; take one of {choices}, or a number")
    return value


def _per_second(value: object) -> object:
    period = _PERIOD.fullmatch(value) if isinstance(value, str) else None
    return value if period is None else parse_number(period[1]) / _PERIOD_SECONDS[period[2]]


class LatencyTarget(Struct, frozen=True, array_like=True):
    """Time that answers may take, of all or of a percentile."""

    milliseconds: float
    percentile: float | None = None


def _kind(word: str, key: str) -> Any:
    """Type of the value of a word."""
    if key == _PREFILLED:
        return bool
    if key in _MILLISECONDS:
        return Annotated[LatencyTarget, Spec(parse=partial(_latency, is_bare=word == key))]
    if key == "chunk_seconds":
        return Annotated[
            float, Spec(unit="", parse=partial(_duration, factor=1.0, is_bare=word == key))
        ]
    if key == "burstiness":
        bounds = (_CLOSED, _MOST_BURSTY)
        return Annotated[float | None, Spec(unit="amount", within=bounds, parse=_arrivals)]
    parse = _per_second if key in _RATES and key != _STREAMS else None
    return Annotated[float, Spec(unit="amount", within=(-_MOST, _MOST), parse=parse)]


class LoadKeys(Struct, frozen=True):
    """Keys of a load, each of which may also be beside the model, as on the command line."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = _MEANT


LOAD_FIELDS: Final = tuple(
    (word, Annotated[_kind(word, key) | None, Spec(unit="")], None)
    for word, key in SPELLINGS.items()
)
LoadDocument: Final = settings_class(
    "LoadDocument", __name__, "Load of a plan file.", LOAD_FIELDS, LoadKeys
)


def stated_load(beside: LoadKeys, inner: LoadKeys) -> StatedLoad:
    """Load under its key, and key by key beside the model; raises `ValueError`, by lines."""
    values: dict[str, float] = {}
    spelled: dict[str, str] = {}
    faults = []
    for keys, place in ((inner, "load."), (beside, "")):
        for word, key in SPELLINGS.items():
            value = getattr(keys, word)
            path = f"{place}{word}"
            if value is None:
                continue
            if key in values:
                fault = f"is given twice, as {spelled[key]} too; leave one of them out"
                faults.append(f"{path}: {fault}")
                continue
            spelled[key] = path
            if isinstance(value, LatencyTarget):
                if value.percentile is not None:
                    values[_TARGETS[key]] = value.percentile
                value = value.milliseconds
            if 0.0 < abs(value) < _LEAST:
                faults.append(f"{path}: must be at least {_LEAST:g} (got {value:g})")
            values[key] = value
    if faults:
        raise ValueError("\n".join(faults))
    return StatedLoad(values, spelled)
