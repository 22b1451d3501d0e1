"""The fleet's page: deterministic, complete, bounded, and safe to open."""

import base64
import json
import re
import zlib
from collections.abc import Callable, Mapping
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from msgspec.structs import replace

from cases import finding
from estate_views import L4, MARKET
from fleet_answers import END, fleet_answer
from rightsizer.fleet.answer_blocks import fleet_blocks, rest_blocks
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.page import fleet_document, page_policy
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.usage import FREE, UseKey, UseSum, add_uses, usage_of
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Instruction, Savings
from rightsizer.report.block_text import text_of
from rightsizer.report.blocks import Section, Table
from rightsizer.report.template import script_hash

GoldenFile = Callable[[str | Path, str], None]
HOSTILE: Final = "<script>alert('x')</script>"
LARGEST_BYTES: Final = 400_000
PARTS: Final = ("used", "headroom", "idle", "stalled", "lost", "unknown", "free")


class Tags(HTMLParser):
    """Opened tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag."""
        self.seen.append((tag, dict(attrs)))


def document_of(**facts: Any) -> Mapping[str, Any]:
    """The page of the answer after a JSON round trip, so that it depends on nothing else."""
    found: Mapping[str, Any] = json.loads(json.dumps(encode_answer(fleet_answer(**facts))))
    return found


def tile(page: str, name: str) -> str:
    """Value of a tile at the top."""
    found = re.search(rf'<dt>{name}</dt><dd class="value">([^<]*)<', page)
    assert found is not None
    return found[1]


def advised(**facts: Any) -> tuple[Advice, ...]:
    """One open recommendation."""
    return (Advice(finding(**facts), AdviceState.ACTIVE, END, END),)


def test_the_page_is_as_it_was(golden: GoldenFile) -> None:
    """Every part equals the golden file."""
    golden("fleet.html", fleet_document(document_of()))


def test_fleet_document_loads_nothing_and_runs_its_own_script_alone() -> None:
    """Its policy, and that of the service, allow the script by its hash."""
    page = fleet_document(document_of())
    seen = Tags(page).seen
    assert not {tag for tag, _ in seen} & {"link", "img", "iframe", "object"}
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    assert script_hash(script) in page_policy()
    assert page_policy().partition("; base-uri")[0] in unescape(page)
    assert not [each for _, each in seen if {"src", "onload", "onclick"} & each.keys()]
    assert {each["href"] for _, each in seen if "href" in each} == {
        "#workload/kubernetes%3Aweb/chat",
    }
    assert "default-src 'none'" in page
    assert "url(" not in page
    assert "@import" not in page


def test_title_says_what_is_wasted() -> None:
    """Where each price is known."""
    priced = tuple(row for row in fleet_answer().usage if row.dollars is not None)
    title = r"<h1>28 GPUs in 2 pools: \$[\d,.]+ of \$[\d,.]+ a day wasted</h1>"
    assert re.search(title, fleet_document(document_of(usage=priced)))
    assert "<h1>28 GPUs in 2 pools</h1>" in fleet_document(document_of())


def test_page_says_how_many_rows_it_leaves_out() -> None:
    """By its own limit or by that asked for; the words for a terminal are not on it."""
    page = fleet_document(document_of(), top=1)
    assert "and 2 more rows, which are less urgent or save less" in page
    assert "--top" not in page
    pieces = tuple(
        advice
        for at in range(250)
        for advice in advised(id=f"id{at}", workload="", devices=(f"GPU-{at}",))
    )
    assert "and 50 more rows" in fleet_document(document_of(advice=pieces))


def test_each_recommendation_of_a_row_has_its_worth_state_and_id() -> None:
    """A search finds the row by any of them."""
    advice = tuple(
        replace(piece, state=AdviceState.CLAIMED, actor="bob")
        for at in range(6)
        for piece in advised(id=f"id{at}", workload=f"kubernetes:web/w{at}", devices=(f"{at}",))
    )
    page = fleet_document(document_of(advice=advice))
    (row,) = re.findall(r'<tr id="id0">.*?</tr>', page, re.DOTALL)
    assert "6 ids" in row
    for at in range(6):
        assert f"claimed by bob · id{at}<" in row
    assert row.count("risk of the change") == row.count("; confidence ") == 6


