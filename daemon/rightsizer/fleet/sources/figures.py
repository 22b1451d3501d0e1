"""Figures by interval: our agents', dcgm-exporter's, and what recording rules keep of both.

A recorded series is named `level:metric:operation`; its samples cover five minutes of the clock.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import chain
from typing import Final

from msgspec import Struct

from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import FINE_STEP
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.dcgm_exporter import probe as dcgm
from rightsizer.fleet.sources.series import SCRAPER_LABELS, names_of, shares_of
from rightsizer.model.dcgm_fields import UUID_LABELS, DcgmField
from rightsizer.model.state import Cause
from rightsizer.model.units import MIB, NANOSECONDS_PER_SECOND, Nanoseconds

Labels = Mapping[str, str | tuple[str, ...]]
"""By name, one value or several for a selector."""

FIGURE: Final = "figure"
"""Label that distinguishes the figures of one query."""
_MILLISECOND: Final = 1_000_000
_METRIC: Final = re.compile(r"([\w:]+)#")
"""A metric in the text of a form, whose selector and range are filled in."""


def ranged(form: str, labels: Labels, span: Nanoseconds) -> str:
    """Return the PromQL of a form over a span that ends at the query's time."""

    # A recorded sample covers its whole five minutes, and older stores include one at the very
    # start of a range.
    def samples(metric: re.Match[str]) -> str:
        length = span // _MILLISECOND - (":" in metric[1])
        return f"{selector(metric[1], labels)}[{length}ms]"

    return _METRIC.sub(samples, form)


@lru_cache
def names_in(form: str) -> frozenset[str]:
    """Return the metrics that a store must have for a form."""
    return frozenset(_METRIC.findall(form))


def first_form(forms: Iterable[str], names: AbstractSet[str]) -> str | None:
    """Return the first form that a store with these names can answer."""
    return next((form for form in forms if names_in(form) <= names), None)


