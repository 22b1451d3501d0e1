"""An answer about an estate for a person: what there is, what was found, who pays."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rightsizer.cli.advise_text import advise_text
from rightsizer.cli.aligned import aligned
from rightsizer.cli.counted import counted
from rightsizer.cli.wrapped import wrapped
from rightsizer.domain.advice import Advice
from rightsizer.domain.units import format_duration
from rightsizer.fleet.plan import Plan
from rightsizer.fleet.source import SourceReport
from rightsizer.runtime.fleet.form import source_form

__all__ = ["fleet_text", "plan_text"]

_MOST_ROWS: Final = 20
_MIB: Final = 2.0**20


def fleet_text(form: Mapping[str, Any], advice: Sequence[Advice]) -> str:
    """In lines of at most 100 columns.

    Args:
        form: What `rightsizer fleet --json` prints.
        advice: The ledger's.
    """
    lines = [
        *wrapped(_title(form)),
        *(line for note in form["notes"] for line in wrapped(note, 2)),
        "",
        "Sources:",
        *(line for source in form["sources"] for line in _source(source, form["time"])),
        "",
        *_pools(form["pools"]),
        *_teams(form["teams"]),
        advise_text((), advice),
        *_nodes(form["node_advice"]),
        *_verdicts(form["verdicts"]),
        _use(form["use"]),
    ]
    return "\n".join(lines)


def plan_text(reports: Sequence[SourceReport], plan: Plan, now_seconds: float) -> str:
    """What a look would ask of the store, in lines of at most 100 columns.

    Args:
        reports: What the probe found.
        plan: What would be read.
        now_seconds: Wall time.
    """
    fine, coarse = counted(len(plan.fine_days), "day"), counted(len(plan.coarse_days), "day")
    by = (
        f"{fine} by five minutes, {coarse} by the hour; {plan.kept} of {plan.wanted} days of "
        "devices are kept already."
    )
    shards = counted(len(plan.shards), "shard")
    costs = (
        f"A look would take about {plan.queries} queries in {shards}, and bring about "
        f"{plan.samples} samples. Nothing was asked but the probe."
    )
    sources = (line for each in reports for line in _source(source_form(each), now_seconds))
    return "\n".join(["Sources:", *sources, "", *wrapped(by), *wrapped(costs)])


def _title(form: Mapping[str, Any]) -> str:
    until = datetime.fromtimestamp(form["time"], UTC)
    pools, workloads = counted(len(form["pools"]), "pool"), counted(form["workloads"], "workload")
    back = format_duration(form["lookback_seconds"])
    return (
        f"{form['gpus']:g} GPUs in {pools}, {workloads}, over {back} to {until:%Y-%m-%d %H:%M} "
        f"UTC; {form['coverage_ratio']:.0%} of the time is known."
    )


def _source(source: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    back = (
        "nothing within the lookback"
        if source["oldest"] is None
        else f"{format_duration(max(0.0, now_seconds - source['oldest']))} back"
    )
    every = source["resolution_seconds"]
    pace = "" if every is None else f", every {format_duration(every)}"
    devices = f"{counted(source['devices'], 'device')}, " if source["devices"] else ""
    yield f"  {source['source']}: {devices}{back}{pace}, tier {source['tier']}"
    for mark, key in (("+", "can"), ("-", "cannot"), ("!", "warnings")):
        for sentence in source[key]:
            yield from wrapped(f"{mark} {sentence}", 4)


def _pools(pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not pools:
        return
    header = ("pool", "board", "nodes", "GPUs", "held", "most held", "active", "free now")
    rows = [
        (
            pool["name"],
            pool["board"] or "mixed",
            str(pool["nodes"]),
            f"{pool['gpus']:g}",
            _figure(pool["held_mean"]),
            _figure(pool["held_peak"]),
            _figure(pool["active_mean"]),
            str(pool["free_now"]),
        )
        for pool in pools
    ]
    yield from aligned(header, rows, ("pool", "board"))
    yield ""


def _teams(teams: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not teams:
        return
    header = ("team", "workloads", "GPU-hours", "used", "wasted", "kWh", "dollars", "wasted $")
    rows = [
        (
            team["team"] or "(nobody)",
            str(team["workloads"]),
            _figure(team["held_gpu_hours"]),
            _figure(team["used_gpu_hours"]),
            _figure(team["wasted_gpu_hours"]),
            _figure(team["kilowatt_hours"]),
            _middle(team["dollars"]),
            _middle(team["wasted_dollars"]),
        )
        for team in teams[:_MOST_ROWS]
    ]
    yield from aligned(header, rows, ("team",))
    if len(teams) > _MOST_ROWS:
        yield f"and {counted(len(teams) - _MOST_ROWS, 'team')} more; --json has all"
    yield ""


def _nodes(advice: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not advice:
        return
    yield ""
    yield f"The nodes' own agents advise beside ({counted(len(advice), 'piece')}):"
    for each in advice[:_MOST_ROWS]:
        who = each["workload"] or ", ".join(each["devices"])
        yield from wrapped(f"{each['id']}  {each['reason']}: {each['action']} ({who})", 2)
    if len(advice) > _MOST_ROWS:
        yield f"  and {len(advice) - _MOST_ROWS} more; --json has all"


def _verdicts(verdicts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Where nobody would say anything: an answer that is none must not look like a good one."""
    silent = [
        (rule, max(counts["abstained"].items(), key=lambda each: each[1]))
        for rule, counts in verdicts.items()
        if counts["abstained"] and not counts["complaints"] and not counts["well"]
    ]
    if silent:
        yield ""
        told = ", ".join(f"{rule} ({reason})" for rule, (reason, _) in silent)
        yield from wrapped(f"No verdict at all from: {told}.")


def _use(use: Mapping[str, float]) -> str:
    return (
        f"\nThe store was asked {counted(int(use['queries']), 'query', 'queries')}: "
        f"{use['received_bytes'] / _MIB:.1f} MiB, {use['samples']:.0f} samples, "
        f"{use['store_seconds']:.1f} s of waiting."
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _middle(interval: Mapping[str, float] | None) -> str:
    return "-" if interval is None else _figure(interval["value"])
