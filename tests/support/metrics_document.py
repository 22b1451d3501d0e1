"""`docs/metrics.md`, generated from the table of metrics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.exposition.device_metrics import CLOCK_EVENT_REASONS
from rightsizer.exposition.families import BUCKET_EDGES, number_text
from rightsizer.model.dcgm_fields import DCGM_COUNTERS
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import COLLECTORS, DEFAULT_COLLECTORS, MetricFamily
from rightsizer.model.state import Cause, Condition, Resource, State

_HEAD: Final = """\
# Metrics

<!-- Generated from daemon/rightsizer/model/metrics.csv; change it there and run `make golden`. -->

For queries and dashboards: everything on `/metrics`, by collector. Counters end in `_total`,
infos in `_info`, histograms in `_distribution_ratio`; others are gauges. Ratios are 0 to 1; an
unknown value is absent, never 0. Values carry `uuid` and at most two more labels; join the rest:

```promql
rightsizer_gpu_busy_ratio * on (uuid) group_left (gpu, model) rightsizer_device_info
rightsizer_power_watts * on (uuid) group_right () rightsizer_workload_share_ratio
```

A share of time is a part over the sum of the parts, so that missing time does not count:

```promql
sum by (uuid, state) (rate(rightsizer_state_seconds_total[1d]))
  / on (uuid) group_left () sum by (uuid) (rate(rightsizer_state_seconds_total[1d]))
```

- Counters start at 0 with the process.
- Histograms have one observation a second: quantiles are over time and merge over devices, as in
  `histogram_quantile(0.95, sum by (le) (rate(rightsizer_power_distribution_ratio_bucket[1h])))`.
- Kubernetes discovery turns `pod`, `namespace` and `container` into `exported_*` unless
  `honor_labels: true`.
- A device that is down keeps its counters, `rightsizer_device_up` and the time of its last sample.
- Switch collectors by `web.metrics.collectors.<name>`, `--collector.<name>` or
  `--no-collector.<name>`, all by `web.metrics.details`; or for one request by `?collect[]=memory`,
  `?exclude[]=distributions`, `?name[]=rightsizer_gpu_busy_ratio`. These are not the driver's
  collectors of `rightsizer_collector_success`.
- `web.metrics.level`: `essential`, `standard` (default) or `full` ([levels](alerts.md#levels)).
- In parentheses: labels, level and origin. Origin is the telemetry tier needed: `basic` (NVML),
  `power`, `profiling` (GPM or DCGM).
- `/metrics/dcgm` ([below](#as-dcgm-exporter)) has dcgm-exporter's names (`web.metrics.dcgm`).
- `process_*` are prometheus_client's.
"""


def metrics_document() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *_collectors(), *_values(), *_dcgm()])


def _collectors() -> Iterable[str]:
    yield "## Collectors"
    yield ""
    for collector, sentence in COLLECTORS.items():
        usual = "" if collector in DEFAULT_COLLECTORS else " Off by default."
        yield f"### `{collector}`"
        yield ""
        yield f"{sentence}{usual}"
        yield ""
        yield from _listed([metric for metric in METRICS.values() if metric.collector == collector])


def _listed(metrics: Sequence[MetricFamily]) -> Iterable[str]:
    """Each with its labels, level and origin; the ones that most share are said in the head."""
    if not metrics:
        return
    level = _usual(metric.level for metric in metrics)
    origin = _usual(metric.origin for metric in metrics)
    yield f"Unless noted, level {level}, origin {origin}."
    yield ""
    for metric in metrics:
        other_level = metric.level if metric.level != level else ""
        other_origin = metric.origin if metric.origin != origin else ""
        notes = filter(
            None, (*(f"`{label}`" for label in metric.labels), other_level, other_origin)
        )
        noted = ", ".join(map(str, notes))
        yield f"- `{metric.name}`{f' ({noted})' if noted else ''}: {metric.help}"
    yield ""


def _usual(values: Iterable[str]) -> str:
    return Counter(values).most_common(1)[0][0]


def _dcgm() -> Iterable[str]:
    yield "## As dcgm-exporter"
    yield ""
    yield (
        "`/metrics/dcgm` has these of dcgm-exporter's default counters, in the text format alone. "
        "On a MIG"
    )
    yield (
        "instance those of the card are its GPU's; utilization is absent, as with dcgm-exporter. "
        "Those"
    )
    yield (
        "called `PROF` need the profiling tier. The state of a vGPU license is not read, and so "
        "absent."
    )
    yield ""
    for counter in DCGM_COUNTERS:
        field = counter.field
        kind = ", ".join(filter(None, (str(field.type), counter.unit)))
        yield f"- `{field.name}` ({kind}): {counter.help}"
    yield ""


def _values() -> Iterable[str]:
    edges = (*map(number_text, BUCKET_EDGES), "+Inf")
    yield "## Values of labels"
    yield ""
    for label, values in (
        ("state", State),
        ("condition", tuple(Condition)),
        ("cause", Cause),
        ("resource", Resource),
        ("reason` of `rightsizer_clock_event_reason", CLOCK_EVENT_REASONS),
        ("le", edges),
    ):
        yield f"- `{label}`: " + ", ".join(f"`{value}`" for value in values) + "."
    yield "- `window`: `24h`, `7d`, and `current`, which the advice rests on."
    yield ""
