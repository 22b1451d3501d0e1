"""Samples as import formats of stores: OpenMetrics with times, and VictoriaMetrics's JSON lines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from estate.character import STEP_SECONDS
from estate.life import Life
from estate.series import Pairs, Run

__all__ = ["json_lines", "open_metrics"]

_FINE_SECONDS: Final = 60
"""Interval of samples in the last days."""
_EACH: Final = STEP_SECONDS // _FINE_SECONDS
_SPARSELY: Final = 2
"""Interval of constant values in the days before, in slots."""


class _Samples(NamedTuple):
    times: range
    """Seconds since the epoch."""
    values: Sequence[float]


def open_metrics(life: Life, runs: Iterable[Run]) -> Iterator[str]:
    """Lines for `promtool tsdb create-blocks-from openmetrics`, a run at a time."""
    endings = _Endings()
    for run in runs:
        head = _head(run.name, run.labels)
        times, values = _samples(life, run)
        ends = endings.of(times)
        low = min(values)
        if low == max(values):
            text = f"{head}{low:.10g}"
            yield text + text.join(ends)
        else:
            yield "".join(
                [f"{head}{value:.10g}{end}" for value, end in zip(values, ends, strict=True)]
            )


def json_lines(life: Life, runs: Iterable[Run]) -> Iterator[str]:
    """Lines for VictoriaMetrics's `/api/v1/import`, one per run."""
    for run in runs:
        metric = json.dumps(
            {"__name__": run.name, **{key: value for key, value in run.labels if value}}
        )
        times, values = _samples(life, run)
        texts = ",".join(["%.10g"] * len(values)) % tuple(values)
        yield f'{{"metric":{metric},"values":[{texts}],"timestamps":[{_milliseconds(times)}]}}\n'


@lru_cache(maxsize=256)
def _milliseconds(times: range) -> str:
    return ",".join([f"{time}000" for time in times])


def _samples(life: Life, run: Run) -> _Samples:
    """One per slot, or one per minute of changing values: counters grow evenly within a slot."""
    values: Sequence[float] = run.values
    first = life.start + (run.first + 1) * STEP_SECONDS
    last = life.start + (run.first + len(values)) * STEP_SECONDS
    # An exporter exports its counters at each scrape, whether they grow or not.
    if run.first >= life.fine_from and not (run.is_steady and run.before is None):
        times = range(first - (_EACH - 1) * _FINE_SECONDS, last + 1, _FINE_SECONDS)
        return _Samples(times, _by_minutes(run))
    if run.is_steady and run.first < life.fine_from:  # The last one is always included.
        skipped = (len(values) - 1) % _SPARSELY
        step = _SPARSELY * STEP_SECONDS
        times = range(first + skipped * STEP_SECONDS, last + 1, step)
        return _Samples(times, values[skipped::_SPARSELY])
    return _Samples(range(first, last + 1, STEP_SECONDS), values)


def _by_minutes(run: Run) -> Sequence[float]:
    if run.before is None:
        return [value for value in run.values for _ in range(_EACH)]
    parts = [part / _EACH for part in range(1, _EACH + 1)]
    return [
        before + (after - before) * part
        for before, after in pairwise((run.before, *run.values))
        for part in parts
    ]


class _Endings:
    """The ends of lines, each with its time, made once."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}

    def of(self, times: range) -> list[str]:
        """The end of each sample's line."""
        kept = self._kept
        for time in times:
            if time not in kept:
                kept[time] = f" {time}\n"
        return [kept[time] for time in times]


@lru_cache(maxsize=65536)
def _head(name: str, labels: Pairs) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{name}{{{pairs}}} "
