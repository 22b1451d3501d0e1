"""Terminal text of a fleet answer: what to do, teams, waiting work, pools, what it rests on."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final

from rightsizer.console.advice import advice_lines
from rightsizer.fleet.advice_groups import AdviceGroup, opened
from rightsizer.fleet.pools.placement import gpus_text
from rightsizer.fleet.summary import summary_of
from rightsizer.io.terminal import aligned, counted, wrapped
from rightsizer.model.finding import Reason
from rightsizer.model.units import MIB, format_duration, percent_text, utc_text
from rightsizer.report.labels import first_names, readable_name

_MARKS: Final = {"+": "can", "-": "cannot", "!": "warnings"}


def _sources(sources: Sequence[Mapping[str, Any]], now_seconds: float) -> Iterator[str]:
    yield "Sources:"
    said: set[tuple[str, str]] = set()
    clusters = {each["cluster"] for each in sources}
    for source in sources:
        if not source["is_found"]:
            continue
        where = f" of {source['cluster'] or '(no cluster)'}" if len(clusters) > 1 else ""
        parts = (f"{source['source']}{where}", ", ".join(_facts(source, now_seconds)))
        yield f"  {': '.join(filter(None, parts))}"
        for mark, key in _MARKS.items():
            for sentence in source[key]:
                # Statements that hold for all clusters appear only for the first.
                if (source["source"], sentence) not in said:
                    said.add((source["source"], sentence))
                    yield from wrapped(f"{mark} {sentence}", 4)
    found = {each["source"] for each in sources if each["is_found"]}
    if absent := dict.fromkeys(e["source"] for e in sources if e["source"] not in found):
        yield from wrapped(f"not in the store: {', '.join(absent)}", 2)


def _facts(source: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
    if source["devices"]:
        yield counted(source["devices"], "device")
    if source["oldest"] is not None:
        yield f"{format_duration(max(0.0, now_seconds - source['oldest']))} back"
    elif source["devices"]:
        yield "nothing within the lookback"
    if source["resolution_seconds"] is not None:
        yield f"every {format_duration(source['resolution_seconds'])}"
    if source["devices"]:
        yield f"{source['tier']} tier"


def _clusters(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(clusters) <= 1:
        return
    header = ("cluster", "pools", "nodes", "GPUs", "workloads", "held", "active", "free", "waiting")
    rows = [
        (
            _short(each["name"] or "(no cluster)"),
            str(each["pools"]),
            str(each["nodes"]),
            f"{round(each['gpus'], 2):g}",
            str(each["workloads"]),
            *(_figure(each[key]) for key in ("held_mean", "active_mean")),
            str(each["free_now"]),
            _figure(each["waiting_gpus"]),
        )
        for each in clusters
    ]
    yield from _table(header, rows, ("cluster",))


_MOST_WAITING_ROWS: Final = 10
_MOST_NAMED: Final = 4


def _waiting(waiting: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not waiting:
        return
    yield "Waiting work, the longest waiting first:"
    for each in waiting[:_MOST_WAITING_ROWS]:
        since = each["waiting_seconds"]
        gpus = gpus_text(each["gpus"])
        where = f" of {each['pool']}" if each["pool"] else ""
        long = "" if since is None else f" for {format_duration(since)}"
        yield from wrapped(f"{each['key']} waits{long} for {gpus}{where}.", 2)
        for offer in each["offers"]:
            pool = f"{offer['pool']}, " if offer["pool"] != each["pool"] else ""
            nodes = first_names(list(offer["nodes"]), _MOST_NAMED)
            what = f"{gpus_text(offer['gpus'])} on {pool}{nodes}"
            steps = "; ".join(map(_step, offer["steps"]))
            after = f"after: {what}, once this is done: {steps}"
            yield from wrapped(f"now: {what}" if offer["is_now"] else after, 4)
        if each["left_gpus"] > 0:
            left = gpus_text(each["left_gpus"])
            yield from wrapped(f"nothing that is known could give {left}: {each['why_left']}", 4)
    if len(waiting) > _MOST_WAITING_ROWS:
        yield f"  and {counted(len(waiting) - _MOST_WAITING_ROWS, 'piece')} more; --json has all"
    yield ""


def _step(step: Mapping[str, Any]) -> str:
    who = first_names(step["workloads"], _MOST_NAMED)
    action = readable_name(step["action"])
    advice = f" ({step['advice']})" if step["advice"] else ""
    to = f" to {step['target']}" if step["target"] else ""
    return f"{action} {who}{to}{advice}, which frees {gpus_text(sum(step['frees'].values()))}"


_MOST_GROUPS: Final = 10
_MOST_IDS: Final = 3


def _advice(groups: Sequence[AdviceGroup], top: int) -> Iterator[str]:
    """Yield a table of what to do, most savings first, and then each row in sentences."""
    if not groups:
        return
    header = ("$ a day", "GPUs", "sure", "what", "where", "id")
    rows = [
        (
            _figure(group.dollars_per_day or None, 0),
            f"{group.gpus:,.1f}" if group.gpus else "-",
            percent_text(group.confidence),
            group.heading,
            _short(group.subject, _WIDEST_SUBJECT),
            group.pieces[0]["id"] if len(group.pieces) == 1 else "below",
        )
        for group in groups[:top]
    ]
    yield from aligned(header, rows, ("what", "where", "id"))
    if more := sum(len(group.pieces) for group in groups[top:]):
        yield f"and {more} more; --top shows more, --json has all"
    yield ""
    for group in groups[:top]:
        if len(group.pieces) > 1:
            yield from _group(group)
        else:
            (each,) = group.pieces
            yield from advice_lines(each, _action(each["action"]), each["key"] or "")
    yield ""


def _group(group: AdviceGroup) -> Iterator[str]:
    yield from wrapped(group.title, 2)
    keys = [str(piece["key"] or piece["workload"]) for piece in group.pieces]
    ids = first_names([piece["id"] for piece in group.pieces], _MOST_IDS)
    yield from wrapped(f"{first_names(keys, _MOST_NAMED)} ({ids})", 4)
    commands = group.commands
    if len(commands) == 1:
        yield from (f"    {line}" for line in commands[0].splitlines())
    elif commands:
        yield from wrapped(f"{len(commands)} commands; --commands FILE writes them", 4)


def _node_advice(
    pieces: Sequence[Mapping[str, Any]], advice: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the advice of the nodes' own agents, a line per reason; the fleet's may overlap."""
    if not pieces:
        return
    known = {each["id"] for each in opened(advice)}
    same = sum(each["id"] in known for each in pieces)
    same_text = f", {same} of them listed above too" if same else ""
    yield f"The nodes' own agents have {counted(len(pieces), 'open recommendation')}{same_text}:"
    ordered = sorted(pieces, key=lambda each: (each["reason"], each["action"], each["id"]))
    for (reason, action), group in groupby(ordered, key=lambda e: (e["reason"], e["action"])):
        named = first_names(list(dict.fromkeys(each["id"] for each in group)), _MOST_IDS)
        yield from wrapped(f"{reason}, {_action(action)}: {named}", 2)
    yield ""


