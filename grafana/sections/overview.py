"""The first look at a node: how much is wasted and why."""

from typing import Final

from grafana.colors import CAUSE_COLORS
from grafana.panels import GPU_HOURS, Panel, bars, fixed, number, words
from grafana.queries import growth, now, over, select, share, whole_gpus
from grafana.scales import ATTENTION, ERRORS, UNKNOWN, USED

__all__ = ["explanation", "numbers", "wasted_by_cause"]

_RANGE: Final = "$__range"
_STATES: Final = "rightsizer_state_seconds_total"
_USED: Final = whole_gpus(growth("rightsizer_used_seconds_total", span=_RANGE))
_WASTED: Final = whole_gpus(growth("rightsizer_waste_seconds_total", span=_RANGE))
_WORDS: Final = """\
**Used** is, for each second, the share of the most used resource (compute, memory bandwidth, \
memory, links); all the rest is **wasted**, by cause. A GPU that reads 98% busy may be used by \
a third.

**Over-provisioned** is what the largest need, margin included, leaves free. **Under-provisioned** \
is the share of time under pressure. A saturated batch job is well used.

Gauges look back over the *Window* above; *current* weighs the last hours most. Orange annotations \
are recommendations: opened, closed, verified.
"""


def numbers() -> list[Panel]:
    """Six numbers."""
    return [
        number(
            "Devices",
            "GPUs and MIG instances that respond.",
            "short",
            over(f"sum({select('rightsizer_device_up')})"),
        ),
        number(
            "Used",
            "Effective utilization of the known GPU time, over the time range.",
            "percentunit",
            now(f"sum({_USED}) / (sum({_USED}) + sum({_WASTED}) > 0)"),
            USED,
        ).decimals(0),
        number(
            "Wasted",
            "Wasted GPU-hours over the time range; MIG instances count by their part.",
            GPU_HOURS,
            now(f"sum({_WASTED}) / 3600"),
        ).decimals(0),
        number(
            "Open recommendations",
            "Open recommendations.",
            "short",
            over(f"sum({select('rightsizer_advice_open')})"),
            ATTENTION,
        ),
        *_warnings(),
    ]


def wasted_by_cause() -> Panel:
    """One bar for each cause."""
    panel = bars(
        "Wasted by cause",
        "Wasted GPU-hours over the time range, by cause.",
        GPU_HOURS,
        now(f"sort_desc(sum by (cause) ({_WASTED}) / 3600)", "{{cause}}"),
    )
    return fixed(panel, CAUSE_COLORS).span(12)


def explanation() -> Panel:
    """What the words mean."""
    return words("How to read this", "Terms of this dashboard.", _WORDS)


def _warnings() -> list[Panel]:
    stalled = share(_STATES, "state", 'state="hidden_stall"')
    unknown = growth(_STATES, 'state="unknown"', span=_RANGE)
    return [
        number(
            "Stalled",
            "Devices in a hidden stall for most of the last minutes.",
            "short",
            over(f"count({stalled} > 0.5) or vector(0)"),
            ERRORS,
        ),
        number(
            "Unknown",
            "Share of the time range without a known state: no reading, or no agent.",
            "percentunit",
            now(f"sum({unknown}) / (sum({growth(_STATES, span=_RANGE)}) > 0)"),
            UNKNOWN,
        ).decimals(1),
    ]
