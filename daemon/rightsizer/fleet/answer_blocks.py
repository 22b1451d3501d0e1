"""Blocks of a fleet answer: what to do, teams, waiting work, pools, what it rests on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from rightsizer.console.advice import advice_block
from rightsizer.fleet.advice_groups import AdviceGroup, opened
from rightsizer.fleet.pools.placement import gpus_text
from rightsizer.fleet.served_blocks import served_blocks
from rightsizer.fleet.summary import summary_of
from rightsizer.io.terminal import counted
from rightsizer.model.finding import Reason
from rightsizer.model.units import MIB, elapsed_text, format_duration, percent_text, utc_text
from rightsizer.report.blocks import (
    Block,
    Cell,
    CellKind,
    Code,
    Heading,
    Items,
    Section,
    Table,
    section,
    table,
)
from rightsizer.report.labels import first_names, readable_name

_MARKS: Final = {"+": "can", "-": "cannot", "!": "warnings"}


def _sources(sources: Sequence[Mapping[str, Any]], now_seconds: float, *notes: str) -> Section:
    blocks = list[Block]()
    said: set[tuple[str, str]] = set()
    clusters = {each["cluster"] for each in sources}
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
    found = {each["source"] for each in sources if each["is_found"]}
    if absent := dict.fromkeys(e["source"] for e in sources if e["source"] not in found):
        blocks.append(f"not in the store: {', '.join(absent)}")
    return section("Sources:", *blocks, Items(tuple(f"! {note}" for note in notes)))


def _facts(source: Mapping[str, Any], now_seconds: float) -> Iterator[str]:
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


def _clusters(clusters: Sequence[Mapping[str, Any]]) -> Table:
    names = ("pools", "nodes", "GPUs", "workloads", "held", "active", "free", "waiting")
    rows = (
        (
            _short(cluster["name"] or "(no cluster)"),
            cluster["pools"],
            cluster["nodes"],
            cluster["gpus"],
            cluster["workloads"],
            cluster["held_mean"],
            cluster["active_mean"],
            cluster["free_now"],
            cluster["waiting_gpus"],
        )
        for cluster in clusters
    )
    return _table(("cluster", *_numbers(names)), rows if len(clusters) > 1 else ())


def _numbers(names: Iterable[str]) -> tuple[Heading, ...]:
    return tuple((name, CellKind.NUMBER) for name in names)


_MOST_WAITING_ROWS: Final = 10
_MOST_NAMED: Final = 4


def _waiting(waiting: Sequence[Mapping[str, Any]]) -> Section:
    blocks = [_served(each) for each in waiting[:_MOST_WAITING_ROWS]]
    more = len(waiting) - _MOST_WAITING_ROWS
    rest = f"and {counted(more, 'piece')} more; --json has all" if more > 0 else ""
    return section("Waiting work, the longest waiting first:", *blocks, rest)


def _served(work: Mapping[str, Any]) -> Block:
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


def _step(step: Mapping[str, Any]) -> str:
    who = first_names(step["workloads"], _MOST_NAMED)
    action = readable_name(step["action"])
    advice = f" ({step['advice']})" if step["advice"] else ""
    to = f" to {step['target']}" if step["target"] else ""
    return f"{action} {who}{to}{advice}, which frees {gpus_text(sum(step['frees'].values()))}"


_MOST_GROUPS: Final = 10
_ADVICE_COLUMNS: Final[tuple[Heading, ...]] = (
    ("a day", CellKind.MONEY),
    ("GPUs", CellKind.NUMBER),
    ("sure", CellKind.NUMBER),
    "what",
    "where",
    "id",
)
_MOST_IDS: Final = 3


def _advice(groups: Sequence[AdviceGroup], top: int) -> Iterator[Block]:
    """Yield a table of what to do, most savings first, and then each row in sentences."""
    rows = (
        (
            group.dollars_per_day or None,
            group.gpus or None,
            percent_text(group.confidence),
            group.heading,
            _short(group.subject, _WIDEST_SUBJECT),
            group.pieces[0]["id"] if len(group.pieces) == 1 else "below",
        )
        for group in groups[:top]
    )
    more = sum(len(group.pieces) for group in groups[top:])
    note = f"and {more} more; --top shows more, --json has all" if more else ""
    yield table(_ADVICE_COLUMNS, rows, note)
    yield section("What to do:", *map(_group, groups[:top]))


def _group(group: AdviceGroup) -> Section:
    if len(group.pieces) == 1:
        (piece,) = group.pieces
        return advice_block(piece, _action(piece["action"]), piece["key"] or "")
    keys = [str(piece["key"] or piece["workload"]) for piece in group.pieces]
    ids = first_names([piece["id"] for piece in group.pieces], _MOST_IDS)
    commands = group.commands
    how: Block = f"{len(commands)} commands; --commands FILE writes them" if commands else ""
    if len(commands) == 1:
        how = Code(commands[0])
    return section(group.title, f"{first_names(keys, _MOST_NAMED)} ({ids})", how)


def _node_advice(
    pieces: Sequence[Mapping[str, Any]], advice: Sequence[Mapping[str, Any]]
) -> Section:
    """Return the advice of the nodes' own agents, a line per reason; the fleet's may overlap."""
    known = {each["id"] for each in opened(advice)}
    same = sum(piece["id"] in known for piece in pieces)
    same_text = f", {same} of them listed above too" if same else ""
    title = f"The nodes' own agents have {counted(len(pieces), 'open recommendation')}{same_text}:"
    ordered = sorted(pieces, key=lambda piece: (piece["reason"], piece["action"], piece["id"]))
    lines = []
    for (reason, action), group in groupby(ordered, key=lambda e: (e["reason"], e["action"])):
        named = first_names(list(dict.fromkeys(each["id"] for each in group)), _MOST_IDS)
        lines.append(f"{reason}, {_action(action)}: {named}")
    return section(title, Items(tuple(lines)))


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


def fleet_blocks(answer: Mapping[str, Any], top: int = _MOST_GROUPS) -> Iterator[Block]:
    """Yield the blocks of the output of `rightsizer fleet --json`.

    What it costs and what to do come first, what it rests on last.
    """
    summary = summary_of(answer)
    gpus = f"{round(answer['gpus'], 2):g} GPU{'' if answer['gpus'] == 1 else 's'}"
    pools = counted(len(answer["pools"]), "pool")
    workloads = counted(answer["workloads"], "workload")
    known = percent_text(answer["coverage_ratio"])
    warnings = len(answer["notes"]) + sum(len(each["warnings"]) for each in answer["sources"])
    look = f" {counted(warnings, 'warning')} at the end." if warnings else ""
    yield (
        f"{gpus} in {pools}, {workloads}, over {format_duration(answer['lookback_seconds'])} to "
        f"{utc_text(answer['time'])}; {known} of the time is known.{look}"
    )
    yield summary.headline
    yield f"{summary.reclaim_text}."
    yield from _advice(summary.groups, top)
    yield served_blocks(answer["served_models"], top)
    usage = answer["usage"]
    # If one scheduler has all of it, the table of teams contains the same.
    kinds = [*usage["kinds"], {**usage["total"], "name": "all"}] if len(usage["kinds"]) > 1 else []
    yield _used("team", by_waste(answer["teams"]))
    yield _used("kind", kinds)
    yield _waiting(answer["waiting_work"])
    yield _clusters(answer["clusters"])
    yield _pools(answer["pools"])
    yield _node_advice(answer["node_advice"], answer["advice"])
    yield _silent(answer["verdicts"])
    yield _sources(answer["sources"], answer["time"], *answer["notes"])
    use = answer["use"]
    yield (
        f"The store was asked {counted(int(use['queries']), 'query', 'queries')}, which brought "
        f"{use['samples']:,.0f} samples in {use['received_bytes'] / MIB:.1f} MiB and took it "
        f"{use['store_seconds']:.1f} s."
    )
    yield _NEXT if summary.advice else _NOTHING_FOUND


def _pools(pools: Sequence[Mapping[str, Any]]) -> Table:
    names = ("nodes", "GPUs", "held", "most held", "active", "free", "waited for")
    rows = (
        (
            _short(pool["name"]),
            pool["board"] or "mixed",
            pool["nodes"],
            pool["gpus"],
            pool["held_mean"],
            pool["held_peak"],
            pool["active_mean"],
            pool["free_now"],
            pool["waiting_gpus"],
        )
        for pool in pools
    )
    return _table(("pool", "board", *_numbers(names)), rows)


def _used(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    is_several = len({row["cluster"] for row in rows}) > 1
    lines = (
        (
            _short(used_by(row, is_several=is_several)),
            row["workloads"],
            row["held_gpu_hours"],
            row["used_gpu_hours"],
            row["wasted_gpu_hours"],
            row["kilowatt_hours"],
            (row["dollars"] or {}).get("value"),
            (row["wasted_dollars"] or {}).get("value"),
        )
        for row in _shown(rows)
    )
    names = _numbers(("workloads", "GPU-hours", "used", "wasted", "kWh"))
    money = (("cost", CellKind.MONEY), ("of it wasted", CellKind.MONEY))
    return _table((name, *names, *money), lines, len(rows))


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
    columns: Sequence[Heading], rows: Iterable[Sequence[Cell]], count: int | None = None
) -> Table:
    """Return the first rows; `count` is the number of all, if only some are given."""
    cells = [*rows]
    more = (len(cells) if count is None else count) - _MOST_ROWS
    note = f"and {counted(more, str(columns[0]))} more; --json has all" if more > 0 else ""
    return table(columns, cells[:_MOST_ROWS], note)


def _silent(verdicts: Mapping[str, Mapping[str, Any]]) -> Section:
    """Return rules that only abstained: a missing answer must not look like a good one."""
    rules: dict[str, list[str]] = {}
    for rule, counts in verdicts.items():
        if counts["abstained"] and not counts["complaints"] and not counts["well"]:
            most = max(counts["abstained"], key=lambda reason: counts["abstained"][reason])
            is_lacking = most == Reason.UNSUPPORTED_TELEMETRY and counts["missing"]
            why = next(iter(counts["missing"])) if is_lacking else str(most)
            rules.setdefault(why, []).append(rule)
    lines = (f"{reason}: {', '.join(silent)}" for reason, silent in sorted(rules.items()))
    return section("Rules that abstained everywhere:", Items(tuple(lines)))


def _short(name: str, widest: int = _WIDEST_NAME) -> str:
    return name if len(name) <= widest else f"{name[: widest - 1]}…"


def plan_blocks(answer: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the blocks of the output of `rightsizer fleet --dry-run --json`."""
    yield _sources(answer["sources"], answer["time"])
    yield f"{_days_read(answer, 'would be')} are kept already."
    shards = counted(answer["shards"], "shard")
    queries = counted(answer["queries"], "query", "queries")
    yield (
        f"That is about {queries} in {shards}, which bring about {answer['samples']:,} samples. "
        "Nothing was asked but the probe."
    )


def reading_blocks(answer: Mapping[str, Any]) -> Iterator[Block]:
    """Yield what a shard of the nodes has read."""
    yield _sources(answer["sources"], answer["time"])
    yield f"{_days_read(answer, 'were')} were kept before. All are in {answer['days']}."
    yield from answer["notes"]
    yield "For one answer, give the files of all shards to `rightsizer fleet merge`."


def _days_read(answer: Mapping[str, Any], verb: str) -> str:
    fine = counted(answer["fine_days"], "day")
    coarse = counted(answer["coarse_days"], "day")
    kept = answer["kept_device_days"]
    wanted = answer["device_days"]
    steps = f"{fine} {verb} read by five minutes and {coarse} by the hour"
    return f"{steps}; of {wanted:,} days of devices {kept:,}"
