"""Page of a fleet: what it costs, what to do, waste by team, pools."""

import base64
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from operator import sub
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.console.advice import standing, worth
from rightsizer.fleet.advice_groups import AdviceGroup
from rightsizer.fleet.answer_blocks import advice_table, known_text, rest_blocks
from rightsizer.fleet.summary import HOUR_PARTS, FleetSummary, summary_of
from rightsizer.fleet.usage import FREE, UNKNOWN
from rightsizer.io.codec import encode
from rightsizer.io.terminal import counted
from rightsizer.model.values import DAY_SECONDS, dollars_text, number_text, percent_text
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    Chart,
    Key,
    Sentence,
    Tile,
    Tiles,
    Tone,
    section,
)
from rightsizer.report.figures import dollars
from rightsizer.report.labels import HOURS_A_DAY, headroom_text, uncapitalized
from rightsizer.report.rows import GPU_COLUMNS
from rightsizer.report.template import page_of, rendered, scripts
from rightsizer.sizing.estimate import EstimateInterval

_MOST_GROUPS: Final = 200
_LONGEST_STEP: Final = 1500
"""Characters of a displayed step; JSON has longer ones in full."""
_JsonMapping = Mapping[str, Any]


def fleet_document(
    answer: _JsonMapping, *, has_plan_form: bool = False, top: int | None = None
) -> str:
    """Render the page from the JSON of `rightsizer fleet`; a service may have more pages."""
    gpus = f"{number_text(answer['gpus'])} GPU{'' if answer['gpus'] == 1 else 's'}"
    summary = summary_of(answer)
    title = f"{gpus} in {counted(len(answer['pools']), 'pool')}{summary.wasted_text}"
    group_maximum = _MOST_GROUPS if top is None else min(top, _MOST_GROUPS)
    blocks = _blocks(answer, summary, group_maximum, has_plan_form=has_plan_form)
    return page_of(title, blocks, **scripts(*_SCRIPTS))


def _blocks(
    answer: _JsonMapping, summary: FleetSummary, group_maximum: int, *, has_plan_form: bool
) -> Iterator[Block]:
    """Yield what it costs, what to do and its GPUs, both of which a script filters; the rest."""
    yield Sentence(known_text(answer), Tone.FAINT)
    if has_plan_form:
        yield Chart(lambda: '<p><a href="plan">Plan GPUs for a workload</a></p>')
    yield Tiles(tuple(_tiles(answer, summary)))
    parts = [(_COLORS[part.key], part) for part in summary.parts]
    yield Bar("GPU-hours", tuple(BarPart(part.name, color, part.ratio) for color, part in parts))
    names = ((color, f"{percent_text(part.ratio)} {part.name}") for color, part in parts)
    yield Key(tuple(names))
    shown = summary.groups[:group_maximum]
    rows = [*starmap(_with_details, enumerate(shown)), *summary.groups[group_maximum:]]
    todo = advice_table(rows, group_maximum, _REST)
    note = _prices(answer["usage"]["total"]) if rows else _NOTHING
    yield section("What to do", todo, Sentence(note, Tone.FAINT))
    models, teams, *rest = rest_blocks(answer)
    yield models
    yield teams
    if answer["holdings"]:
        packed = _packed(answer, shown)
        yield Chart(partial(_fragment, "fleet_gpus.html", holdings=packed))
    yield from rest


_REST: Final = " rows, which are less urgent or save less; rightsizer fleet --json has all"
_MOST_DETAILS: Final = 60
"""Rows that open to commands, which are long."""
_MOST_PIECES: Final = 8
"""Recommendations of a row that it opens to."""
_NOTHING: Final = "Nothing to do: no rule found anything that holds over both of its spans."