class AgentMetric(Struct, frozen=True):
    """A figure of a device from agents' metrics."""

    name: str
    """Of a figure by label, the kind of its columns; of seconds and joules, the column."""
    templates: tuple[str, ...]
    """PromQL in each form that a store may have, the cheapest first; `#` follows a metric."""
    stem: str = ""
    """Replaces `{stem}`, as its labels do `{level}`."""
    labels: tuple[str, ...] = ()
    """Labels that distinguish its series beside the device."""
    rounding: float = 0.001
    """Further digits only lengthen the answer."""
    only: Mapping[str, str] = {}
    """Labels with fixed values: no other series are read."""

    @property
    def forms(self) -> list[str]:
        """PromQL in each form."""
        level = "_".join(("uuid", *self.labels))
        return [template.format(stem=self.stem, level=level) for template in self.templates]

    def promql(self, names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
        """Return its query, with duplicate scrapes merged; `None` without a form."""
        form = first_form(self.forms, names)
        if form is None:
            return None
        value = ranged(form, {**labels, **self.only}, span)
        return (
            f"round(max by ({', '.join(('uuid', *self.labels))}) ({value}), {self.rounding:.10g})"
        )


def grouped(
    figures: Iterable[AgentMetric], names: AbstractSet[str], labels: Labels, span: Nanoseconds
) -> str | None:
    """Return one query for several figures, with the label `figure`; `None` without any."""
    parts = [
        f'label_replace({query}, "{FIGURE}", "{figure.name}", "", "")'
        for figure in figures
        if (query := figure.promql(names, labels, span)) is not None
    ]
    return " or ".join(parts) or None


_COUNTER: Final = (
    "sum_over_time({level}:rightsizer_{stem}:increase5m#)", "increase(rightsizer_{stem}_total#)"
)  # fmt: skip
_BUCKET: Final = (
    "sum_over_time({level}:rightsizer_{stem}_distribution_ratio_bucket:increase5m#)",
    "increase(rightsizer_{stem}_distribution_ratio_bucket#)",
)
_MEAN: Final = (
    "avg_over_time(uuid:rightsizer_{stem}:avg5m#)", "avg_over_time(rightsizer_{stem}#)"
)  # fmt: skip
_PEAK: Final = (
    "max_over_time(uuid:rightsizer_{stem}:max5m#)", "max_over_time(rightsizer_{stem}#)"
)  # fmt: skip
_RATIO: Final = (
    "avg_over_time(uuid:rightsizer_{stem}_ratio:avg5m#)",
    # A distribution covers every second, a gauge one sample per scrape.
    (
        "increase(rightsizer_{stem}_distribution_ratio_sum#)"
        " / (increase(rightsizer_{stem}_distribution_ratio_count#) > 0)"
    ),
    "avg_over_time(rightsizer_{stem}_ratio#)",
)
_CLOCK: Final = tuple(
    f"avg_over_time({work}#) / (avg_over_time({active}#) > 0)"
    for work, active in (
        ("uuid:rightsizer_sm_work_ratio:avg5m", "uuid:rightsizer_sm_active_ratio:avg5m"),
        ("rightsizer_sm_work_ratio", "rightsizer_sm_active_ratio"),
    )
)
"""Relative to the maximum, while the SMs work, as that is the clock of the pipes."""
_BY_LIMIT: Final = (
    "{0}_over_time(rightsizer_power_watts#) / ({0}_over_time(rightsizer_power_limit_watts#) > 0)"
)
"""From watts if agents export no ratio."""
# Functions drop the name, without which the two would be the same series.
_SIDES: Final = 'label_replace({}, "side", "0", "", "") or label_replace({}, "side", "1", "", "")'


def _link(name: str, link: str, forms: Iterable[str]) -> AgentMetric:
    """Use the busier direction, or the known one."""
    ways = [f"{link}_{way}_bytes_per_second" for way in ("receive", "transmit")]
    receive, transmit = ([form.format(stem=way) for form in forms] for way in ways)
    both = map(_SIDES.format, receive, transmit)
    return AgentMetric(name, (*both, *receive, *transmit), rounding=1e6)


STATES: Final = AgentMetric(ColumnKind.STATE, _COUNTER, "state_seconds", ("state",))
BY_LABEL: Final = (
    AgentMetric(ColumnKind.CONDITION, _COUNTER, "condition_seconds", ("condition",)),
    AgentMetric(ColumnKind.WASTE, _COUNTER, "waste_seconds", ("cause",)),
    # Of the causes, the only one used by a rule: active energy is the rest.
    AgentMetric(
        ColumnKind.WASTE_JOULES, _COUNTER, "waste_joules", ("cause",), 0.1, {"cause": Cause.IDLE}
    ),
)
TOTALS: Final = (
    AgentMetric(ColumnKind.USED.column("seconds"), _COUNTER, "used_seconds"),
    AgentMetric(ColumnKind.ENERGY.column("joules"), _COUNTER, "energy_joules", rounding=0.1),
)
_RATIOS: Final = {
    "busy": "gpu_busy", "sm_work": "sm_work", "tensor": "tensor_active", "dram": "dram_active"
}  # fmt: skip
MEANS: Final = (
    *(AgentMetric(name, _RATIO, stem) for name, stem in _RATIOS.items()),
    AgentMetric("memory_bytes", _MEAN, "memory_used_bytes", rounding=MIB),
    AgentMetric("clock", _CLOCK),
)
PEAKS: Final = (
    *(AgentMetric(f"{name}_peak", _PEAK, f"{stem}_ratio") for name, stem in _RATIOS.items()),
    AgentMetric("memory_bytes_peak", _PEAK, "memory_used_bytes", rounding=MIB),
)
POWER: Final = (
    AgentMetric("power", (*_RATIO, _BY_LIMIT.format("avg")), "power"),
    AgentMetric("power_peak", (*_PEAK, _BY_LIMIT.format("max")), "power_ratio"),
)
"""Weights of the busy share for devices without profiling."""
LINKS: Final = tuple(
    _link(f"{link}{part}", link, forms)
    for link in ("pcie", "nvlink")
    for part, forms in (("", _MEAN), ("_peak", _PEAK))
)
BUCKETS: Final = tuple(
    AgentMetric(name, _BUCKET, stem, ("le",), 1.0)
    for name, stem in (("sm_work", "sm_work"), ("dram", "dram_active"))
)
POWER_BUCKETS: Final = tuple(
    AgentMetric(name, _BUCKET, stem, ("le",), 1.0)
    for name, stem in (("busy", "gpu_busy"), ("power", "power"))
)
LIMITS: Final = tuple(
    AgentMetric(kind, (f"last_over_time({name}#)",), "", ("resource",), 0.0001, {"window": "24h"})
    for kind, name in (
        (ColumnKind.SATURATED, "rightsizer_saturated_ratio"),
        (ColumnKind.PRESSED, "rightsizer_underprovisioned_ratio"),
    )
)
"""Shares of a day, of which the latest counts."""
RECORDED_FIGURES: Final = (
    STATES, *BY_LABEL, *TOTALS, *MEANS, *PEAKS, *POWER, *LINKS, *BUCKETS, *POWER_BUCKETS
)  # fmt: skip
"""Those that our recording rules keep."""
DEVICE_NAMES: Final = tuple(
    sorted(
        {
            name
            for figure in (*RECORDED_FIGURES, *LIMITS)
            for form in figure.forms
            for name in names_in(form)
        }
    )
)
"""All metrics of a device that are read by the day."""


def unrecorded(names: AbstractSet[str]) -> frozenset[str]:
    """Return the series recorded by our rules that a store with these names lacks."""
    missing: set[str] = set()
    for figure in RECORDED_FIGURES:
        rules = [form for form in figure.forms if ":rightsizer" in form]
        scraped = [form for form in figure.forms if form not in rules]
        if first_form(scraped, names) and not first_form(rules, names):
            missing |= names_in(rules[0]) - names
    return frozenset(missing)


_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
RECORDED_STEP: Final[Nanoseconds] = FINE_STEP
"""Between two recorded samples, each over the same time."""
GRACE: Final[Nanoseconds] = _MINUTE
"""Time for samples to reach the store before a rule evaluates them."""
_AHEAD: Final = (RECORDED_STEP + GRACE) // _MILLISECOND - 1
"""Milliseconds from the end of five minutes to the last moment at which they are recorded."""


class IntervalQuery(Struct, frozen=True):
    """Reduction of the samples of dcgm-exporter's metrics to a value per interval."""

    text: str
    """PromQL, with `{by}`, `{scraped}`, `{held}` and `{samples}`."""
    operation: str
    """As in the name of the recorded series."""
    hourly: str
    """Function that combines recorded intervals into longer ones, exactly or approximately."""
    by: tuple[str, ...] = dcgm.DEVICE_LABELS
    level: str = "uuid"
    around: str = "max"
    """Aggregation over several scrapes, or rulers, of one device."""

    def raw(self, samples: str, more: Iterable[str] = ()) -> str:
        """Return the query, with further labels; `samples` is a selector with its range."""
        by = *self.by, *more
        scraped = *by, *SCRAPER_LABELS
        labels = {"by": by, "scraped": scraped, "held": (*scraped, *dcgm.HOLDER_LABELS)}
        lists = {name: ", ".join(dict.fromkeys(some)) for name, some in labels.items()}
        return self.text.format(samples=samples, **lists)

    def name(self, metric: str) -> str:
        """Return the name of a metric's recorded series."""
        return f"{self.level}:{metric}:{self.operation}"

    def rule(self, metric: str, more: Iterable[str]) -> str:
        """Return the expression that records a metric.

        Groups are evaluated at arbitrary moments; the subquery selects the last whole five minutes
        of the clock, once late samples have arrived.
        """
        span, grace = (length // _MINUTE for length in (RECORDED_STEP, GRACE))
        inside = self.raw(f"{metric}[{span}m]", more)
        return f"last_over_time(({inside})[{span}m:{span}m] offset {grace}m)"

    def recorded(self, selector: str, step: Nanoseconds) -> str:
        """Return the query of what was recorded for the interval that ends at each step."""
        samples = f"{selector}[{step // NANOSECONDS_PER_SECOND}s] offset -{_AHEAD}ms"
        return f"{self.around} by ({', '.join(self.by)}) ({self.hourly}({samples}))"


MEAN: Final = IntervalQuery(
    "max by ({by}) (sum by ({scraped}) (sum_over_time({samples}))"
    " / sum by ({scraped}) (count_over_time({samples})))",
    "avg5m",
    "avg_over_time",
)
"""Of a gauge, over all series of a device's holders; of several scrapes, the largest counts."""
OWN_MEAN: Final = IntervalQuery(
    "max by ({by}) (avg_over_time({samples}))", "own_avg5m", "avg_over_time"
)
PEAK: Final = IntervalQuery("max by ({by}) (max_over_time({samples}))", "max5m", "max_over_time")
LOWEST: Final = IntervalQuery(
    "min by ({by}) (min_over_time({samples}))", "min5m", "min_over_time", around="min"
)
GAINED: Final = IntervalQuery(
    "max by ({by}) (sum by ({scraped}) (max by ({held}) (increase({samples}))))",
    "increase5m",
    "sum_over_time",
)
"""Increase of a counter per interval, over the series of holders; replicas count once, whatever
label tells them apart."""
COUNTED: Final = IntervalQuery(
    "max by ({by}) (count_over_time({samples}))",
    "count5m",
    "sum_over_time",
    (*dcgm.DEVICE_LABELS, *dcgm.HOLDER_LABELS),
    "uuid_pod",
)
"""Number of samples per interval, by holder."""
TIMES_RECORDED: Final = IntervalQuery("", "", "count_over_time")
"""How often a device's interval was recorded, by its largest series."""

DCGM_FIGURES: Final[Mapping[IntervalQuery, tuple[DcgmField, ...]]] = {
    MEAN: dcgm.MEASURED,
    PEAK: dcgm.PEAKED,
    GAINED: (dcgm.ENERGY, dcgm.POWER_VIOLATION, dcgm.THERMAL_VIOLATION),
}
"""Fields that are read by interval, beside the reasons for low clocks."""
_FIELDS: Final = (*dcgm.MEASURED, *dcgm.THROTTLING, dcgm.ENERGY)
USUAL_METRICS: Final = frozenset(field.name for field in _FIELDS)
"""Current names of all metrics that a run reads by interval."""
RULES_IN_A_GROUP: Final = 20
"""Default maximum of Mimir and Cortex."""
_HEAD: Final = """\
# Recording rules of dcgm-exporter's metrics, written by `rightsizer fleet rules`, named
# level:metric:operations. `rightsizer fleet` finds the series and reads them in place of raw ones.
#
# Each is of five minutes of the clock, whenever its group is evaluated, a minute after their end.
# They go by named labels: an exporter's others, and those of pods, are unbounded.
groups:
"""
_GROUP: Final = f"""\
  - name: rightsizer-dcgm-{{}}
    interval: {RECORDED_STEP // _MINUTE}m
    rules:
{{}}"""
_RULE: Final = """\
      - record: {}
        expr: |
          {}"""


def recorded_series(metrics: Collection[str]) -> tuple[tuple[IntervalQuery, str], ...]:
    """Return queries and metrics of everything that a run reads by interval."""
    fields = (
        (query, chain(*(dcgm.spelled(field, metrics) for field in some)))
        for query, some in DCGM_FIGURES.items()
    )
    reasons = next(filter(None, (dcgm.spelled(reason, metrics) for reason in dcgm.REASONS)), ())
    rows = (
        (COUNTED, dcgm.presence_names(metrics)),
        *fields,
        *((query, reasons) for query in (MEAN, PEAK, LOWEST)),
    )
    return tuple((query, name) for query, names in rows for name in names)


def metrics_in(store: MetricStore, now: Nanoseconds) -> frozenset[str]:
    """Return the metrics in a store that a run reads by interval, in all spellings."""
    names = [name for field in dict.fromkeys(_FIELDS) for name in dcgm.spellings(field)]
    return names_of(store, names, now, UUID_LABELS)


def rules_text(metrics: Collection[str], labels: Iterable[str] = ()) -> str:
    """Return the rules file for some metrics; series also keep `labels`, such as a cluster's."""
    kept = tuple(labels)
    rules = [
        _RULE.format(query.name(name), query.rule(name, kept))
        for query, name in recorded_series(metrics)
    ]
    groups = enumerate(shares_of(rules, RULES_IN_A_GROUP), 1)
    return _HEAD + "\n".join(_GROUP.format(number, "\n".join(some)) for number, some in groups)