def test_hours_of_a_team_are_used_wasted_or_left_over() -> None:
    """Each row sums up to what is held."""
    (first, *_) = fleet_answer().usage
    hours = {"held": 672.0, "used": 336.0, "wasted": 168.0, "headroom": 168.0}
    use = replace(first, **{f"{name}_gpu_hours": value for name, value in hours.items()})
    document = document_of(usage=(use,))
    (teams,) = (
        block
        for block in rest_blocks(document)
        if isinstance(block, Section) and block.title.startswith("Teams")
    )
    (table,) = (block for block in teams.blocks if isinstance(block, Table))
    names = [column.name for column in table.columns]
    for row in table.rows:
        cells = dict(zip(names, row, strict=True))
        parts = sum(float(str(cells[name])) for name in ("used", "wasted", "headroom"))
        assert parts == pytest.approx(float(str(cells["GPU-hours"])))


def test_names_that_others_gave_do_no_harm() -> None:
    """Names of pools, teams and workloads, and summaries, are untrusted."""
    view = fleet_answer().view
    hostile = replace(view, pools=tuple(replace(pool, name=HOSTILE) for pool in view.pools))
    page = fleet_document(
        document_of(
            view=hostile,
            notes=(HOSTILE,),
            advice=advised(
                summary=HOSTILE, workload=HOSTILE, instructions=(Instruction(HOSTILE, HOSTILE),)
            ),
        )
    )
    assert HOSTILE not in page
    assert page.count("&lt;script&gt;alert") >= 6


def test_closed_advice_is_not_shown_and_claimed_advice_names_who() -> None:
    """The page lists open actions."""
    page = fleet_document(document_of())
    assert "by 3 recommendations" in page
    assert 'id="a2b3c4d5e6f7"' not in page
    assert "claimed by ana" in page


def test_savings_on_the_same_gpus_count_once() -> None:
    """Covers an empty pool with each of its GPUs, and groups that exclude each other."""
    pieces = [
        finding(id="a", devices=("GPU-0", "GPU-1"), savings=Savings(2.0, 2.0, 4.0, 8.0)),
        finding(id="b", devices=("GPU-0",), savings=Savings(1.0, 1.0, 2.0, 4.0)),
        finding(
            id="c", devices=("GPU-2",), exclusive_group="g", savings=Savings(1.0, 1.0, 1.0, 1.0)
        ),
        finding(
            id="d", devices=("GPU-3",), exclusive_group="g", savings=Savings(0.5, 0.5, 0.5, 0.5)
        ),
        finding(id="e", devices=("GPU-4",), savings=Savings(reason="nobody knows")),
    ]
    advice = tuple(Advice(piece, AdviceState.ACTIVE, END, END) for piece in pieces)
    document = document_of(advice=advice)
    page = fleet_document(document)
    assert "3 GPUs at least" in page
    assert tile(page, "To regain a day") == "$168"
    text = " ".join(text_of(fleet_blocks(document)).split())
    assert "open recommendations, 3 GPUs, $168 ($120 to $216) a day together." in text


def test_nothing_known_is_not_shown_as_nothing() -> None:
    """A fleet without recommendations, prices and pools says so; an unknown value is a dash."""
    page = fleet_document(
        document_of(
            view=FleetView(0, END, (), ()),
            advice=(),
            node_advice=(),
            usage=(),
            waiting=(),
            served=(),
            judgements=(),
        )
    )
    assert "Nothing to do" in page
    assert "nothing to do: 0 GPUs at least, by 0 recommendations" in page
    assert tile(page, "To regain a day") == "-"
    assert "<h2>Teams" not in page


