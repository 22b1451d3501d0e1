"""The first look: how much is wasted and why, and what to do about it."""

from typing import Final

from grafana.colors import CAUSE_COLORS
from grafana.panels import (
    AMBER,
    BLUE,
    GREEN,
    RED,
    Sized,
    bars,
    color_overrides,
    stat,
    steps,
    table,
    text,
)
from grafana.queries import Json, instant, over_time, query, select, share

__all__ = ["advice", "overview"]

_RANGE: Final = "$__range"
_CAPACITY: Final = (
    f" * on (job, instance, uuid) group_left () {select('rightsizer_device_capacity_ratio')}"
)
_WORDS: Final = """\
**Used** is, for each second, the share of the most used resource (compute, memory bandwidth, \
memory, links); all the rest is **wasted**, by cause. A GPU that reads 98 % busy may be used by \
a third.

**Over-provisioned** is what the largest need, margin included, leaves over. **Under-provisioned** \
is the share of time during which the workload was short. A saturated batch job is well used.

Gauges look back over the *Window* chosen above; *current* weighs the last hours most. \
Orange marks are advice: opened, closed, verified.
"""

_WASTED: Final = over_time("rightsizer_waste_seconds_total", span=_RANGE) + _CAPACITY


def overview() -> list[Sized]:
    """Six numbers, the waste by cause, and what the words mean."""
    by_cause = bars(
        "Wasted by cause",
        "GPU-hours left unused over the time range, by what kept the GPU from work.",
        instant(f"sum by (cause) ({_WASTED}) / 3600", "{{cause}}"),
        "h",
        steps((None, BLUE)),
    )
    by_cause["fieldConfig"]["overrides"] = color_overrides(CAUSE_COLORS)
    words = text("How to read this", "What the words of this dashboard mean.", _WORDS)
    return [*((panel, 4, 4) for panel in _numbers()), (by_cause, 12, 8), (words, 12, 8)]


def _numbers() -> list[Json]:
    used = f"sum({over_time('rightsizer_used_seconds_total', span=_RANGE)}{_CAPACITY})"
    return [
        stat(
            "Devices",
            "GPUs and MIG instances that answer their driver.",
            query(f"sum({select('rightsizer_device_up')})"),
            "none",
        ),
        stat(
            "Used",
            "Share of the known GPU time that was put to use, over the time range.",
            instant(f"{used} / ({used} + sum({_WASTED}) > 0)"),
            "percentunit",
            thresholds=steps((None, RED), (0.3, AMBER), (0.6, GREEN)),
            decimals=0,
        ),
        stat(
            "Wasted",
            "GPU-hours left unused over the time range; MIG instances count by their part.",
            instant(f"sum({_WASTED}) / 3600"),
            "h",
            decimals=0,
        ),
        stat(
            "Open advice",
            "Pieces of advice that still ask for something.",
            query(f"sum({select('rightsizer_advice_open')})"),
            "none",
            thresholds=steps((None, GREEN), (1, AMBER)),
        ),
        *_warnings(),
    ]


def _warnings() -> list[Json]:
    states = "rightsizer_state_seconds_total"
    stalled = share(states, "state", states, 'state="hidden_stall"')
    unknown = over_time(states, 'state="unknown"', span=_RANGE)
    return [
        stat(
            "Stalled",
            "Devices that were busy without working for most of the last minutes.",
            query(f"count({stalled} > 0.5) or vector(0)"),
            "none",
            thresholds=steps((None, GREEN), (1, RED)),
        ),
        stat(
            "Not known",
            "Share of the time range whose state nobody knows: no reading, or a dead agent.",
            instant(f"sum({unknown}) / (sum({over_time(states, span=_RANGE)}) > 0)"),
            "percentunit",
            thresholds=steps((None, GREEN), (0.05, AMBER), (0.2, RED)),
            decimals=1,
        ),
    ]


def advice() -> list[Sized]:
    """One sortable table."""
    keys = "on (job, instance, id) group_right ()"
    told = select("rightsizer_advice_info")
    targets = [
        instant(
            f"{select('rightsizer_advice_confidence_ratio')} * {keys} {told}",
            letter="A",
            shape="table",
        ),
        instant(
            f"{select('rightsizer_advice_opened_timestamp_seconds')} * 1000 * {keys} {told}",
            letter="B",
            shape="table",
        ),
    ]
    order = ["finding", "reason", "action", "workload", "uuid", "Value #A", "Value #B", "id"]
    organize = {
        "id": "organize",
        "options": {
            "excludeByName": {"Time": True, "job": True},
            "indexByName": {name: index for index, name in enumerate([*order, "instance"])},
            "renameByName": {"Value #A": "confidence", "Value #B": "opened"},
        },
    }
    panel = table(
        "What to do",
        "What to change and why, one line for each device; the agent's page has the evidence.",
        targets,
        "none",
        [{"id": "merge", "options": {}}, organize],
        overrides=[
            {
                "matcher": {"id": "byName", "options": "confidence"},
                "properties": [
                    {"id": "unit", "value": "percentunit"},
                    {"id": "decimals", "value": 0},
                ],
            },
            {
                "matcher": {"id": "byName", "options": "opened"},
                "properties": [{"id": "unit", "value": "dateTimeFromNow"}],
            },
        ],
    )
    return [(panel, 24, 7)]