def _with_details(place: int, group: AdviceGroup) -> AdviceGroup:
    """Return a row that opens to its details, and the first ones to commands and links, too."""
    details = group.sentences
    draw = partial(
        _fragment,
        "fleet_advice.html",
        pieces=group.pieces[:_MOST_PIECES],
        more=len(group.pieces) - _MOST_PIECES,
        standing=standing,
        worth=worth,
    )
    has_steps = any(piece["workload"] or piece["instructions"] for piece in group.pieces)
    steps = (Chart(draw),) if has_steps and place < _MOST_DETAILS else ()
    return replace(group, details=section(details.title, *details.blocks, *steps))


def _tiles(answer: _JsonMapping, summary: FleetSummary) -> Iterator[Tile]:
    spent = summary.spent
    ends = "" if spent is None else f"{dollars(spent.low, spent.high)} by price"
    yield Tile("Costs a day", _money(spent), ends or "not every price is known")
    wasted = number_text(answer["usage"]["total"]["wasted_gpu_hours"])
    hours = f"{wasted} of {number_text(summary.hours)} GPU-hours"
    left = headroom_text(dollars_text(summary.left_over)) if summary.left_over else ""
    yield Tile("Wasted a day", _money(summary.wasted), f"{hours}{left}")
    gained = summary.reclaimable
    worth = "no price is known; " if gained is None else f"{dollars(gained.low, gained.high)}, "
    count = counted(len(summary.advice), "recommendation")
    others = len(answer["node_advice"])
    node_text = f"; {others:,} at the nodes' own agents" if others else ""
    first = worth if summary.advice else "nothing to do: "
    gpus = f"{number_text(summary.gpus or 0)} GPUs at least, by {count}"
    yield Tile("To regain a day", _money(gained), f"{first}{gpus}{node_text}")
    if summary.saved_gpu_hours:
        saved = "-" if summary.saved_dollars is None else dollars_text(summary.saved_dollars)
        verified = "GPU-hours, verified in the trials of what was done"
        yield Tile("Saved so far", saved, f"{number_text(summary.saved_gpu_hours)} {verified}")
    waiting = "GPUs asked for and not given"
    yield Tile("Waiting", number_text(summary.waiting_gpus), waiting)


def _money(interval: EstimateInterval | None) -> str:
    return "-" if interval is None else dollars_text(interval.value)


def _fragment(name: str, **values: Any) -> str:
    """Render a part of the page that a script works on."""
    return rendered(name, {"cut": _cut}, **values)


def page_policy() -> str:
    """Return the content security policy of the page, which allows its own script alone."""
    script = scripts(*_SCRIPTS)["script_hash"]
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


_SCRIPTS: Final = ("tables.js", "gpus.js")
_WORDS: Final = ("cluster", "team", "pool", "node", "name", "workload")
_COLORS: Final = {
    "used": "g-working",
    "headroom": "fleet-all",
    "idle": "g-held",
    "stalled": "g-stalled",
    "lost": "g-waiting",
    "unknown": "g-no_data",
    "free": "g-free",
}
"""Classes of the parts of hours."""
_PERCENT: Final = 100.0
_MONTH: Final = re.compile(r"\d{4}-\d\d")


_LOSSES: Final = tuple(f"{part}_gpu_hours" for part in ("idle", "stalled", "lost", "free"))
_LEAST_HOURS: Final = 0.01
"""Fewer are what is left by rounding."""
_FORMER: Final = "(former holders)"
"""In place of a workload and its node."""


def _dollars(row: _JsonMapping) -> tuple[float, float]:
    """Return what the known hours of a row cost, and what the wasted ones of them did."""
    if "dollars" in row:
        return tuple((row[key] or {}).get("value", 0.0) for key in ("dollars", "wasted_dollars"))
    hourly = (row["dollars_per_day"] or 0.0) / HOURS_A_DAY / (row["gpus"] or 1.0)
    return hourly * row["held_gpu_hours"], hourly * sum(row[loss] for loss in _LOSSES)


