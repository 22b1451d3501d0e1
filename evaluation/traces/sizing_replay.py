"""Sizing by rolling replay: each estimator's need against the hour that follows.

Six hours warm up; then, at each full hour, every estimator sees what was before, and the next
hour tells. Ours is the product's own: the accounts' windows, faded demands, need with margin.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from evaluation.traces.fleet_trace import Pod, closed_windows, pods
from measured import as_rows, quantile, table
from rightsizer.accounting.device_account import DecayedDemands
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import DecaySettings, ProvisioningSettings
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.model.state import Resource
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator

_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_WARM_UP: Final = 6 * _HOUR
_ROW: Final = 60 * NANOSECONDS_PER_SECOND
"""A row speaks of the time before it, so the first of an hour is not wholly of the hour."""
_LEAST_ROWS: Final = 30
_QUARTER: Final = _HOUR // 4
_DAY_SECONDS: Final = 86400.0
OURS: Final = "Rightsizer"
KRR: Final = "KRR-like: P95 x 1.15"
VPA: Final = "VPA-like: P90, half-life 24 h, x 1.15"
AWS: Final = "AWS-like: P99.5 x 1.2"

Rows = Sequence[tuple[Nanoseconds, float]]
"""What was before, oldest first."""
Needs = Mapping[tuple[str, Nanoseconds], float]
"""By pod and full hour."""


class Sizer(Struct, frozen=True):
    """A way to set the product."""

    name: str
    decay: DecaySettings = DecaySettings()
    provisioning: ProvisioningSettings = ProvisioningSettings()


@dataclass(slots=True)
class Score:
    """Score of an estimator."""

    rows: int = 0
    violations: int = 0
    hours: int = 0
    bad_hours: int = 0
    slack: float = 0.0

    def add(self, need: float, duties: Sequence[float]) -> None:
        """Count an hour."""
        self.rows += len(duties)
        self.violations += sum(duty > need for duty in duties)
        self.hours += 1
        self.bad_hours += quantile(duties, 0.95) > need
        self.slack += sum(need - duty for duty in duties)

    @property
    def violation_ratio(self) -> float:
        """Rows above the need, of all."""
        return self.violations / self.rows if self.rows else 0.0

    @property
    def bad_hour_ratio(self) -> float:
        """Share of hours whose P95 is above the need."""
        return self.bad_hours / self.hours if self.hours else 0.0

    @property
    def slack_ratio(self) -> float:
        """Need less use, on average."""
        return self.slack / self.rows if self.rows else 0.0


def _mean(rows: Rows) -> float:
    return 1.2 * sum(duty for _, duty in rows) / len(rows)


def _of_all(share: float, factor: float) -> Callable[[Rows], float]:
    return lambda rows: factor * quantile((duty for _, duty in rows), share)


def _fading(share: float, half_life_seconds: float, factor: float) -> Callable[[Rows], float]:
    def need(rows: Rows) -> float:
        end = rows[-1][0]
        weighed = sorted(
            (duty, 0.5 ** (seconds(end - time) / half_life_seconds)) for time, duty in rows
        )
        target = share * sum(weight for _, weight in weighed)
        reached = 0.0
        for duty, weight in weighed:
            reached += weight
            if reached >= target:
                return factor * duty
        return factor * weighed[-1][0]

    return need


def _of_quarters(share: float) -> Callable[[Rows], float]:
    def need(rows: Rows) -> float:
        quarters = groupby(rows, lambda row: row[0] // _QUARTER)
        return quantile([max(duty for _, duty in group) for _, group in quarters], share)

    return need


BASELINES: Final[Mapping[str, Callable[[Rows], float]]] = {
    "mean x 1.2": _mean,
    VPA: _fading(0.90, _DAY_SECONDS, 1.15),
    "Kruize-like, cost: P60 of 15-min max": _of_quarters(0.60),
    KRR: _of_all(0.95, 1.15),
    "Kruize-like, performance: P98 of 15-min max": _of_quarters(0.98),
    AWS: _of_all(0.995, 1.2),
    "max x 1.15": _of_all(1.0, 1.15),
}
"""The sizing rules of others at the settings that they ship; idle time counts for all of them."""


def needs_of(
    windows: Iterator[Sequence[Window]], sizers: Sequence[Sizer]
) -> dict[str, dict[tuple[str, Nanoseconds], float]]:
    """Compute needed by each sizer, by pod, at each full hour after the warm-up."""
    found: dict[str, dict[tuple[str, Nanoseconds], float]] = {sizer.name: {} for sizer in sizers}
    running: dict[str, _Running] = {}
    for closed in windows:
        for window in closed:
            pod = running.setdefault(window.uuid, _Running(sizers))
            if window.workload_key is None:
                pod.add(window)
                if window.end % _HOUR == 0 and window.end - pod.since >= _WARM_UP:
                    for name, need in pod.needs():
                        found[name][window.uuid, window.end] = need
    return found


class _Running:
    """The product's state of one pod, for each of its settings."""

    def __init__(self, sizers: Sequence[Sizer]) -> None:
        self._sizers = [(sizer, DecayedDemands(sizer.decay)) for sizer in sizers]
        self._whole = WindowBuilder("", keeps_blocks=False)

    @property
    def since(self) -> Nanoseconds:
        return self._whole.window().start

    def add(self, window: Window) -> None:
        self._whole.merge(window)
        for _, demands in self._sizers:
            demands.add(window)

    def needs(self) -> Iterator[tuple[str, float]]:
        whole = self._whole.window()
        for sizer, demands in self._sizers:
            fit = provision(whole, Allocator.UNKNOWN, sizer.provisioning, demands.demand())
            compute = fit.resources.get(Resource.COMPUTE)
            if compute is not None and compute.need is not None:
                yield sizer.name, compute.need


