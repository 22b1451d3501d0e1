"""Figures by interval: one table for our agents' metrics, dcgm-exporter's, and what rules record.

A recorded series is named `level:metric:operation`; its samples cover five minutes of the clock.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import FINE_STEP
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources import dcgm_names as dcgm
from rightsizer.fleet.sources.series import SCRAPER_LABELS, names_of, shares_of
from rightsizer.model.dcgm_fields import EXPORTER, UUID_LABELS, DcgmField
from rightsizer.model.values import MIB, NANOSECONDS_PER_SECOND, Cause, Nanoseconds

Labels = Mapping[str, str | tuple[str, ...]]
"""By name, one value or several for a selector."""

FIGURE: Final = "figure"
"""Label that distinguishes the figures of one query."""
_MILLISECOND: Final = 1_000_000
_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
_METRIC: Final = re.compile(r"([\w:]+)([#~])")
"""A metric in the text of a form, whose selector and range are filled in."""


@lru_cache
def names_in(form: str) -> frozenset[str]:
    """Return the metrics that a store must have for a form."""
    return frozenset(name for name, _ in _METRIC.findall(form))


def first_form(forms: Iterable[str], names: AbstractSet[str]) -> str | None:
    """Return the first form that a store with these names can answer."""
    return next((form for form in forms if names_in(form) <= names), None)


class DeviceFigure(Struct, frozen=True):
    """A figure of a device by interval."""

    name: str
    """Of an agent's by label, the kind of its columns; of seconds and joules, the column."""
    templates: tuple[str, ...]
    """PromQL in each form that a store may have, the cheapest first, with `{metric}`, `{level}`,
    `{scraped}` and `{held}`.

    `#` after a metric is for its samples in the interval; `~` for those recorded at its ends, which
    cover whole five minutes: older stores include one at the very start of a range.
    """
    metric: str = ""
    by: tuple[str, ...] = ("uuid",)
    """Labels that distinguish its series."""
    rounding: float | None = 0.001
    """Further digits only lengthen the answer; `None` for all."""
    only: str = ""
    """Matchers: no other series are read."""
    around: str = "max"
    """Aggregation over several scrapes, or rulers, of one device."""
    fields: tuple[DcgmField, ...] = ()
    """Fields of dcgm-exporter that can be the metric."""

    def of(self, metric: str, more: Iterable[str] = ()) -> Self:
        """Return the figure of a metric, with further labels."""
        return replace(self, metric=metric, by=(*self.by, *more))

    @property
    def forms(self) -> list[str]:
        """PromQL in each form."""
        scraped = *self.by, *SCRAPER_LABELS
        labels = {"scraped": scraped, "held": (*scraped, *dcgm.HOLDER_LABELS)}
        lists = {name: ", ".join(dict.fromkeys(some)) for name, some in labels.items()}
        level = "_".join(self.by)
        return [form.format(metric=self.metric, level=level, **lists) for form in self.templates]

    @property
    def recorded_name(self) -> str:
        """Name of its recorded series."""
        return "".join(names_in(self.forms[0]))

    def query(self, form: str, labels: Labels, span: Nanoseconds) -> str:
        """Return PromQL over spans that end at the query's times, with duplicate scrapes merged."""

        def samples(metric: re.Match[str]) -> str:
            length = span - (metric[2] == "~") * _MILLISECOND
            minutes, rest = divmod(length, _MINUTE)
            range_ = f"{length // _MILLISECOND}ms" if rest else f"{minutes}m"
            return f"{selector(metric[1], labels, self.only)}[{range_}]"

        by = ", ".join(dict.fromkeys(self.by))
        query = f"{self.around} by ({by}) ({_METRIC.sub(samples, form)})"
        return query if self.rounding is None else f"round({query}, {self.rounding:.10g})"

    def promql(self, names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
        """Return the query of a store with some metrics; `None` without a form."""
        form = first_form(self.forms, names)
        return None if form is None else self.query(form, labels, span)


def grouped(
    figures: Iterable[DeviceFigure], names: AbstractSet[str], labels: Labels, span: Nanoseconds
) -> str | None:
    """Return one query for several figures, with the label `figure`; `None` without any."""
    parts = [
        f'label_replace({query}, "{FIGURE}", "{figure.name}", "", "")'
        for figure in figures
        if (query := figure.promql(names, labels, span)) is not None
    ]
    return " or ".join(parts) or None


_COUNTER: Final = (
    "sum_over_time({level}:rightsizer_{metric}:increase5m~)", "increase(rightsizer_{metric}_total#)"
)  # fmt: skip
_BUCKET: Final = (
    "sum_over_time({level}:rightsizer_{metric}_distribution_ratio_bucket:increase5m~)",
    "increase(rightsizer_{metric}_distribution_ratio_bucket#)",
)
_MEAN: Final = (
    "avg_over_time(uuid:rightsizer_{metric}:avg5m~)", "avg_over_time(rightsizer_{metric}#)"
)  # fmt: skip
_PEAK: Final = (
    "max_over_time(uuid:rightsizer_{metric}:max5m~)", "max_over_time(rightsizer_{metric}#)"
)  # fmt: skip
_RATIO: Final = (
    "avg_over_time(uuid:rightsizer_{metric}_ratio:avg5m~)",
    # A distribution covers every second, a gauge one sample per scrape.
    (
        "increase(rightsizer_{metric}_distribution_ratio_sum#)"
        " / (increase(rightsizer_{metric}_distribution_ratio_count#) > 0)"
    ),
    "avg_over_time(rightsizer_{metric}_ratio#)",
)
_CLOCK: Final = tuple(
    f"avg_over_time({work}) / (avg_over_time({active}) > 0)"
    for work, active in (
        ("uuid:rightsizer_sm_work_ratio:avg5m~", "uuid:rightsizer_sm_active_ratio:avg5m~"),
        ("rightsizer_sm_work_ratio#", "rightsizer_sm_active_ratio#"),
    )
)
"""Relative to the maximum, while the SMs work, as that is the clock of the pipes."""
_BY_LIMIT: Final = (
    "{0}_over_time(rightsizer_power_watts#) / ({0}_over_time(rightsizer_power_limit_watts#) > 0)"
)
"""From watts if agents export no ratio."""
# Functions drop the name, without which the two would be the same series.
_SIDES: Final = 'label_replace({}, "side", "0", "", "") or label_replace({}, "side", "1", "", "")'


def _link(name: str, link: str, forms: Iterable[str]) -> DeviceFigure:
    """Use the busier direction, or the known one."""
    ways = [f"{link}_{way}_bytes_per_second" for way in ("receive", "transmit")]
    receive, transmit = ([form.format(metric=way) for form in forms] for way in ways)
    both = map(_SIDES.format, receive, transmit)
    return DeviceFigure(name, (*both, *receive, *transmit), rounding=1e6)


STATES: Final = DeviceFigure(ColumnKind.STATE, _COUNTER, "state_seconds", ("uuid", "state"))
BY_LABEL: Final = (
    DeviceFigure(ColumnKind.CONDITION, _COUNTER, "condition_seconds", ("uuid", "condition")),
    DeviceFigure(ColumnKind.WASTE, _COUNTER, "waste_seconds", ("uuid", "cause")),
    # Of the causes, the only one used by a rule: active energy is the rest.
    DeviceFigure(
        ColumnKind.WASTE_JOULES,
        _COUNTER,
        "waste_joules",
        ("uuid", "cause"),
        0.1,
        f'cause="{Cause.IDLE}"',
    ),
)
TOTALS: Final = (
    DeviceFigure(ColumnKind.USED.column("seconds"), _COUNTER, "used_seconds"),
    DeviceFigure(ColumnKind.ENERGY.column("joules"), _COUNTER, "energy_joules", rounding=0.1),
)
_RATIOS: Final = {
    "busy": "gpu_busy", "sm_work": "sm_work", "tensor": "tensor_active", "dram": "dram_active"
}  # fmt: skip
MEANS: Final = (
    *(DeviceFigure(name, _RATIO, stem) for name, stem in _RATIOS.items()),
    DeviceFigure("memory_bytes", _MEAN, "memory_used_bytes", rounding=MIB),
    DeviceFigure("clock", _CLOCK),
)
PEAKS: Final = (
    *(DeviceFigure(f"{name}_peak", _PEAK, f"{stem}_ratio") for name, stem in _RATIOS.items()),
    DeviceFigure("memory_bytes_peak", _PEAK, "memory_used_bytes", rounding=MIB),
)
POWER: Final = (
    DeviceFigure("power", (*_RATIO, _BY_LIMIT.format("avg")), "power"),
    DeviceFigure("power_peak", (*_PEAK, _BY_LIMIT.format("max")), "power_ratio"),
)
"""Weights of the busy share for devices without profiling."""
LINKS: Final = tuple(
    _link(f"{link}{part}", link, forms)
    for link in ("pcie", "nvlink")
    for part, forms in (("", _MEAN), ("_peak", _PEAK))
)
BUCKETS: Final = tuple(
    DeviceFigure(name, _BUCKET, stem, ("uuid", "le"), 1.0)
    for name, stem in (("sm_work", "sm_work"), ("dram", "dram_active"))
)
POWER_BUCKETS: Final = tuple(
    DeviceFigure(name, _BUCKET, stem, ("uuid", "le"), 1.0)
    for name, stem in (("busy", "gpu_busy"), ("power", "power"))
)
LIMITS: Final = tuple(
    DeviceFigure(
        kind, (f"last_over_time({name}#)",), "", ("uuid", "resource"), 0.0001, 'window="24h"'
    )
    for kind, name in (
        (ColumnKind.SATURATED, "rightsizer_saturated_ratio"),
        (ColumnKind.PRESSED, "rightsizer_underprovisioned_ratio"),
    )
)
"""Shares of a day, of which the latest counts."""
SHARES: Final = DeviceFigure(
    "share",
    tuple(
        f"max by (uuid, workload) (sum_over_time({share})) / on (uuid) group_left ()"
        f" max by (uuid) (count_over_time({known}))"
        for share, known in (
            (
                "uuid_workload:rightsizer_workload_share_ratio:avg5m~",
                "uuid:rightsizer_used_seconds:increase5m~",
            ),
            ("rightsizer_workload_share_ratio#", "rightsizer_device_up#"),
        )
    ),
    by=("uuid", "workload"),
    rounding=0.01,
)
"""Mean share of each workload: the sum by how often it was known."""
WORKLOADS: Final = DeviceFigure(
    "workload",
    (
        "last_over_time(workload:rightsizer_workload_info:last5m~)",
        "last_over_time(rightsizer_workload_info#)",
    ),
    # Without labels that vary by pod.
    by=("workload", "kind", "class", "name", "exported_namespace", "namespace", "allocator"),
    rounding=None,
)
RECORDED_FIGURES: Final = (
    STATES, *BY_LABEL, *TOTALS, *MEANS, *PEAKS, *POWER, *LINKS, *BUCKETS, *POWER_BUCKETS
)  # fmt: skip
"""Those that our recording rules keep."""
DEVICE_NAMES: Final = tuple(
    sorted(
        {
            name
            for figure in (*RECORDED_FIGURES, *LIMITS, SHARES)
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


RECORDED_STEP: Final[Nanoseconds] = FINE_STEP
"""Between two recorded samples, each over the same time."""
GRACE: Final[Nanoseconds] = _MINUTE
"""Time for samples to reach the store before a rule evaluates them."""
_AHEAD: Final = (RECORDED_STEP + GRACE) // _MILLISECOND - 1
"""Milliseconds from the end of five minutes to the last moment at which they are recorded."""


def _reduced(
    operation: str,
    raw: str,
    hourly: str,
    *fields: DcgmField,
    level: str = "uuid",
    by: tuple[str, ...] = dcgm.DEVICE_LABELS,
) -> DeviceFigure:
    """Return the reduction of the samples of dcgm-exporter's metrics to a value per interval.

    `hourly` combines recorded intervals into longer ones, exactly or approximately.
    """
    recorded = f"{hourly}({level}:{{metric}}:{operation}# offset -{_AHEAD}ms)"
    return DeviceFigure(operation, (recorded, raw), "", by, None, fields=fields)


MEAN: Final = _reduced(
    "avg5m",
    (
        "sum by ({scraped}) (sum_over_time({metric}#))"
        " / sum by ({scraped}) (count_over_time({metric}#))"
    ),
    "avg_over_time",
    *dcgm.MEASURED,
)
"""Of a gauge, over all series of a device's holders; of several scrapes, the largest counts."""
OWN_MEAN: Final = replace(
    MEAN,
    templates=("avg_over_time({metric}#)",),
    # A scrape may set the exporter's own pod in place of the holder's.
    only=f'exported_pod="",pod_name="",pod=~"|.*{EXPORTER}.*"',
)
"""Of a device's own series, without a holder."""
PEAK: Final = _reduced("max5m", "max_over_time({metric}#)", "max_over_time", *dcgm.PEAKED)
LOWEST: Final = replace(
    _reduced("min5m", "min_over_time({metric}#)", "min_over_time"), around="min"
)
GAINED: Final = _reduced(
    "increase5m",
    "sum by ({scraped}) (max by ({held}) (increase({metric}#)))",
    "sum_over_time",
    dcgm.ENERGY,
    dcgm.POWER_VIOLATION,
    dcgm.THERMAL_VIOLATION,
)
"""Increase of a counter per interval, over the series of holders; replicas count once, whatever
label tells them apart."""
COUNTED: Final = _reduced(
    "count5m",
    "count_over_time({metric}#)",
    "sum_over_time",
    level="uuid_pod",
    by=(*dcgm.DEVICE_LABELS, *dcgm.HOLDER_LABELS),
)
"""Number of samples per interval, by holder."""
TIMES_RECORDED: Final = replace(
    MEAN, templates=(f"count_over_time({{metric}}# offset -{_AHEAD}ms)",)
)
"""How often a device's interval was recorded, by its largest series."""

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


def recorded_series(metrics: Collection[str]) -> tuple[DeviceFigure, ...]:
    """Return everything that a run reads by interval of some metrics."""
    reasons = next(filter(None, (dcgm.spelled(reason, metrics) for reason in dcgm.REASONS)), ())
    rows = (
        (COUNTED, dcgm.presence_names(metrics)),
        *(
            (figure, dcgm.spelled(field, metrics))
            for figure in (MEAN, PEAK, GAINED)
            for field in figure.fields
        ),
        *((figure, reasons) for figure in (MEAN, PEAK, LOWEST)),
    )
    return tuple(figure.of(name) for figure, names in rows for name in names)


def metrics_in(store: MetricStore, now: Nanoseconds) -> frozenset[str]:
    """Return the metrics in a store that a run reads by interval, in all spellings."""
    names = [name for field in dict.fromkeys(_FIELDS) for name in dcgm.spellings(field)]
    return names_of(store, names, now, UUID_LABELS)


def _rule(figure: DeviceFigure) -> str:
    """Return the rule that records a figure.

    Groups are evaluated at arbitrary moments; the subquery selects the last whole five minutes of
    the clock, once late samples have arrived.
    """
    span, grace = (length // _MINUTE for length in (RECORDED_STEP, GRACE))
    inside = figure.query(figure.forms[-1], {}, RECORDED_STEP)
    expression = f"last_over_time(({inside})[{span}m:{span}m] offset {grace}m)"
    return _RULE.format(figure.recorded_name, expression)


def rules_text(metrics: Collection[str], labels: Iterable[str] = ()) -> str:
    """Return the rules file for some metrics; series also keep `labels`, such as a cluster's."""
    kept = tuple(labels)
    rules = [_rule(figure.of(figure.metric, kept)) for figure in recorded_series(metrics)]
    groups = enumerate(shares_of(rules, RULES_IN_A_GROUP), 1)
    return _HEAD + "\n".join(_GROUP.format(number, "\n".join(some)) for number, some in groups)
