"""Blocks of a fleet answer: what to do, teams, waiting work, pools, what it rests on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from rightsizer.fleet.advice_groups import MOST_IDS, AdviceGroup, heading_of, open_recommendations
from rightsizer.fleet.pools.placement import gpus_text
from rightsizer.fleet.served_blocks import served_blocks
from rightsizer.fleet.summary import summary_of
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    MIB,
    Reason,
    elapsed_text,
    format_duration,
    percent_text,
    utc_text,
)
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    Cell,
    CellKind,
    Column,
    Heading,
    Items,
    Key,
    Section,
    Table,
    number_column,
    section,
    table_of,
)
from rightsizer.report.labels import first_names, readable_name, reason_label
from rightsizer.report.rows import WORKLOAD_COLUMNS, rows_table

_JsonMapping = Mapping[str, Any]
_MOST_ROWS: Final = 20
_PAGE_ROWS: Final = 100
_WIDEST_NAME: Final = 22
_MARKS: Final = {"+": "can", "-": "cannot", "!": "warnings"}


def _sources(sources: Sequence[_JsonMapping], now_seconds: float, *notes: str) -> Section:
    blocks = list[Block]()
    said: set[tuple[str, str]] = set()
    clusters = {source["cluster"] for source in sources}
    for source in sources:
        if not source["is_found"]:
            continue
        where = f" of {source['cluster'] or '(no cluster)'}" if len(clusters) > 1 else ""
        parts = (f"{source['source']}{where}", ", ".join(_facts(source, now_seconds)))
        sentences = [(mark, text) for mark, key in _MARKS.items() for text in source[key]]
        # Statements that hold for all clusters appear only for the first.
        lines = [
            f"{mark} {text}" for mark, text in sentences if (source["source"], text) not in said
        ]
        said |= {(source["source"], text) for _, text in sentences}
        title = ": ".join(filter(None, parts))
        blocks.append(section(title, Items(tuple(lines))) if lines else title)
    present = {source["source"] for source in sources if source["is_found"]}
    if absent := dict.fromkeys(e["source"] for e in sources if e["source"] not in present):
        blocks.append(f"not in the store: {', '.join(absent)}")
    return section("Sources:", *blocks, Items(tuple(f"! {note}" for note in notes)))


def _facts(source: _JsonMapping, now_seconds: float) -> Iterator[str]:
    if source["devices"]:
        yield counted(source["devices"], "device")
    if source["oldest"] is not None:
        yield f"{elapsed_text(now_seconds - source['oldest'])} back"
    elif source["devices"]:
        yield "nothing within the lookback"
    if source["resolution_seconds"] is not None:
        yield f"every {format_duration(source['resolution_seconds'])}"
    if source["devices"]:
        yield f"{source['tier']} tier"


def _clusters(clusters: Sequence[_JsonMapping]) -> Section:
    columns: dict[Heading, Callable[[_JsonMapping], Cell]] = {
        Column("cluster", widest=_WIDEST_NAME): lambda row: row["name"] or "(no cluster)",
        number_column("pools"): itemgetter("pools"),
        number_column("nodes"): itemgetter("nodes"),
        number_column("GPUs"): itemgetter("gpus"),
        number_column("workloads"): itemgetter("workloads"),
        number_column("held"): itemgetter("held_mean"),
        number_column("active"): itemgetter("active_mean"),
        number_column("free"): itemgetter("free_now"),
        number_column("waiting"): itemgetter("waiting_gpus"),
    }
    rows = clusters if len(clusters) > 1 else ()
    return section("Clusters", table_of(rows, columns, **_cut("clusters")))


def _cut(name: str) -> dict[str, Any]:
    """Return how many rows a table shows, and what the others are."""
    return {
        "row_maximum": _MOST_ROWS,
        "page_row_maximum": _PAGE_ROWS,
        "rest": f" {name}; --json has all",
    }


_MOST_WAITING_ROWS: Final = 10
_MOST_NAMED: Final = 4


def _waiting(waiting: Sequence[_JsonMapping]) -> Section:
    blocks = [_served(work) for work in waiting[:_MOST_WAITING_ROWS]]
    more = len(waiting) - _MOST_WAITING_ROWS
    rest = f"and {counted(more, 'piece')} more; --json has all" if more > 0 else ""
    return section("Waiting work, the longest waiting first:", *blocks, rest)


def _served(work: _JsonMapping) -> Block:
    since = work["waiting_seconds"]
    where = f" of {work['pool']}" if work["pool"] else ""
    long = "" if since is None else f" for {format_duration(since)}"
    lines = []
    for offer in work["offers"]:
        pool = f"{offer['pool']}, " if offer["pool"] != work["pool"] else ""
        nodes = first_names(list(offer["nodes"]), _MOST_NAMED)
        what = f"{gpus_text(offer['gpus'])} on {pool}{nodes}"
        steps = "; ".join(map(_step, offer["steps"]))
        after = f"after: {what}, once this is done: {steps}"
        lines.append(f"now: {what}" if offer["is_now"] else after)
    if work["left_gpus"] > 0:
        left = gpus_text(work["left_gpus"])
        lines.append(f"nothing that is known could give {left}: {work['why_left']}")
    title = f"{work['key']} waits{long} for {gpus_text(work['gpus'])}{where}."
    return section(title, Items(tuple(lines))) if lines else title


def _step(step: _JsonMapping) -> str:
    who = first_names(step["workloads"], _MOST_NAMED)
    action = readable_name(step["action"])
    advice = f" ({step['advice']})" if step["advice"] else ""
    to = f" to {step['target']}" if step["target"] else ""
    return f"{action} {who}{to}{advice}, which frees {gpus_text(sum(step['frees'].values()))}"


_MOST_GROUPS: Final = 10


def advice_table(groups: Sequence[AdviceGroup], shown: int, rest: str) -> Table:
    """Return the table of what to do, in order, of which so many rows are shown."""
    return rows_table(
        groups,
        WORKLOAD_COLUMNS,
        "whose",
        row_maximum=shown,
        page_row_maximum=shown,
        rest=rest,
        anchors=tuple(group.pieces[0]["id"] for group in groups),
        search="a name, a reason, an id",
    )


def _node_advice(pieces: Sequence[_JsonMapping], advice: Sequence[_JsonMapping]) -> Section:
    """Return the advice of the nodes' own agents, a line per reason; the fleet's may overlap."""
    open_ids = {recommendation["id"] for recommendation in open_recommendations(advice)}
    same = sum(piece["id"] in open_ids for piece in pieces)
    same_text = f", {same} of them listed above too" if same else ""
    title = f"The nodes' own agents have {counted(len(pieces), 'open recommendation')}{same_text}:"
    ids = dict[str, list[str]]()
    for piece in sorted(pieces, key=itemgetter("reason", "action", "id")):
        ids.setdefault(heading_of(piece["action"], piece["finding"], piece["reason"]), []).append(
            piece["id"]
        )
    lines = (f"{heading} ({first_names(named, MOST_IDS)})" for heading, named in ids.items())
    return section(title, Items(tuple(lines)))


_NEXT: Final = (
    "--explain ID tells why, --html FILE makes a page of it, --save keeps it; then "
    "'rightsizer claim --fleet ID' says that you act on it."
)
_NOTHING_FOUND: Final = (
    "No rule found anything that holds over both of its spans; --json --all has every verdict."
)


def fleet_blocks(answer: _JsonMapping, top: int = _MOST_GROUPS) -> Iterator[Block]:
    """Yield the blocks of the output of `rightsizer fleet --json`.

    What it costs and what to do come first, what it rests on last.
    """
    summary = summary_of(answer)
    yield known_text(answer)
    yield summary.headline
    yield f"{summary.reclaim_text}."
    yield advice_table(summary.groups, top, "; --top shows more, --json has all")
    yield section("What to do:", *(group.sentences for group in summary.groups[:top]))
    yield from rest_blocks(answer, top)
    yield _NEXT if summary.advice else _NOTHING_FOUND


def known_text(answer: _JsonMapping) -> str:
    """Return of what and over what time it is."""
    said = {
        (source["source"], text)
        for source in answer["sources"]
        if source["is_found"]
        for text in source["warnings"]
    }
    warnings = len(answer["notes"]) + len(said)
    look = f" {counted(warnings, 'warning')} at the end." if warnings else ""
    gpus = f"{round(answer['gpus'], 2):g} GPU{'' if answer['gpus'] == 1 else 's'}"
    pools = counted(len(answer["pools"]), "pool")
    workloads = counted(answer["workloads"], "workload")
    known_share = percent_text(answer["coverage_ratio"])
    return (
        f"{gpus} in {pools}, {workloads}, over {format_duration(answer['lookback_seconds'])} to "
        f"{utc_text(answer['time'])}; {known_share} of the time is known.{look}"
    )


def rest_blocks(answer: _JsonMapping, top: int = _MOST_GROUPS) -> Iterator[Block]:
    """Yield models, teams and all that follows: waiting work, pools, what the answer rests on."""
    yield served_blocks(answer["served_models"], top)
    usage = answer["usage"]
    # If one scheduler has all of it, the table of teams contains the same.
    kinds = [*usage["kinds"], {**usage["total"], "name": "all"}] if len(usage["kinds"]) > 1 else []
    over = f"over {format_duration(answer['lookback_seconds'])}"
    yield _used(f"Teams, {over}", "team", _by_waste(answer["teams"]), search="a team")
    yield _used(f"Kinds of holders, {over}", "kind", kinds)
    yield _waiting(answer["waiting_work"])
    yield _clusters(answer["clusters"])
    yield _pools(sorted(answer["pools"], key=lambda pool: (-pool["gpus"], pool["name"])))
    yield _node_advice(answer["node_advice"], answer["advice"])
    yield _silent(answer["verdicts"])
    yield _sources(answer["sources"], answer["time"], *answer["notes"])
    use = answer["use"]
    yield (
        f"The store was asked {counted(int(use['queries']), 'query', 'queries')}, which brought "
        f"{use['samples']:,.0f} samples in {use['received_bytes'] / MIB:.1f} MiB and took it "
        f"{use['store_seconds']:.1f} s."
    )


def _pools(pools: Sequence[_JsonMapping]) -> Section:
    columns: dict[Heading, Callable[[_JsonMapping], Cell]] = {
        Column("pool", widest=_WIDEST_NAME): itemgetter("name"),
        "board": lambda pool: pool["board"] or "mixed",
        "held and active": _held_bar,
        number_column("nodes"): itemgetter("nodes"),
        number_column("GPUs"): itemgetter("gpus"),
        number_column("held"): itemgetter("held_mean"),
        number_column("most held"): itemgetter("held_peak"),
        number_column("active"): itemgetter("active_mean"),
        number_column("free"): itemgetter("free_now"),
        number_column("waited for"): itemgetter("waiting_gpus"),
    }
    pools_table = table_of(pools, columns, search="a pool or a board", **_cut("pools"))
    note = "Means over the span in whole GPUs, a MIG instance by its part; dark is active."
    return section("Pools", pools_table, Key((), note=note))


def _held_bar(pool: _JsonMapping) -> Bar:
    gpus = pool["gpus"] or 1.0
    active = (pool["active_mean"] or 0.0) / gpus
    held = max(0.0, (pool["held_mean"] or 0.0) / gpus - active)
    parts = BarPart("active", "g-working", active), BarPart("held and idle", "g-held", held)
    return Bar(pool["name"], parts)


def _used(title: str, name: str, rows: Sequence[_JsonMapping], **options: Any) -> Section:
    is_several = len({row["cluster"] for row in rows}) > 1
    columns: dict[Heading, Callable[[_JsonMapping], Cell]] = {
        Column(name, widest=_WIDEST_NAME): partial(_used_by, is_several=is_several),
        number_column("workloads"): itemgetter("workloads"),
        number_column("GPU-hours"): itemgetter("held_gpu_hours"),
        number_column("used"): itemgetter("used_gpu_hours"),
        number_column("wasted"): itemgetter("wasted_gpu_hours"),
        number_column("headroom"): itemgetter("headroom_gpu_hours"),
        number_column("kWh"): itemgetter("kilowatt_hours"),
        ("cost", CellKind.MONEY): lambda row: (row["dollars"] or {}).get("value"),
        ("of it wasted", CellKind.MONEY): lambda row: (row["wasted_dollars"] or {}).get("value"),
    }
    ordered = _largest_first(rows)
    return section(title, table_of(ordered, columns, **_cut(f"{name}s"), **options))


def _by_waste(rows: Sequence[_JsonMapping]) -> list[_JsonMapping]:
    """Return rows of a bill by what they waste, most first; what nobody holds comes last."""

    def rank(row: _JsonMapping) -> tuple[bool, float, float]:
        is_nobody = not row["workloads"]
        return is_nobody, -(row["wasted_dollars"] or {}).get("value", 0.0), -row["wasted_gpu_hours"]

    return sorted(rows, key=rank)


def _largest_first(rows: Sequence[_JsonMapping]) -> Sequence[_JsonMapping]:
    """Return the rows with the one that holds most among the first."""
    largest = max(rows, key=lambda row: row["held_gpu_hours"], default=None)
    if largest is None or largest in rows[:_MOST_ROWS]:
        return rows
    place = _MOST_ROWS - 1
    return [*rows[:place], largest, *(row for row in rows[place:] if row is not largest)]


def _used_by(row: _JsonMapping, *, is_several: bool) -> str:
    """Return the name of a row, prefixed by its cluster if there are several."""
    name = str(row.get("team") or row.get("name") or "(unknown)")
    return f"{row['cluster']}/{name}" if is_several and row["cluster"] else name


def _silent(verdicts: Mapping[str, _JsonMapping]) -> Section:
    """Return rules that only abstained: a missing answer must not look like a good one."""
    rules: dict[str, list[str]] = {}
    for rule, counts in verdicts.items():
        if counts["abstained"] and not counts["complaints"] and not counts["well"]:
            commonest = max(counts["abstained"], key=lambda reason: counts["abstained"][reason])
            is_lacking = commonest == Reason.UNSUPPORTED_TELEMETRY and counts["missing"]
            why = next(iter(counts["missing"])) if is_lacking else reason_label(commonest)
            rules.setdefault(why, []).append(rule)
    lines = (f"{reason}: {', '.join(silent)}" for reason, silent in sorted(rules.items()))
    return section("Rules that abstained everywhere:", Items(tuple(lines)))


def plan_blocks(answer: _JsonMapping) -> Iterator[Block]:
    """Yield the blocks of the output of `rightsizer fleet --dry-run --json`."""
    yield _sources(answer["sources"], answer["time"])
    yield f"{_days_read(answer, 'would be')} are kept already."
    shards = counted(answer["shards"], "shard")
    queries = counted(answer["queries"], "query", "queries")
    yield (
        f"With the probe's that is about {queries}, in {shards}, which bring about "
        f"{answer['samples']:,} samples. Nothing was asked but the probe."
    )


def reading_blocks(answer: _JsonMapping) -> Iterator[Block]:
    """Yield what a shard of the nodes has read."""
    yield _sources(answer["sources"], answer["time"])
    yield f"{_days_read(answer, 'were')} were kept before. All are in {answer['days']}."
    yield from answer["notes"]
    yield "For one answer, give the files of all shards to `rightsizer fleet merge`."


def _days_read(answer: _JsonMapping, verb: str) -> str:
    fine = counted(answer["fine_days"], "day")
    coarse = counted(answer["coarse_days"], "day")
    kept = answer["kept_device_days"]
    wanted = answer["device_days"]
    steps = f"{fine} {verb} read by five minutes and {coarse} by the hour"
    return f"{steps}; of {wanted:,} days of devices {kept:,}"
