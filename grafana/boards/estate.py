"""What `rightsizer fleet --serve` finds over all nodes: pools, teams, advice, and what it costs.

The service looks every hour or so; its gauges stand still in between.
"""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.links import Board
from grafana.panels import EMPTY, Panel, bars, lines, number, readable
from grafana.queries import cells, none_named, now, of_service, over, served
from grafana.scales import ATTENTION, COVERAGE, LOOK_AGE, POOL_USED
from grafana.sections.to_do import REASONS, Source, advice_table, to_do
from grafana.tables import Column, rows, sorted_by

__all__ = ["estate"]

_LOOK: Final = 'name="fleet"'
_SPAN: Final = "$__range"
_NO_SERVICE: Final = "No fleet service is scraped"
_SERVICE: Final = Source(
    of_service(served("rightsizer_advice_info")),
    lambda name: served(f"rightsizer_advice_{name}"),
)


def estate() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.ESTATE,
        "Cluster",
        "Cluster-wide recommendations of rightsizer fleet --serve: pools, teams, cost of queries.",
        (
            Section("What to do", to_do(_SERVICE)),
            Section("The last run", (*_numbers(), *_findings())),
            Section("Pools and teams", (_pools(), *_courses())),
            Section("Recommendations", (advice_table(_SERVICE),)),
            Section("Sources and queries", (*_sources(), *_store())),
            Section("The service", _service(), is_folded=True),
        ),
    )


def _pool(figure: str, by: str = "") -> str:
    return f"sum by ({by}) ({served(f'rightsizer_fleet_pool_{figure}')})"


def _active_share(by: str = "") -> str:
    return f"{_pool('active_gpus', by)} / ({_pool('gpus', by)} > 0)"


def _grown(name: str) -> str:
    return f"sum(increase({served(name)}[{_SPAN}]))"


def _numbers() -> list[Panel]:
    succeeded = served("rightsizer_job_last_success_timestamp_seconds", _LOOK)
    look = of_service(served("rightsizer_sampling_interval_seconds"))
    panels = [
        number("GPUs", "Whole GPUs of all pools.", "short", over(_pool("gpus"))).decimals(0),
        number(
            "Active",
            "GPUs that are neither idle nor unknown, of all, as a mean over the lookback.",
            "percentunit",
            over(_active_share()),
            POOL_USED,
        ).decimals(0),
        number(
            "Held, not active",
            "GPUs held and not used, as a mean over the lookback.",
            "short",
            over(f"{_pool('held_gpus')} - {_pool('active_gpus')}"),
        ).decimals(1),
        number(
            "Known",
            "Known part of the present devices' time over the lookback.",
            "percentunit",
            over(f"min({served('rightsizer_fleet_coverage_ratio')})"),
            COVERAGE,
        ).decimals(0),
        number(
            "Open recommendations",
            "Open cluster-wide recommendations.",
            "short",
            over(f"sum({of_service(served('rightsizer_advice_open'))})"),
            ATTENTION,
        ),
        number(
            "Runs missed",
            "Age of the last successful run, in intervals.",
            "short",
            over(f"max((time() - {succeeded}) / on (cluster, job, instance) ({look}))"),
            LOOK_AGE,
        ).decimals(1),
    ]
    return [panel.no_value(_NO_SERVICE) for panel in panels]


def _pools() -> Panel:
    panel = rows(
        "Pools",
        "Means over the lookback; most unused first.",
        (
            Column("cluster"),
            Column("pool"),
            Column("A", "GPUs", "short", 0),
            Column("B", "held", "short", 1),
            Column("C", "active", "short", 1),
            Column("D", "active of all", "percentunit", 0, POOL_USED),
            Column("E", "not active", "short", 1),
            Column("F", "free now", "short", 0),
            Column("G", "waited for", "short", 0),
        ),
        *(
            cells(_pool(figure, "cluster, pool"), letter=letter)
            for figure, letter in (
                ("gpus", "A"),
                ("held_gpus", "B"),
                ("active_gpus", "C"),
                ("free_gpus", "F"),
                ("waiting_gpus", "G"),
            )
        ),
        cells(_active_share("cluster, pool"), letter="D"),
        cells(
            f"{_pool('gpus', 'cluster, pool')} - {_pool('active_gpus', 'cluster, pool')}",
            letter="E",
        ),
    )
    return sorted_by(panel, "not active").no_value(_NO_SERVICE)


