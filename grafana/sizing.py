"""Where the time went, and how large the devices should have been."""

from typing import Final

from grafana.colors import STATE_COLORS
from grafana.panels import (
    AMBER,
    BLUE,
    GREEN,
    RED,
    Sized,
    bars,
    color_overrides,
    heatmap,
    steps,
    table,
    time_series,
)
from grafana.queries import Json, instant, over_time, query, select, share
from rightsizer.domain.signal_metric import DISTRIBUTION_SIGNALS, distribution_metric_name

__all__ = ["distributions", "provisioning", "time_spent"]

_WINDOW: Final = 'window="$window"'


def time_spent() -> list[Sized]:
    """All devices at a glance, then each one's time as a strip."""
    states = "rightsizer_state_seconds_total"
    grown = over_time(states, span="$__range")
    by_device = table(
        "States by device",
        "Share of the time range that each device spent in each state.",
        [
            instant(
                f"sum by (uuid, state) ({grown}) / on (uuid) group_left () "
                f"(sum by (uuid) ({grown}) > 0)",
                shape="table",
            )
        ],
        "percentunit",
        [_matrix("state")],
        thresholds=steps((None, "transparent"), (0.05, "#1F60C4"), (0.5, BLUE)),
    )
    strip = time_series(
        "States of $uuid",
        "Share of each step spent in each state; the parts are all of the time.",
        [query(share(states, "state", states), "{{state}}")],
        "percentunit",
        stacked=True,
        maximum=1,
        overrides=color_overrides(STATE_COLORS),
    )
    strip |= {"repeat": "uuid", "repeatDirection": "h", "maxPerRow": 2}
    return [(by_device, 24, 8), (strip, 12, 6)]


def provisioning() -> list[Sized]:
    """Too large, too small, at the limit, and the needs that say so."""
    return [
        *((panel, 8, 8) for panel in _verdicts()),
        *((panel, 8, 8) for panel in _needs()),
    ]


def _verdicts() -> list[Json]:
    over = select("rightsizer_device_overprovisioned_ratio", _WINDOW)
    under = select("rightsizer_device_underprovisioned_ratio", _WINDOW)
    return [
        bars(
            "Over-provisioned",
            "What the largest need of the window leaves over, by device.",
            instant(f"sort_desc({over})", "{{uuid}}"),
            "percentunit",
            steps((None, GREEN), (0.3, BLUE), (0.5, AMBER)),
        ),
        bars(
            "Under-provisioned",
            "Share of the window's time during which the device was too small.",
            instant(f"sort_desc({under})", "{{uuid}}"),
            "percentunit",
            steps((None, GREEN), (0.01, AMBER), (0.05, RED)),
        ),
        table(
            "At the limit",
            "Share of the window's time at each resource's limit.",
            [instant(select("rightsizer_saturated_ratio", _WINDOW), shape="table")],
            "percentunit",
            [_matrix("resource")],
            thresholds=steps((None, "transparent"), (0.5, BLUE), (0.9, AMBER)),
        ),
    ]


def _needs() -> list[Json]:
    need = select("rightsizer_need_ratio", _WINDOW)
    return [
        time_series(
            "Need against capacity",
            "Need of each resource with its margin; above the line it does not fit.",
            [query(need, "{{uuid}} {{resource}}")],
            "percentunit",
            thresholds=steps((None, "transparent"), (1, RED)),
        ),
        table(
            "Need by resource",
            "Need of each resource with its margin, of the device's capacity, as it is now.",
            [instant(need, shape="table")],
            "percentunit",
            [_matrix("resource")],
            thresholds=steps((None, BLUE), (0.5, GREEN), (0.9, AMBER), (1, RED)),
        ),
        table(
            "Known of each window",
            "Known time over the window's length: how far its gauges can be trusted.",
            [instant(select("rightsizer_coverage_ratio"), shape="table")],
            "percentunit",
            [_matrix("window")],
            thresholds=steps((None, RED), (0.5, AMBER), (0.9, GREEN)),
        ),
    ]


def distributions() -> list[Sized]:
    """One heatmap for each histogram."""
    panels: list[Sized] = []
    for signal in DISTRIBUTION_SIGNALS:
        buckets = over_time(f"{distribution_metric_name(signal)}_bucket")
        panel = heatmap(
            f"Distribution of {signal.value}",
            f"Seconds by {signal.value}, one observation a second, all chosen devices together.",
            query(f"sum by (le) ({buckets})", "{{le}}", shape="heatmap"),
        )
        panels.append((panel, 8, 7))
    return panels


def _matrix(column: str) -> Json:
    options = {"columnField": column, "rowField": "uuid", "valueField": "Value"}
    return {"id": "groupingToMatrix", "options": options}