def _former(answer: _JsonMapping) -> Iterator[_JsonMapping]:
    """Yield rows of what the bill has beyond the hours of present holders, by team and pool."""
    parts = [f"{part}_gpu_hours" for part in _COLORS]
    rests = defaultdict[tuple[str, ...], Counter[str]](Counter)
    for sign, rows in ((1.0, answer["usage"]["parts"]), (-1.0, answer["holdings"])):
        for row in rows:
            is_held = row["kind"] not in {FREE, UNKNOWN} if sign > 0 else row["workload"]
            workload = _FORMER if is_held else ""
            rest = rests[row["cluster"], row["team"], row["pool"], workload]
            spent, wasted = _dollars(row)
            for key, amount in (
                *((part, row[part]) for part in parts),
                ("dollars", spent),
                ("wasted_dollars", wasted),
            ):
                rest[key] += sign * amount
    for (cluster, team, pool, workload), rest in sorted(rests.items()):
        if sum(rest[part] for part in parts) >= _LEAST_HOURS:
            names = {"cluster": cluster, "team": team, "pool": pool, "workload": workload}
            hours = {part: max(0.0, rest[part]) for part in parts}
            dollars = {key: {"value": rest[key]} for key in ("dollars", "wasted_dollars")}
            yield {
                **names,
                "node": _FORMER,
                "name": "",
                "uuid": "",
                "gpus": 0.0,
                **hours,
                **dollars,
            }


def _packed(answer: _JsonMapping, shown: Sequence[AdviceGroup]) -> str:
    """Return who holds which GPU for the page's script: columns in JSON, deflated, in base64.

    A name is there once; shares of the hours are whole percents, what they lack is headroom.
    """
    days = answer["lookback_seconds"] / DAY_SECONDS
    rows = [*answer["holdings"], *_former(answer)]
    rows.sort(key=lambda row: (row["node"], row["name"], row["workload"]))
    groups = [(group.pieces[0]["id"], f"{group.to_do}, {group.title}") for group in shown]
    by_uuid = {
        uuid: place
        for place, group in reversed([*enumerate(shown)])
        for piece in group.pieces
        for uuid in piece["devices"]
    }
    words = {}
    for column in _WORDS:
        names = dict.fromkeys(row[column] for row in rows)
        places = {name: place for place, name in enumerate(names)}
        at = [places[row[column]] for row in rows]
        # New names are next to the one before, so that steps are small and alike.
        words[column] = {"names": [*names], "steps": [*map(sub, at, [0, *at])]}
    whole = [sum(row[f"{part}_gpu_hours"] for part in _COLORS) or 1.0 for row in rows]
    parts = {
        part: [
            round(_PERCENT * row[f"{part}_gpu_hours"] / hours)
            for row, hours in zip(rows, whole, strict=True)
        ]
        for part in _COLORS
        if part != "headroom"
    }
    columns = {
        "words": words,
        "gpus": [round(row["gpus"], 3) for row in rows],
        "hours": [round(hours, 2) for hours in whole],
        **{
            money: [round(_PERCENT * _dollars(row)[place] / days) for row in rows]
            for place, money in enumerate(("cents", "wasted"))
        },
        "parts": parts,
        "names": HOUR_PARTS,
        "headings": {column.name: uncapitalized(column.name) for column in GPU_COLUMNS},
        "colors": _COLORS,
        "groups": groups,
        # The place of a group that the page has, else -1.
        "advice": [by_uuid.get(row["uuid"], -1) for row in rows],
    }
    return base64.b64encode(zlib.compress(encode(columns), 9)).decode()


def _prices(total: _JsonMapping) -> str:
    """Return whose prices those of an answer are, and of when."""
    if not total["price_basis"]:
        return "No price is known. Each row opens to why and how."
    months = sorted(_MONTH.findall(total["price_date"]))
    when = f" of {' to '.join(dict.fromkeys((months[0], months[-1])))}" if months else ""
    return (
        f"At {total['price_basis'].replace('; ', ' and ')}{when}. Rows that exclude each other "
        "count in each sum. Each opens to why and how; rightsizer fleet --explain ID has evidence."
    )


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_STEP:
        return text
    whole = text[:_LONGEST_STEP].rpartition("\n")[0] or text[:_LONGEST_STEP]
    return f"{whole}\n# and so on: rightsizer fleet --json has all of it"
