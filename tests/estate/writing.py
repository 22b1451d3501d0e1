"""Samples as texts that stores take: OpenMetrics with times, and VictoriaMetrics's JSON lines."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache

from estate.life import Life
from estate.series import Pairs, Run, seconds_of

__all__ = ["json_lines", "open_metrics"]


def open_metrics(life: Life, runs: Iterable[Run]) -> Iterator[str]:
    """Lines for `promtool tsdb create-blocks-from openmetrics`, a run at a time."""
    times = _Times(life)
    for run in runs:
        head = _head(run.name, run.labels)
        ends = times.ends(run)
        low = min(run.values)
        if low == max(run.values):
            text = f"{head}{low:.10g}"
            yield text + text.join(ends)
        else:
            yield "".join(
                [f"{head}{value:.10g}{end}" for value, end in zip(run.values, ends, strict=True)]
            )


def json_lines(life: Life, runs: Iterable[Run]) -> Iterator[str]:
    """Lines for VictoriaMetrics's `/api/v1/import`, one a run."""
    for run in runs:
        metric = json.dumps(
            {"__name__": run.name, **{key: value for key, value in run.labels if value}}
        )
        values = ",".join([f"{value:.10g}" for value in run.values])
        times = ",".join([f"{seconds_of(life, slot)}000" for slot in run.slots])
        yield f'{{"metric":{metric},"values":[{values}],"timestamps":[{times}]}}\n'


class _Times:
    """The ends of lines, each with its time, made once."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._kept: dict[int, str] = {}

    def ends(self, run: Run) -> list[str]:
        """The end of each sample's line."""
        slots = run.slots
        kept = self._kept
        for slot in slots:
            if slot not in kept:
                kept[slot] = f" {seconds_of(self._life, slot)}\n"
        return [kept[slot] for slot in slots]


@lru_cache(maxsize=65536)
def _head(name: str, labels: Pairs) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{name}{{{pairs}}} "
