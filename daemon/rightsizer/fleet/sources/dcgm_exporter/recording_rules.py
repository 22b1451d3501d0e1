"""Recording rules for dcgm-exporter's metrics, for any ruler that supports PromQL."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import Final

from msgspec.structs import replace

from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.dcgm_exporter import probe as dcgm
from rightsizer.fleet.sources.dcgm_exporter.interval_queries import (
    COUNTED,
    GAINED,
    LOWEST,
    MEAN,
    PEAK,
    RECORDED_STEP,
    IntervalQuery,
)
from rightsizer.fleet.sources.series import names_of, shares_of
from rightsizer.model.dcgm_fields import UUID_LABELS, DcgmField
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds

RULES_IN_A_GROUP: Final = 20
"""Default maximum of Mimir and Cortex."""
_QUERIES: Final[Sequence[tuple[IntervalQuery, Sequence[DcgmField]]]] = (
    (MEAN, dcgm.MEASURED),
    (PEAK, dcgm.PEAKED),
    (GAINED, (dcgm.ENERGY, dcgm.POWER_VIOLATION, dcgm.THERMAL_VIOLATION)),
)
_LOOK: Final = 900 * NANOSECONDS_PER_SECOND
"""Recorded samples are five minutes apart, so an instant query might miss them."""
_SHOWN: Final = 3
_HEAD: Final = """\
# Recording rules of dcgm-exporter's metrics, written by `rightsizer fleet rules`, named
# level:metric:operations. `rightsizer fleet` finds the series and reads them in place of raw ones.
#
# Each is of five minutes of the clock, whenever its group is evaluated, a minute after their end.
# They go by named labels: an exporter's others, and those of pods, are without end.
"""


def recorded_series(metrics: Collection[str]) -> tuple[tuple[IntervalQuery, str], ...]:
    """Return queries and metrics of everything that a run reads by interval."""
    names = frozenset(metrics)
    series = [(COUNTED, name) for name in dcgm.presence_names(names)]
    for query, fields in _QUERIES:
        series += ((query, name) for field in fields for name in dcgm.spelled(field, names))
    reasons = next(filter(None, (dcgm.spelled(reason, names) for reason in dcgm.REASONS)), ())
    return (*series, *product((MEAN, PEAK, LOWEST), reasons))


def with_recorded(store: MetricStore, report: SourceReport, now: Nanoseconds) -> SourceReport:
    """Return the report with the recorded series in the store, and those missing."""
    wanted = [query.name(metric) for query, metric in recorded_series(report.metrics)]
    names = names_of(store, wanted, now, UUID_LABELS, over=_LOOK)
    missing = sorted(frozenset(wanted) - names)
    if not names:
        return report
    can = (
        f"Long spans at little cost to the store: {len(names)} series of each GPU are recorded, "
        f"of {len(wanted)} that are read."
    )
    warnings = list(report.warnings)
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        warnings.append(
            f"Recorded series are missing ({len(missing)}: {shown}), which are read from samples: "
            "write the rules again (`rightsizer fleet rules --store.url ...`), and check that the "
            "ruler evaluates every group."
        )
    return replace(
        report, metrics=report.metrics | names, can=(*report.can, can), warnings=tuple(warnings)
    )


_FIELDS: Final = (*dcgm.MEASURED, *dcgm.THROTTLING, dcgm.ENERGY)
USUAL_METRICS: Final = frozenset(field.name for field in _FIELDS)
"""Current names of all metrics that a run reads by interval."""


def metrics_in(store: MetricStore, now: Nanoseconds) -> frozenset[str]:
    """Return the metrics in a store that a run reads by interval, in all spellings."""
    names = [name for fromkey in dict.fromkeys(_FIELDS) for name in dcgm.spellings(fromkey)]
    return names_of(store, names, now, UUID_LABELS)


def rules_text(metrics: Collection[str], labels: Iterable[str] = ()) -> str:
    """Return the rules file for some metrics; series also keep `labels`, such as a cluster's."""
    kept = tuple(labels)
    groups = shares_of(recorded_series(metrics), RULES_IN_A_GROUP)
    lines = (line for number, some in enumerate(groups, 1) for line in _group(number, some, kept))
    return f"{_HEAD}groups:\n" + "\n".join(lines)


def _group(
    number: int, some: Iterable[tuple[IntervalQuery, str]], labels: Sequence[str]
) -> Iterator[str]:
    yield f"  - name: rightsizer-dcgm-{number}"
    yield f"    interval: {seconds(RECORDED_STEP) / 60:.0f}m"
    yield "    rules:"
    for query, metric in some:
        yield f"      - record: {query.name(metric)}"
        yield "        expr: |"
        yield f"          {query.rule(metric, labels)}"
