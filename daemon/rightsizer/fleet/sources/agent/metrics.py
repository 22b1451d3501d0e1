"""Metrics and recording rules read per device, in each form a store may have; queries."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import starmap
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.prometheus.selector import selector
from rightsizer.model.state import Cause
from rightsizer.model.units import MIB, Nanoseconds

Labels = Mapping[str, str | tuple[str, ...]]
"""By name, one value or several for a selector."""

FIGURE: Final = "figure"
"""Label that distinguishes the figures of one query."""
_SIDE: Final = "side"

_MILLISECOND: Final = 1_000_000


class MetricExpression(Struct, frozen=True):
    """Metric name, and the function that reduces its samples to an interval's value."""

    name: str
    function: str
    over: str = ""
    """Divisor, reduced by the same function."""
    beside: str = ""
    """Another metric of the device; the larger of the two counts."""

    @property
    def names(self) -> frozenset[str]:
        """Return all names that the store must have for it."""
        return frozenset({self.name, self.over, self.beside} - {""})

    def promql(self, labels: Labels, span: Nanoseconds) -> str:
        """Return the query of the value over a span that ends at the query's time."""
        value, *others = (
            # A recorded sample covers its whole five minutes, and older stores include one at the
            # very start of a range.
            f"{self.function}({selector(name, labels)}[{span // _MILLISECOND - (':' in name)}ms])"
            for name in (self.name, self.over, self.beside)
            if name
        )
        if self.beside:
            # Functions drop the name, without which the two would be the same series.
            return " or ".join(
                f'label_replace({term}, "{_SIDE}", "{place}", "", "")'
                for place, term in enumerate((value, *others))
            )
        return f"{value} / ({others[0]} > 0)" if self.over else value


