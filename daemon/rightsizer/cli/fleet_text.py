"""An answer about an estate for a person: what there is, what was found, who pays."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.counted import counted
from rightsizer.cli.fleet_advice_text import advice_text, node_advice_text
from rightsizer.cli.fleet_source_text import sources_text
from rightsizer.cli.fleet_waiting_text import waiting_text
from rightsizer.cli.wrapped import wrapped
from rightsizer.domain.advice import OPEN_STATES
from rightsizer.domain.units import format_duration

__all__ = ["fleet_text"]

_MOST_ROWS: Final = 20
_WIDEST_NAME: Final = 26
_MIB: Final = 2.0**20


def fleet_text(form: Mapping[str, Any]) -> str:
    """In lines of at most 100 columns, but for names that are longer.

    Args:
        form: What `rightsizer fleet --json` prints.
    """
    lines = [
        *wrapped(_title(form)),
        *(line for note in form["notes"] for line in wrapped(f"! {note}", 2)),
        "",
        *sources_text(form["sources"], form["time"]),
        "",
        *_pools(form["pools"]),
        *waiting_text(form["waiting_work"]),
        *_teams(form["teams"]),
        *advice_text(form["advice"]),
        *node_advice_text(form["node_advice"], form["advice"]),
        *_silent(form["verdicts"]),
        "",
        *wrapped(_use(form["use"]), 0, 0),
        *wrapped(_next(form["advice"]), 0, 0),
    ]
    return "\n".join(lines)


def _title(form: Mapping[str, Any]) -> str:
    until = datetime.fromtimestamp(form["time"], UTC)
    gpus = f"{form['gpus']:g} GPU{'' if form['gpus'] == 1 else 's'}"
    pools, workloads = counted(len(form["pools"]), "pool"), counted(form["workloads"], "workload")
    back = format_duration(form["lookback_seconds"])
    return (
        f"{gpus} in {pools}, {workloads}, over {back} to {until:%Y-%m-%d %H:%M} UTC; "
        f"{form['coverage_ratio']:.0%} of the time is known."
    )


def _pools(pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    header = ("pool", "board", "nodes", "GPUs", "held", "most held", "active", "free", "waited for")
    rows = [
        (
            _short(pool["name"]),
            pool["board"] or "mixed",
            str(pool["nodes"]),
            f"{pool['gpus']:g}",
            _figure(pool["held_mean"]),
            _figure(pool["held_peak"]),
            _figure(pool["active_mean"]),
            str(pool["free_now"]),
            _figure(pool["waiting_gpus"]),
        )
        for pool in pools
    ]
    yield from _table(header, rows, ("pool", "board"))


def _teams(teams: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    header = ("team", "workloads", "GPU-hours", "used", "wasted", "kWh", "dollars", "wasted $")
    rows = [
        (
            _short(team["team"] or "(nobody)"),
            str(team["workloads"]),
            _figure(team["held_gpu_hours"]),
            _figure(team["used_gpu_hours"]),
            _figure(team["wasted_gpu_hours"]),
            _figure(team["kilowatt_hours"]),
            _middle(team["dollars"]),
            _middle(team["wasted_dollars"]),
        )
        for team in teams
    ]
    yield from _table(header, rows, ("team",))


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str]
) -> Iterator[str]:
    if not rows:
        return
    yield from aligned(header, rows[:_MOST_ROWS], left)
    if len(rows) > _MOST_ROWS:
        yield f"and {counted(len(rows) - _MOST_ROWS, header[0])} more; --json has all"
    yield ""


def _silent(verdicts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Where nobody would say anything: an answer that is none must not look like a good one."""
    rules: dict[str, list[str]] = {}
    for rule, counts in verdicts.items():
        if counts["abstained"] and not counts["complaints"] and not counts["well"]:
            most = max(counts["abstained"], key=lambda reason: counts["abstained"][reason])
            rules.setdefault(str(most), []).append(rule)
    if rules:
        yield ""
        yield "Rules that would not say anything of anybody:"
        for reason, silent in sorted(rules.items()):
            yield from wrapped(f"{reason}: {', '.join(silent)}", 2)


def _use(use: Mapping[str, float]) -> str:
    return (
        f"The store was asked {counted(int(use['queries']), 'query', 'queries')}, which brought "
        f"{use['samples']:,.0f} samples in {use['received_bytes'] / _MIB:.1f} MiB and took it "
        f"{use['store_seconds']:.1f} s."
    )


def _next(advice: Sequence[Mapping[str, Any]]) -> str:
    if any(each["state"] in OPEN_STATES for each in advice):
        return (
            "--explain ID tells why, --html FILE makes a page of it, --save keeps it; then "
            "'rightsizer claim --fleet ID' says that somebody acts."
        )
    return (
        "No rule found anything that holds over both of its spans; --json --all has every verdict."
    )


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST_NAME else f"{name[: _WIDEST_NAME - 1]}…"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _middle(interval: Mapping[str, float] | None) -> str:
    return "-" if interval is None else f"{interval['value']:,.0f}"