def _courses() -> list[Panel]:
    waiting = "rightsizer_fleet_pool_waiting_gpus"
    by_team = f"sum by (team) ({served('rightsizer_fleet_team_wasted_gpus')})"
    return [
        lines(
            "Active by pool",
            "GPUs that are neither idle nor unknown, as a mean over each lookback.",
            "short",
            over(none_named(_pool("active_gpus", "pool"), "pool"), "{{pool}}"),
        ).span(8),
        lines(
            "Pending by pool",
            "GPUs that pending work needs; with free GPUs in the pool it waits for something else.",
            "short",
            over(none_named(f"sum by (pool) ({served(waiting)})", "pool"), "{{pool}}"),
        )
        .span(8)
        .no_value("No scheduler's exporter is read"),
        bars(
            "Wasted by team",
            "GPUs held and wasted, as a mean over the lookback; top ten.",
            "short",
            now(f"sort_desc(topk(10, {none_named(by_team, 'team')}))", "{{team}}"),
        ).no_value("No team is known"),
    ]


def _findings() -> list[Panel]:
    findings = of_service(served("rightsizer_recommender_findings"))
    abstained = of_service(served("rightsizer_recommender_abstentions"))
    nodes = served("rightsizer_fleet_node_advice")
    found = bars(
        "Findings of the last run",
        "Complaints by first reason; those that last become recommendations.",
        "short",
        now(f"sort_desc(sum by (reason) ({findings}))", "{{reason}}"),
    )
    unjudged = bars(
        "Not judged in the last run",
        "Rules that could not judge, by reason.",
        "short",
        now(f"sort_desc(sum by (reason) ({abstained}))", "{{reason}}"),
    )
    return [
        readable(found, REASONS).no_value("No findings, or no fleet service is scraped"),
        readable(unjudged, REASONS).no_value(
            "Everything was judged, or no fleet service is scraped"
        ),
        bars(
            "Recommendations of the nodes' agents",
            "Open ones by finding; the service does not repeat them.",
            "short",
            now(f"sort_desc(sum by (finding) ({nodes}))", "{{finding}}"),
        ).no_value("Agents have no open recommendations"),
    ]


def _sources() -> list[Panel]:
    devices = served("rightsizer_fleet_source_devices")
    return [
        bars(
            "Devices by source",
            "GPUs and MIG instances by source.",
            "short",
            now(f"sort_desc(sum by (source) ({devices}))", "{{source}}"),
        ).no_value(_NO_SERVICE),
        lines(
            "Duration of a run",
            "Of the last run, successful or not.",
            "s",
            over(served("rightsizer_job_last_duration_seconds", _LOOK), "{{instance}}"),
        ).span(16),
    ]


def _store() -> list[Panel]:
    queries = _grown("rightsizer_fleet_queries_total")
    asked = (
        ("Queries", "Queries to the store over the time range.", "short", queries),
        (
            "Retries",
            "Repeated queries; many mean a store in trouble.",
            "short",
            _grown("rightsizer_fleet_query_retries_total"),
        ),
        (
            "Halved",
            "Queries beyond the store's limits, sent in two parts.",
            "short",
            _grown("rightsizer_fleet_query_halvings_total"),
        ),
        (
            "Received",
            "Bytes from the store over the time range.",
            "bytes",
            _grown("rightsizer_fleet_query_bytes_total"),
        ),
        (
            "Time of a query",
            "Mean time of a query over the time range.",
            "s",
            f"{_grown('rightsizer_fleet_query_seconds_total')} / ({queries} > 0)",
        ),
    )
    return [
        number(title, description, unit, now(expression)).no_value(EMPTY)
        for title, description, unit, expression in asked
    ]


def _service() -> list[Panel]:
    failures = served("rightsizer_job_failures_total")
    resident = of_service(served("process_resident_memory_bytes"))
    seconds = f"rate({served('process_cpu_seconds_total')}[$__rate_interval])"
    panels = [
        lines(
            "Failed jobs",
            "Runs and deliveries to Grafana and webhooks that failed.",
            "short",
            over(of_service(f"increase({failures}[$__rate_interval])"), "{{instance}} {{name}}"),
        ),
        lines(
            "Memory of the service",
            "Resident memory of the service, without its worker processes.",
            "bytes",
            over(resident, "{{instance}}"),
        ),
        lines(
            "CPU of the service",
            "Share of one core, without its worker processes.",
            "percentunit",
            over(of_service(seconds), "{{instance}}"),
        ),
    ]
    return [panel.span(8) for panel in panels]
