"""`docs/metrics.md`, made from the table of metrics."""

from collections.abc import Iterable
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

Everything that `/metrics` exports. Base units; ratios are 0 to 1; a value that no one knows is
absent, never 0. Value series carry `uuid` and at most two labels more; join the rest:

```promql
rightsizer_gpu_busy_ratio * on (uuid) group_left (gpu, model) rightsizer_device_info
rightsizer_power_watts * on (uuid) group_right () rightsizer_workload_share_ratio
```

A share of time is a part over the sum of the parts, so that time before a restart or without
telemetry does not count as something else:

```promql
sum by (uuid, state) (rate(rightsizer_state_seconds_total[1d]))
  / on (uuid) group_left () sum by (uuid) (rate(rightsizer_state_seconds_total[1d]))
```

Counters start at 0 with the process. Histograms have one observation a second, so their
quantiles are over time and merge over devices: `histogram_quantile(0.95, sum by (le)
(rate(rightsizer_power_distribution_ratio_bucket[1h])))`. `pod`, `namespace` and `container`
arrive as `exported_*` where Kubernetes discovery sets them, unless `honor_labels: true`.
A device that is down keeps its counters, `rightsizer_device_up` and the time of its last
sample; its readings and the gauges derived from them disappear.

Metrics are exported by collector. Each is switched by `web.metrics.collectors.<name>` or by the
flags `--collector.<name>` and `--no-collector.<name>`; `web.metrics.details` turns all of them
on. A request can ask for less: `?collect[]=memory&collect[]=power` for some collectors,
`?exclude[]=distributions` for all but one, `?name[]=rightsizer_gpu_busy_ratio` for single names.
These are not the collectors that ask the driver, whose label `rightsizer_collector_success` has.

`/metrics/dcgm`, switched on by `web.metrics.dcgm`, has the same devices under dcgm-exporter's
names, for what was made for it.

`web.metrics.level` exports less of each: `essential`, `standard`, or `full`, which has all. What
each costs, and what works with it, is in [cost](cost.md#levels).

The origin of a reading is the telemetry tier that it needs: `basic` is plain NVML, `power` adds
the board's draw, `profiling` is GPM (Hopper and later) or DCGM. `process_*` are
prometheus_client's own.
"""


def metrics_document() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *_table(METRICS.values()), "", *_collectors(), *_values(), *_dcgm()])


def _table(metrics: Iterable[MetricFamily]) -> Iterable[str]:
    yield "| metric | kind | unit | labels | collector | level | origin | meaning |"
    yield "|---|---|---|---|---|---|---|---|"
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield (
            f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.collector} "
            f"| {metric.level} | {metric.origin} | {metric.help} |"
        )


def _collectors() -> Iterable[str]:
    yield "## Collectors"
    yield ""
    yield "| collector | by default | what |"
    yield "|---|---|---|"
    for collector, sentence in COLLECTORS.items():
        usual = "on" if collector in DEFAULT_COLLECTORS else "off"
        yield f"| `{collector}` | {usual} | {sentence} |"
    yield ""


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
    yield "| metric | type | unit | meaning |"
    yield "|---|---|---|---|"
    for counter in DCGM_COUNTERS:
        field = counter.field
        yield f"| `{field.name}` | {field.type} | {counter.unit} | {counter.help} |"
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
