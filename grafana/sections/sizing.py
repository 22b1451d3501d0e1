"""How large the devices should have been."""

from typing import Final

from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.links import Board, of_series
from grafana.panels import Panel, bars, distribution, lines
from grafana.queries import by_number, cells, growth, named, now, over, select
from grafana.scales import CAPACITY, COVERAGE, OVERPROVISIONED, SATURATED, UNDERPROVISIONED
from grafana.tables import matrix
from rightsizer.model.metric import DISTRIBUTION_SIGNALS
from rightsizer.report.labels import display_name, uncapitalized

__all__ = ["distributions", "provisioning"]

_WINDOW: Final = 'window="$window"'
_DEVICE: Final = "GPU {{gpu}} {{mig_profile}}"


def provisioning() -> list[Panel]:
    """Too large, too small, at the limit, and the needs that say so."""
    return [*_verdicts(), *_needs()]


def _verdicts() -> list[Panel]:
    too_large = select("rightsizer_device_overprovisioned_ratio", _WINDOW)
    too_small = select("rightsizer_device_underprovisioned_ratio", _WINDOW)
    return [
        bars(
            "Over-provisioned",
            "Free part after the largest need of the window, by device.",
            "percentunit",
            now(f"sort_desc({named(too_large)})", _DEVICE),
            OVERPROVISIONED,
        ).data_links([of_series(Board.GPU, "instance", "uuid")]),
        bars(
            "Under-provisioned",
            "Share of the window's time under pressure.",
            "percentunit",
            now(f"sort_desc({named(too_small)})", _DEVICE),
            UNDERPROVISIONED,
        ).data_links([of_series(Board.GPU, "instance", "uuid")]),
        matrix(
            "At the limit",
            "Share of the window's time at each resource's limit.",
            cells(by_number(select("rightsizer_saturated_ratio", _WINDOW))),
            "resource",
            SATURATED,
        ),
    ]


def _needs() -> list[Panel]:
    need = select("rightsizer_need_ratio", _WINDOW)
    return [
        lines(
            "Need against capacity",
            "Demand plus margin; above the line it does not fit.",
            "percentunit",
            over(named(need), f"{_DEVICE} {{{{resource}}}}"),
            scale=CAPACITY,
        ).span(8),
        matrix(
            "Need by resource",
            "Need of each resource with its margin, of the device's capacity, as it is now.",
            cells(by_number(need)),
            "resource",
            CAPACITY,
        ),
        matrix(
            "Known of each window",
            "Known time over the window's length: coverage of its gauges.",
            cells(by_number(select("rightsizer_coverage_ratio"))),
            "window",
            COVERAGE,
        ),
    ]


def distributions() -> list[Panel]:
    """One heatmap for each histogram."""
    return [
        distribution(
            f"Distribution of {name}",
            f"Seconds by {name}, one observation a second, all chosen devices together.",
            over(
                f"sum by (le) ({growth(f'{signal.distribution_metric_name}_bucket')})", "{{le}}"
            ).format(PromQueryFormat.HEATMAP),
        )
        for signal in DISTRIBUTION_SIGNALS
        for name in (uncapitalized(display_name(signal)),)
    ]