def _action(action: str) -> str:
    return "no action" if action == "none" else readable_name(str(action))


_MOST_ROWS: Final = 20
_WIDEST_NAME: Final = 26
_WIDEST_SUBJECT: Final = 34
_NEXT: Final = (
    "--explain ID tells why, --html FILE makes a page of it, --save keeps it; then "
    "'rightsizer claim --fleet ID' says that you act on it."
)
_NOTHING_FOUND: Final = (
    "No rule found anything that holds over both of its spans; --json --all has every verdict."
)


def fleet_text(answer: Mapping[str, Any], top: int = _MOST_GROUPS) -> str:
    """Format the output of `rightsizer fleet --json` in 100 columns, except for long names.

    What it costs and what to do come first, what it rests on last.
    """
    summary = summary_of(answer)
    gpus = f"{round(answer['gpus'], 2):g} GPU{'' if answer['gpus'] == 1 else 's'}"
    pools = counted(len(answer["pools"]), "pool")
    workloads = counted(answer["workloads"], "workload")
    known = percent_text(answer["coverage_ratio"])
    title = (
        f"{gpus} in {pools}, {workloads}, over {format_duration(answer['lookback_seconds'])} to "
        f"{utc_text(answer['time'])}; {known} of the time is known."
    )
    use = answer["use"]
    usage = answer["usage"]
    asked = (
        f"The store was asked {counted(int(use['queries']), 'query', 'queries')}, which brought "
        f"{use['samples']:,.0f} samples in {use['received_bytes'] / MIB:.1f} MiB and took it "
        f"{use['store_seconds']:.1f} s."
    )
    # If one scheduler has all of it, the table of teams contains the same.
    kinds = [*usage["kinds"], {**usage["total"], "name": "all"}] if len(usage["kinds"]) > 1 else []
    warnings = len(answer["notes"]) + sum(len(each["warnings"]) for each in answer["sources"])
    look = f" {counted(warnings, 'warning')} at the end." if warnings else ""
    lines = [
        *wrapped(title + look),
        *wrapped(summary.headline),
        *wrapped(f"{summary.reclaim_text}."),
        "",
        *_advice(summary.groups, top),
        *_used("team", by_waste(answer["teams"])),
        *_used("kind", kinds),
        *_waiting(answer["waiting_work"]),
        *_clusters(answer["clusters"]),
        *_pools(answer["pools"]),
        *_node_advice(answer["node_advice"], answer["advice"]),
        *_silent(answer["verdicts"]),
        *_sources(answer["sources"], answer["time"]),
        *(line for note in answer["notes"] for line in wrapped(f"! {note}", 2)),
        "",
        *wrapped(asked, 0, 0),
        *wrapped(_NEXT if summary.advice else _NOTHING_FOUND, 0, 0),
    ]
    return "\n".join(lines)