def scores_of(fleet: Iterator[Pod], needs: Mapping[str, Needs]) -> tuple[dict[str, Score], int]:
    """Scores of baselines and sizers in the same hours, and hours without the product's answer."""
    scores: dict[str, Score] = defaultdict(Score)
    silent = 0
    for pod in fleet:
        rows = tuple(zip(pod.times, pod.duties, strict=True))
        first = -(-(pod.times[0] + _WARM_UP) // _HOUR) * _HOUR
        for hour in range(first, pod.times[-1], _HOUR):
            middle, end = (bisect_left(pod.times, at) for at in (hour, hour + _HOUR))
            tested = pod.duties[bisect_left(pod.times, hour + _ROW) : end]
            if len(tested) < _LEAST_ROWS or middle == 0:
                continue
            said = {name: of.get((pod.name, hour)) for name, of in needs.items()}
            if any(need is None for need in said.values()):
                silent += 1
                continue
            for name, baseline in BASELINES.items():
                scores[name].add(baseline(rows[:middle]), tested)
            for name, need in said.items():
                scores[name].add(need or 0.0, tested)
    return dict(scores), silent


_DEFAULT: Final = ProvisioningSettings()
_MARGINS: Final = tuple(
    Sizer(f"margin {margin:.2f}", provisioning=replace(_DEFAULT, margin_ratio=margin))
    for margin in (0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
)
_QUANTILES: Final = tuple(
    Sizer(f"fast quantile {share:g}", replace(DecaySettings(), fast_quantile_ratio=share))
    for share in (0.95, 0.97, 0.98, 0.99, 0.995)
)
_GRID: Final = tuple(
    Sizer(f"quick quantile {share:g}", replace(DecaySettings(), fast_quantile_ratio=share))
    for share in (0.99, 0.993, 0.995, 0.998, 0.999)
)
"""The margin is what is documented: with both free, a half of the pods is too few to choose by."""
_SAFER: Final = 0.75
"""Violations that we choose our settings for, over those of the AWS-like rule."""
_COLUMNS: Final = ("violating rows", "hours whose P95 exceeds", "mean slack, points")


def evaluate(folder: Path) -> Iterator[str]:
    """Each estimator's violations and slack, our settings' part in it, and the floor."""
    sizers = (Sizer(OURS), *_MARGINS, *_QUANTILES, *_GRID)
    needs = needs_of(closed_windows(folder), sizers)
    scores, silent = scores_of(pods(folder), needs)
    compared = {name: scores[name] for name in (OURS, *BASELINES) if name in scores}
    if not compared:
        yield "No pod was seen for long enough to be sized.\n"
        return
    yield (
        f"{compared[OURS].hours} hours of pods after a warm-up of six; in {silent} more we said "
        "nothing, for lack of work to size by. All estimators in the same hours.\n"
    )
    yield table(
        (
            (name, *_cells(score), ", ".join(_better(name, compared)) or "none")
            for name, score in sorted(compared.items(), key=lambda each: each[1].slack_ratio)
        ),
        ("estimator", *_COLUMNS, "at least as good in both"),
    )
    yield ""
    names = sorted({pod for pod, _ in needs[OURS]})
    halves = [
        scores_of((pod for pod in pods(folder) if pod.name in half), needs)[0]
        for half in (names[::2], names[1::2])
    ]
    if all(halves):
        yield from _cross_validated(halves)
    for title, group in (("Our margin", _MARGINS), ("Our quick quantile", _QUANTILES)):
        cells = ((each.name, *_cells(scores[each.name])) for each in group)
        yield as_rows(table(cells, (title, *_COLUMNS)) + "\n")


def chosen(scores: Mapping[str, Score]) -> str:
    """The settings with the least slack of those that are safe; the safest where none are."""
    limit = _SAFER * scores[AWS].violation_ratio
    names = [each.name for each in _GRID]
    safe = [name for name in names if scores[name].violation_ratio <= limit]
    if safe:
        return min(safe, key=lambda name: scores[name].slack_ratio)
    return min(names, key=lambda name: scores[name].violation_ratio)


def _cross_validated(halves: Sequence[Mapping[str, Score]]) -> Iterator[str]:
    """Settings chosen on one half of the pods, and those that ship, scored on the other."""
    lines = []
    is_kept = True
    for number, scores in enumerate(halves, 1):
        found = chosen(halves[-number])
        for name, title in ((found, f"chosen on the other half: {found}"), (OURS, "as shipped")):
            compared = {each: scores[each] for each in (name, *BASELINES)}
            better = _better(name, compared)
            is_kept &= not better
            lines.append((f"{number}", title, *_cells(scores[name]), ", ".join(better) or "none"))
    halves_table = table(lines, ("half", "settings", *_COLUMNS, "at least as good in both"))
    yield as_rows(f"{halves_table}\n")
    yield f"No rule of others is at least as good in both: {'pass' if is_kept else 'FAIL'}.\n"


def _cells(score: Score) -> tuple[str, str, str]:
    return (
        f"{score.violation_ratio:.3%}",
        f"{score.bad_hour_ratio:.2%}",
        f"{score.slack_ratio * 100:.1f}",
    )


def _better(name: str, scores: Mapping[str, Score]) -> list[str]:
    """Who has no more violations and no more slack, and less of one."""
    own = scores[name]
    mine = own.violation_ratio, own.slack_ratio
    return [
        other
        for other, score in scores.items()
        if (found := (score.violation_ratio, score.slack_ratio)) != mine
        and found[0] <= mine[0]
        and found[1] <= mine[1]
    ]