def test_the_gpus_of_the_page_sum_to_its_bill() -> None:
    """What former holders cost has a row for each team and pool."""
    priced = [row for row in document_of()["holdings"] if row["dollars_per_day"]]
    uses = {
        UseKey("", "old", "serve", "kubernetes", L4): UseSum(
            held=1000.0, used=400.0, idle=600.0, wasted=600.0
        )
    }
    for row in priced:
        kind = "kubernetes" if row["workload"] else FREE
        idle, free = row["idle_gpu_hours"], row["free_gpu_hours"]
        use = UseSum(
            held=row["held_gpu_hours"],
            used=row["used_gpu_hours"],
            idle=idle,
            free=free,
            wasted=idle + free,
        )
        add_uses(uses, {UseKey("", row["team"], row["pool"], kind, row["board"]): use})
    document = {**document_of(usage=usage_of(uses, MARKET)), "holdings": priced}
    (packed,) = re.findall(r'id="holdings">([^<]+)<', fleet_document(document))
    columns = json.loads(zlib.decompress(base64.b64decode(packed)))
    total = document["usage"]["total"]
    for key, dollars in (("cents", "dollars"), ("wasted", "wasted_dollars")):
        assert sum(columns[key]) == pytest.approx(total[dollars]["value"] * 100 / 14, abs=30)
    former = columns["words"]["workload"]["names"].index("(former holders)")
    places = [*accumulate(columns["words"]["workload"]["steps"])]
    assert columns["gpus"][places.index(former)] == 0.0
    assert columns["hours"][places.index(former)] == pytest.approx(1000.0)


def test_warnings_are_counted_as_shown() -> None:
    """Those of sources that are not in the store are not there to be read."""
    absent = SourceReport("slurm", warnings=("No series.",))
    text = text_of(fleet_blocks(document_of(sources=(absent,), notes=("One.",))))
    assert "1 warning at the end" in " ".join(text.split())


def test_a_hundred_thousand_gpus_are_a_page_of_two_megabytes() -> None:
    """Every GPU is in it, whoever has it and whatever became of its hours."""
    random = Random(1)
    document = document_of()
    (first, *_) = document["holdings"]
    rows = []
    for at in range(100_000):
        node = at // 8
        parts = [random.random() for _ in PARTS]
        hours = {
            f"{part}_gpu_hours": 336.0 * share / sum(parts)
            for part, share in zip(PARTS, parts, strict=True)
        }
        name = f"{random.choice(('chat', 'rank', 'train'))}-{random.randrange(10**6):06d}"
        place = {
            "node": f"gpu-{node:05d}.example.net",
            "pool": f"pool-{node % 60}",
            "cluster": f"cluster-{node % 7}",
            "team": f"team-{node % 200}",
            "name": f"GPU {at % 8}",
            "workload": f"kubernetes:team-{node % 200}/{name}",
        }
        rows.append(first | place | hours | {"uuid": f"GPU-{at}"})
    usage = document["usage"] | {"parts": []}
    page = fleet_document(document | {"holdings": rows, "usage": usage})
    assert len(page.encode()) < 2_000_000
    (packed,) = re.findall(r'id="holdings">([^<]+)<', page)
    columns = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert len(columns["gpus"]) == 100_000
    assert len(columns["words"]["node"]["names"]) == 12_500


def test_the_largest_estate_is_a_page_that_a_browser_shows() -> None:
    """Of ten thousand GPUs, lists have the largest entries and the number of omitted ones."""
    answer = fleet_answer()
    one = answer.view.pools[0]
    pools = tuple(
        replace(one, name=f"pool-{at:04d}", devices=one.devices[: 1 + at % 24])
        for at in range(2000)
    )
    pieces = tuple(
        advice
        for at in range(5000)
        for advice in advised(
            id=f"id{at:010d}",
            devices=tuple(f"GPU-{at}-{of}" for of in range(64)),
            workload=f"kubernetes:team/workload-{at}",
            savings=Savings(float(at), float(at), float(at), 2.0 * at),
            instructions=(Instruction("Empty them", "kubectl drain node\n" * 200, "sh"),) * 2,
        )
    )
    page = fleet_document(
        document_of(
            view=replace(answer.view, pools=pools),
            advice=pieces,
            node_advice=answer.node_advice * 2000,
            usage=tuple(
                replace(each, team=f"{each.team}-{at}")
                for each in answer.usage
                for at in range(500)
            ),
        )
    )
    assert len(page.encode()) < LARGEST_BYTES
    assert "And 4,992 more like these" in page
    assert "and 1,900 more pools" in page
    assert "and 901 more teams" in page
    assert "# and so on: rightsizer fleet --json has all of it" in page
    assert page.index("id0000004999") < page.index("id0000004998")


@pytest.mark.parametrize("key", ["pool/batch", "kubernetes:web/chat"])
def test_finding_of_a_pool_names_its_pool(key: str) -> None:
    """The name is that of the pool."""
    assert key in fleet_document(document_of())