def _pools(pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    header = ("pool", "board", "nodes", "GPUs", "held", "most held", "active", "free", "waited for")
    rows = [
        (
            _short(pool["name"]),
            pool["board"] or "mixed",
            str(pool["nodes"]),
            f"{round(pool['gpus'], 2):g}",
            *(_figure(pool[key]) for key in ("held_mean", "held_peak", "active_mean")),
            str(pool["free_now"]),
            _figure(pool["waiting_gpus"]),
        )
        for pool in pools
    ]
    yield from _table(header, rows, ("pool", "board"))


def _used(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    header = (name, "workloads", "GPU-hours", "used", "wasted", "kWh", "dollars", "wasted $")
    is_several = len({row["cluster"] for row in rows}) > 1
    lines = [
        (
            _short(used_by(row, is_several=is_several)),
            str(row["workloads"]),
            *(_figure(row[f"{key}_gpu_hours"]) for key in ("held", "used", "wasted")),
            _figure(row["kilowatt_hours"]),
            *(_figure((row[key] or {}).get("value"), 0) for key in ("dollars", "wasted_dollars")),
        )
        for row in _shown(rows)
    ]
    yield from _table(header, lines, (name,), len(rows))


def by_waste(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return rows of a bill by what they waste, most first; what nobody holds comes last."""

    def rank(row: Mapping[str, Any]) -> tuple[bool, float, float]:
        is_nobody = not row["workloads"]
        return is_nobody, -(row["wasted_dollars"] or {}).get("value", 0.0), -row["wasted_gpu_hours"]

    return sorted(rows, key=rank)


def _shown(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the first rows, with the one that holds most among them."""
    first = rows[:_MOST_ROWS]
    largest = max(rows, key=lambda row: row["held_gpu_hours"], default=None)
    return first if largest is None or largest in first else [*first[:-1], largest]


def used_by(row: Mapping[str, Any], *, is_several: bool) -> str:
    """Return the name of a row, prefixed by its cluster if there are several."""
    name = str(row.get("team") or row.get("name") or "(unknown)")
    return f"{row['cluster']}/{name}" if is_several and row["cluster"] else name


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[str],
    count: int | None = None,
) -> Iterator[str]:
    """Yield the first rows; `count` is the number of all, if only some are given."""
    if not rows:
        return
    yield from aligned(header, rows[:_MOST_ROWS], left)
    more = (len(rows) if count is None else count) - _MOST_ROWS
    if more > 0:
        yield f"and {counted(more, header[0])} more; --json has all"
    yield ""


def _silent(verdicts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield rules that only abstained: a missing answer must not look like a good one."""
    rules: dict[str, list[str]] = {}
    for rule, counts in verdicts.items():
        if counts["abstained"] and not counts["complaints"] and not counts["well"]:
            most = max(counts["abstained"], key=lambda reason: counts["abstained"][reason])
            is_lacking = most == Reason.UNSUPPORTED_TELEMETRY and counts["missing"]
            why = next(iter(counts["missing"])) if is_lacking else str(most)
            rules.setdefault(why, []).append(rule)
    if rules:
        yield "Rules that abstained everywhere:"
        for reason, silent in sorted(rules.items()):
            yield from wrapped(f"{reason}: {', '.join(silent)}", 2)
        yield ""


def _short(name: str, widest: int = _WIDEST_NAME) -> str:
    return name if len(name) <= widest else f"{name[: widest - 1]}…"


def _figure(value: float | None, places: int = 1) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def plan_text(answer: Mapping[str, Any]) -> str:
    """Format the output of `rightsizer fleet --dry-run --json` in 100 columns."""
    days = f"{_days_read(answer, 'would be')} are kept already."
    shards = counted(answer["shards"], "shard")
    queries = counted(answer["queries"], "query", "queries")
    costs = (
        f"That is about {queries} in {shards}, which bring about {answer['samples']:,} samples. "
        "Nothing was asked but the probe."
    )
    sources = _sources(answer["sources"], answer["time"])
    return "\n".join([*sources, "", *wrapped(days, 0, 0), *wrapped(costs, 0, 0)])


def reading_text(answer: Mapping[str, Any]) -> str:
    """Format what a shard of the nodes has read in 100 columns."""
    days = f"{_days_read(answer, 'were')} were kept before. All are in {answer['days']}."
    remedy = "For one answer, give the files of all shards to `rightsizer fleet merge`."
    notes = chain.from_iterable(wrapped(each, 0, 0) for each in (days, *answer["notes"], remedy))
    return "\n".join([*_sources(answer["sources"], answer["time"]), "", *notes])


def _days_read(answer: Mapping[str, Any], verb: str) -> str:
    fine = counted(answer["fine_days"], "day")
    coarse = counted(answer["coarse_days"], "day")
    kept = answer["kept_device_days"]
    wanted = answer["device_days"]
    steps = f"{fine} {verb} read by five minutes and {coarse} by the hour"
    return f"{steps}; of {wanted:,} days of devices {kept:,}"