class AgentMetric(Struct, frozen=True):
    """One figure of a device, with the cheapest expression first."""

    name: str
    expressions: tuple[MetricExpression, ...]
    labels: tuple[str, ...] = ()
    """Labels that distinguish its series beside the device."""
    rounding: float = 0.001
    """Further digits only lengthen the answer."""
    only: Mapping[str, str] = {}
    """Labels with fixed values: no other series are read."""

    def expression(self, names: AbstractSet[str]) -> MetricExpression | None:
        """Return the first expression that a store with these names can answer."""
        return next(
            (expression for expression in self.expressions if expression.names <= names), None
        )

    def promql(self, names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
        """Return its query, with duplicate scrapes merged; `None` without an expression."""
        expression = self.expression(names)
        if expression is None:
            return None
        by = ", ".join(("uuid", *self.labels))
        value = f"max by ({by}) ({expression.promql({**labels, **self.only}, span)})"
        return f"round({value}, {self.rounding:.10g})"


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


def _counter(
    name: str,
    stem: str,
    *labels: str,
    suffix: str = "_total",
    rounding: float = 0.001,
    only: Mapping[str, str] | None = None,
) -> AgentMetric:
    level = "_".join(("uuid", *labels))
    rule = MetricExpression(f"{level}:rightsizer_{stem}:increase5m", "sum_over_time")
    raw = MetricExpression(f"rightsizer_{stem}{suffix}", "increase")
    return AgentMetric(name, (rule, raw), labels, rounding, only or {})


def _gauge(name: str, stem: str, function: str, rounding: float = 0.001) -> AgentMetric:
    rule = f"uuid:rightsizer_{stem}:{function.partition('_')[0]}5m"
    expressions = (
        MetricExpression(rule, function),
        MetricExpression(f"rightsizer_{stem}", function),
    )
    return AgentMetric(name, expressions, (), rounding)


def _mean(name: str, stem: str) -> AgentMetric:
    """Mean of a ratio: a distribution covers every second, a gauge one sample per scrape."""
    rule, gauge = _gauge(name, f"{stem}_ratio", "avg_over_time").expressions
    distribution = f"rightsizer_{stem}_distribution_ratio"
    exact = MetricExpression(f"{distribution}_sum", "increase", over=f"{distribution}_count")
    return AgentMetric(name, (rule, exact, gauge))


def _peak(name: str, stem: str) -> AgentMetric:
    return _gauge(name, f"{stem}_ratio", "max_over_time")


def _buckets(name: str, stem: str) -> AgentMetric:
    return _counter(name, f"{stem}_distribution_ratio_bucket", "le", suffix="", rounding=1.0)


STATES: Final = _counter("states", "state_seconds", "state")
CONDITIONS: Final = _counter("conditions", "condition_seconds", "condition")
WASTE: Final = _counter("waste", "waste_seconds", "cause")
IDLE_JOULES: Final = _counter(
    "idle_joules", "waste_joules", "cause", rounding=0.1, only={"cause": Cause.IDLE.value}
)
"""Of the causes, the only one used by a rule: active energy is the rest."""

TOTALS: Final = (
    _counter("seconds", "used_seconds"),
    _counter("energy", "energy_joules", rounding=0.1),
)
_CLOCK: Final = AgentMetric(
    "clock",
    tuple(
        MetricExpression(
            expression.format("work"), "avg_over_time", over=expression.format("active")
        )
        for expression in ("uuid:rightsizer_sm_{}_ratio:avg5m", "rightsizer_sm_{}_ratio")
    ),
)
"""Relative to the maximum, while the SMs work, as that is the clock of the pipes."""
_RATIOS: Final = {
    "busy": "gpu_busy", "sm_work": "sm_work", "tensor": "tensor_active", "dram": "dram_active"
}  # fmt: skip
_MEMORY: Final = ("memory_bytes", "memory_used_bytes")
MEANS: Final = (*starmap(_mean, _RATIOS.items()), _gauge(*_MEMORY, "avg_over_time", MIB), _CLOCK)
PEAKS: Final = (*starmap(_peak, _RATIOS.items()), _gauge(*_MEMORY, "max_over_time", MIB))


def _power(metric: AgentMetric) -> AgentMetric:
    """Power relative to its limit; from watts if agents export no ratio."""
    watts = "rightsizer_power_watts"
    function = metric.expressions[-1].function
    by_limit = MetricExpression(watts, function, over="rightsizer_power_limit_watts")
    return replace(metric, expressions=(*metric.expressions, by_limit))


POWER: Final = (_power(_mean("power", "power")), _power(_peak("power_peak", "power")))
"""Weights of the busy share for devices without profiling."""


def _link(name: str, link: str, function: str) -> AgentMetric:
    """Use the busier direction, or the known one."""
    receive, transmit = (
        _gauge(name, f"{link}_{way}_bytes_per_second", function).expressions
        for way in ("receive", "transmit")
    )
    both = [replace(a, beside=b.name) for a, b in zip(receive, transmit, strict=True)]
    return AgentMetric(name, (*both, *receive, *transmit), (), 1e6)


LINKS: Final = tuple(
    _link(f"{link}_{part}", link, function)
    for link in ("pcie", "nvlink")
    for part, function in (("mean", "avg_over_time"), ("peak", "max_over_time"))
)

BUCKETS: Final = (_buckets("sm_work", "sm_work"), _buckets("dram", "dram_active"))
_WINDOW: Final = {"window": "24h"}
LIMITS: Final = tuple(
    AgentMetric(kind, (MetricExpression(name, "last_over_time"),), ("resource",), 0.0001, _WINDOW)
    for kind, name in (
        ("saturated", "rightsizer_saturated_ratio"),
        ("pressed", "rightsizer_underprovisioned_ratio"),
    )
)
"""Shares of a day, of which the latest counts; named by the kind of the column."""
POWER_BUCKETS: Final = (_buckets("busy", "gpu_busy"), _buckets("power", "power"))
_ALL: Final = (
    STATES,
    CONDITIONS,
    WASTE,
    IDLE_JOULES,
    *TOTALS,
    *MEANS,
    *PEAKS,
    *POWER,
    *LINKS,
    *BUCKETS,
    *POWER_BUCKETS,
)
DEVICE_NAMES: Final = tuple(
    sorted(
        {
            name
            for figure in (*_ALL, *LIMITS)
            for expression in figure.expressions
            for name in expression.names
        }
    )
)
"""All metrics of a device that are read by the day."""


def unrecorded(names: AbstractSet[str]) -> frozenset[str]:
    """Return the series recorded by our rules that a store with these names lacks."""
    missing: set[str] = set()
    for figure in _ALL:
        rules = [expression for expression in figure.expressions if ":" in expression.name]
        is_scraped = any(
            expression.names <= names
            for expression in figure.expressions
            if expression not in rules
        )
        if rules and is_scraped and not any(rule.names <= names for rule in rules):
            missing |= rules[0].names - names
    return frozenset(missing)
