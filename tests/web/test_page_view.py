"""The page's view of a report, before and after rendering to HTML."""

import html
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from msgspec.structs import replace

from publish_advice import node_advice
from publish_reports import device_report, node_report, rated_report
from report_samples import RATE
from rightsizer.model.finding import Action, Reason, Severity
from rightsizer.model.reading import Missing
from rightsizer.model.report import DEFAULT_SPAN, SPANS, Report, StripCell
from rightsizer.model.served_load import ServedLoad, ServedNeed
from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, percent_text
from rightsizer.model.window import ResourceProvisioning
from rightsizer.report.evidence_labels import evidence_labels
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.labels import (
    ACTION_LABELS,
    PAGE_STATE_LABELS,
    REASON_LABELS,
    SEVERITY_COLORS,
    STATE_ORDER,
    display_name,
    savings_label,
)
from rightsizer.report.node_document import device_document
from rightsizer.report.rows import amount_text
from rightsizer.web.page import WebPage
from rightsizer.web.page_query import PageQuery
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.advice import (
    action_label,
    culprits_label,
    names_label,
    reasons_label,
    title_label,
)
from rightsizer.web.view.device import (
    BULLET_SCALE,
    GAUGES,
    bullets_label,
    fit_view,
    missing_labels,
)
from rightsizer.web.view.node import NodeView, node_view
from rightsizer.web.view.overview import OverviewRow
from rightsizer.web.view.strip import shares_of
from rightsizer.web.view.totals import Spending, part_of, waste_view
from sample_devices import HOUR, INSTANCE, NOW, PARENT, SAMPLE_DEVICES

DOWN = 5
SERVING = 2
IDLE = 3
NEAR_FULL = 4


class Outline(HTMLParser):
    """Parser that collects links, IDs, headings, labels and open tags."""

    VOID = frozenset({"meta", "link", "br", "input"})

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag, unless it is a void element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a self-closing tag, as SVG has."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that was opened last, and no other."""
        assert self.open.pop() == tag


def page_of(
    report: Report | None, refresh_seconds: float = 60.0, *, is_paused: bool = False
) -> str:
    """HTML document of a report."""
    page = WebPage(FreshnessSettings(), FitSettings(), refresh_seconds)
    return page.render(report, NOW, PageQuery(DEFAULT_SPAN, is_paused=is_paused)).decode()


def view_of(report: Report | None, now: int = NOW) -> NodeView:
    """View of a report."""
    return node_view(report, now, FreshnessSettings(), FitSettings(), PageQuery())


def rows_of(view: NodeView) -> list[OverviewRow]:
    """Rows of all devices, in the order of the report."""
    assert view.report is not None
    rows = {row.uuid: row for board in view.overview for row in (board, *board.instances)}
    return [rows[device.device.uuid] for device in view.report.devices]


def tiles_of(page: str) -> dict[str, tuple[str, str]]:
    """Value of each tile, and its detail."""
    tile = (
        r'id="tile-(\w+)"><dt>[^<]*</dt><dd class="value">([^<]*)</dd><dd class="detail">([^<]*)<'
    )
    return {name: (value, detail) for name, value, detail in re.findall(tile, page)}


def test_the_headline_counts_gpus_and_lost_time() -> None:
    """MIG instances do not count as GPUs; idle, stalled and held-up time counts as waste."""
    view = view_of(node_report())
    assert view.headline == "8 GPUs, 1 not answering; 55% of the last 24 hours wasted"
    month = node_view(
        node_report(), NOW, FreshnessSettings(), FitSettings(), PageQuery(span=SPANS[-1])
    )
    pattern = r"8 GPUs, 1 not answering; \d+% of [0-9.]+ GPU-hours wasted"
    assert re.fullmatch(pattern, month.headline)
    tiles = tiles_of(page_of(node_report()))
    assert {name: value for name, (value, _) in tiles.items()} == {
        "gpus": "8",
        "working": "3 of 8",
        "wasted": "55%",
        "used": "35%",
        "advice": "3",
        "savings": "$72/day",
    }
    assert tiles["gpus"][1] == "1 without fresh readings"
    shares = list(map(int, re.findall(r"(\d+)%", "".join(tiles["wasted"] + tiles["used"]))))
    wasted, idle, stalled, held_up, used, headroom = shares[:6]
    assert wasted == pytest.approx(idle + stalled + held_up, abs=1)
    assert wasted + used + headroom == pytest.approx(100, abs=1)


def test_savings_of_no_gpu_count_no_gpus() -> None:
    """A cheaper type of GPU saves money, and frees none."""
    report = rated_report()
    first, *_ = report.advice
    saved = replace(first.finding.savings, gpus_low=0.0, gpus_high=0.0)
    saved = replace(saved, dollars_per_hour_low=1.0, dollars_per_hour_high=2.0)
    alone = replace(first, finding=replace(first.finding, savings=saved))
    detail = tiles_of(page_of(replace(report, advice=(alone,))))["savings"][1]
    assert detail == "$24 to $48 at list prices"


def test_open_advice_comes_by_money_behind_what_is_critical_and_closed_apart() -> None:
    """A low severity that saves money comes before one that saves none."""
    view = view_of(rated_report())
    assert [SEVERITY_COLORS[piece.finding.severity] for piece in view.advice] == [
        "act",
        "headroom",
        "tight",
    ]
    assert [piece.finding.severity for piece in view.advice] == ["critical", "low", "medium"]
    assert [piece.state for piece in view.closed] == ["succeeded"]


def test_every_action_and_reason_has_words() -> None:
    """Those of profiles too, without which their advice would break the page."""
    assert set(Action) == set(ACTION_LABELS)
    assert set(Reason) == set(REASON_LABELS)


def test_advice_speaks_to_people() -> None:
    """Reason, action, devices, savings and evidence are text with units."""
    view = view_of(rated_report())
    idle, stall = (piece.finding for piece in view.advice[1:])
    assert (title_label(idle, view.names), title_label(stall, view.names)) == (
        "Release GPU 3",
        "Find the rank that the others wait for: llama-pretrain",
    )
    assert (reasons_label(stall), action_label(stall.action, stall.kind)) == (
        "Stalled, though GPU_UTIL is high",
        "Find the rank that the others wait for",
    )
    assert names_label(stall.devices, view.names) == "GPU 0, GPU 1"
    assert (culprits_label(stall, view.names), view.advice[2].actor) == ("GPU 1", "ops")
    assert savings_label(stall.savings) == "n/a (what the stall costs depends on its cause)"
    assert savings_label(idle.savings) == "$72 a day ($50 to $94), 1 GPU"
    evidence = dict(evidence_labels(idle.evidence, view.names))
    assert evidence["Idle share"] == "95%"
    assert evidence["Hours"] == "18"


def test_culprits_are_named_only_where_they_are_some_of_the_devices() -> None:
    """A fault of all devices has no second list of the same names."""
    stall = next(each for each in node_advice() if each.finding.rule == "hidden_stall")
    names = {uuid: uuid for uuid in stall.finding.devices}
    assert culprits_label(stall.finding, names) == ", ".join(stall.finding.culprits) != ""
    everybody = replace(stall, finding=replace(stall.finding, culprits=stall.finding.devices))
    assert not culprits_label(everybody.finding, names)


def test_a_device_that_is_down_shows_no_present() -> None:
    """Its reason is shown; its last state and readings are not shown as current."""
    device = rows_of(view_of(node_report()))[DOWN]
    assert device.down == "Lost: NVML: GPU is lost; it has fallen off the bus."
    assert (device.state, device.readings) == (State.UNKNOWN, {})
    assert device.last_sample is not None
    assert device.last_sample.age == "9 h"


def test_a_stale_report_shows_no_present() -> None:
    """When the sampler has stopped, no card shows a current value."""
    view = view_of(node_report(), NOW + HOUR)
    rows = rows_of(view)
    assert all(row.state is State.UNKNOWN and not row.readings for row in rows)
    assert view.counts is not None
    assert view.counts.silent == len(rows)


def test_mig_devices_are_named_by_their_gpu() -> None:
    """A parent shows how its time was used; an instance names GPU and instance."""
    devices = rows_of(view_of(node_report()))
    assert devices[PARENT].report.device.has_mig_instances
    assert (devices[INSTANCE].title, devices[INSTANCE].model) == (
        "MIG 6:2",
        "A100-SXM4-80GB, 3g.40gb",
    )


@pytest.mark.parametrize(
    ("index", "verdict", "key"),
    [
        (0, "fits tightly: 3% to spare", "tight"),
        (IDLE, "over-provisioned: 73% is never needed", "headroom"),
        (NEAR_FULL, "under-provisioned 43% of the time", "act"),
        (DOWN, "not enough active time to tell", "none"),
    ],
)
def test_the_verdict_follows_the_gauges(index: int, verdict: str, key: str) -> None:
    """Blue is headroom, orange tight, red too small, and none insufficient data."""
    fit = fit_view(node_report().devices[index].provisioning, FitSettings())
    assert (fit.verdict, fit.key) == (verdict, key)


def test_a_moment_of_pressure_is_no_verdict() -> None:
    """Below the share that counts as under-provisioned, the fit is shown unchanged."""
    current = node_report().devices[NEAR_FULL].provisioning["current"]
    brief = replace(current, underprovisioned=0.01, overprovisioned=0.2)
    assert fit_view({"current": brief}, FitSettings()).key == "fits"
    assert fit_view({"current": brief}, FitSettings(short_ratio=0.01)).key == "act"


@pytest.mark.parametrize(("under", "key"), [(None, "tight"), (0.04, "tight"), (0.05, "act")])
def test_a_load_at_its_limit_is_tight_and_only_pressure_is_red(
    under: float | None, key: str
) -> None:
    """A need above 1 only lacks its margin: a saturated batch job is well used."""
    fit = ResourceProvisioning(
        demand=0.95, need=1.09, overprovisioned=0.0, saturated=0.9, underprovisioned=under
    )
    current = node_report().devices[0].provisioning["current"]
    only = replace(current, resources={Resource.COMPUTE: fit})
    (bullets,) = fit_view({"current": only}, FitSettings()).bullets.values()
    assert bullets[0].key == key


def test_memory_held_in_advance_is_said_to_be() -> None:
    """A missing bullet has its reason."""
    current = node_report().devices[SERVING].provisioning["current"]
    held = fit_view({"current": replace(current, memory_is_preallocated=True)}, FitSettings())
    assert held.note == "Memory is reserved in advance, so how much is needed is unknown."
    assert not fit_view({"current": current}, FitSettings()).note


def test_bullets_stand_for_both_windows_in_words_too() -> None:
    """A resource with unknown need has no bullet; a need above capacity passes the line."""
    fit = fit_view(node_report().devices[NEAR_FULL].provisioning, FitSettings())
    memory = fit.bullets[Resource.MEMORY]
    assert memory[0].need == pytest.approx(1.12, abs=0.005)
    assert memory[0].need < BULLET_SCALE
    assert [bullet.window for bullet in memory] == ["current", "24h"]
    label = bullets_label(Resource.MEMORY, memory)
    assert label.startswith("Memory: current, demand 97%, need 112%; 24h,")
    serving = fit_view(node_report().devices[SERVING].provisioning, FitSettings())
    assert Resource.MEMORY not in serving.bullets


def test_gauges_tell_what_is_not_read() -> None:
    """A missing reading is shown as missing, not as 0; power is above idle, and named so."""
    report = node_report()
    bare = replace(report, devices=(replace(report.devices[0], signals={}),))
    assert page_of(bare).count("<b>not read</b>") == len(GAUGES)
    assert amount_text(Signal.MEMORY_USED, report.devices[0].signals) == "62 of 80 GiB"
    assert "Power above idle" in [name for _, name, _ in GAUGES]


def test_headroom_is_told_beside_the_waste_with_its_price() -> None:
    """Else advice on a working GPU would seem to save more than is wasted."""
    page = WebPage(
        FreshnessSettings(), FitSettings(), 60.0, past=lambda _: {}, rate_of=lambda _: RATE
    )
    text = page.render(node_report(), NOW, PageQuery(DEFAULT_SPAN)).decode()
    assert re.search(
        r"held up \d+%; \$[\d,.]+ more is headroom, left by GPUs at work$",
        tiles_of(text)["wasted"][1],
    )


def test_waste_counts_an_instance_as_its_part_of_a_gpu() -> None:
    """Half a GPU that idles wastes half of what a whole one does."""
    totals = node_report().devices[IDLE].totals
    used = replace(totals, used_seconds=3600.0, waste_seconds={Cause.IDLE: 0.0, Cause.HOST: 0.0})
    idle = replace(totals, used_seconds=0.0, waste_seconds={Cause.IDLE: 3600.0})
    view = waste_view([Spending(used), Spending(idle, 0.5)])
    assert [part.name for part in view.parts] == ["Effective utilization", "Idle"]
    assert view.parts[0].ratio == pytest.approx(2 / 3)
    assert view.known_text == "1.5 GPU-hours"
    assert waste_view([]).label == "nothing known yet"


def test_waste_is_what_was_idle_stalled_or_held_up() -> None:
    """Its parts on the page add up to it; headroom is none."""
    totals = node_report().devices[IDLE].totals
    spent = replace(totals, used_seconds=100.0, waste_seconds=dict.fromkeys(Cause, 100.0))
    view = waste_view([Spending(spent)])
    idle, stalled = (part_of(view.parts, f"waste-{each}") for each in (Cause.IDLE, Cause.STALLED))
    assert view.held_up_ratio == pytest.approx(5 / 9)
    assert idle + stalled + view.held_up_ratio == pytest.approx(view.wasted_ratio)


def test_words_are_there_for_everything() -> None:
    """Every state has a position, a description and a color; every severity has a color."""
    assert set(STATE_ORDER) == set(PAGE_STATE_LABELS) == set(State)
    assert set(SEVERITY_COLORS) == set(Severity)
    document = page_of(node_report())
    for key in (*State, *(f"waste-{cause}" for cause in Cause), "waste-used"):
        assert f".b-{key}" in document
    assert display_name("pcie_bound") == "PCIe bound"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1, "100%"), (1.12, "112%")],
)
def test_percent_never_rounds_to_a_lie(share: float, text: str) -> None:
    """Small shares are not shown as 0%, and nearly full ones not as 100%."""
    assert percent_text(share).replace("\u00a0", " ") == text


def test_shares_of_nothing_are_none() -> None:
    """A ratio over zero time is `None`."""
    assert shares_of({State.UNKNOWN: 0}) == ()


@pytest.mark.parametrize("report", [None, node_report(), replace(node_report(), devices=())])
def test_the_document_is_whole_and_self_contained(report: Report | None) -> None:
    """Tags nest, IDs are unique, it has one script of its own, and loads nothing from elsewhere."""
    document = page_of(report)
    outline = Outline(document)
    assert not outline.open
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in outline.tags:
        assert tag not in {"img", "iframe", "object"}
        assert tag != "script" or not attributes
        assert not any(name.startswith("on") for name in attributes)
        target = attributes.get("src") or attributes.get("href") or ""
        assert not re.match(r"(?!data:)[a-z]+:|/", target)


def test_the_document_can_be_heard() -> None:
    """It has landmarks, one first heading, and text for each drawing."""
    outline = Outline(page_of(node_report()))
    tags = [tag for tag, _ in outline.tags]
    assert [tags.count(tag) for tag in ("header", "main", "footer", "h1")] == [1] * 4
    named = [a.get("aria-label") for tag, a in outline.tags if tag == "nav"]
    assert named == ["Other forms of this report", "How far back"]
    drawings = [a for tag, a in outline.tags if tag == "svg" and a.get("aria-hidden") != "true"]
    assert len(drawings) == 8
    assert all(a.get("role") == "img" and a.get("aria-label") for a in drawings)
    headings = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in pairwise(headings))


def test_eight_busy_gpus_fit_in_300_kb() -> None:
    """Each has a day of five-minute cells of six states, no two alike."""
    step = 300 * NANOSECONDS_PER_SECOND
    noisy = tuple(
        StripCell(
            NOW - (288 - number) * step,
            NOW - (287 - number) * step,
            {
                state: 1 + (number * 7 + rank * 13) % 29
                for rank, state in enumerate(STATE_ORDER[:6])
            },
        )
        for number in range(288)
    )
    report = node_report()
    devices = tuple(
        replace(
            device_report(0, SAMPLE_DEVICES[0]),
            device=replace(report.devices[0].device, uuid=f"GPU-{index}", index=index),
            strip=noisy,
        )
        for index in range(8)
    )
    assert len(page_of(replace(report, devices=devices))) < 300_000


def test_texts_from_outside_are_escaped() -> None:
    """A workload's name may be any text."""
    report = node_report()
    holding = report.devices[0].holdings[0]
    evil = replace(holding, workload=replace(holding.workload, key="<script>alert(1)</script>"))
    devices = (replace(report.devices[0], holdings=(evil,)),)
    document = page_of(replace(report, devices=devices))
    assert document.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in document


def test_the_page_renews_itself_unless_told_not_to() -> None:
    """Readers can stop it, operators can disable it; scripts poll instead of reloading."""
    refresh = '<noscript><meta http-equiv="refresh" content="60"></noscript>'
    assert refresh in page_of(node_report())
    assert ' data-poll="5.0"' in page_of(node_report())
    paused = page_of(node_report(), is_paused=True)
    assert refresh not in paused
    assert "Refresh automatically" in paused
    never = page_of(node_report(), 0.0)
    assert 'http-equiv="refresh"' not in never
    assert ' data-poll="0"' in never


def test_a_page_without_gpus_says_why() -> None:
    """It has a message before the first sample and without a driver."""
    assert "No sample has been taken yet" in page_of(None)
    report = node_report()
    agent = replace(report.agent, trouble="libnvidia-ml.so.1 was not found")
    empty = replace(report, devices=(), advice=(), agent=agent)
    page = page_of(empty)
    assert "libnvidia-ml.so.1 was not found" in page
    collectors = page.partition("<dt>Collectors</dt>")[2].partition("</dd>")[0]
    assert "driver: libnvidia-ml.so.1 was not found" in collectors


def test_missing_signal_has_a_reason() -> None:
    """The card lists the signals without a value, with their reasons."""
    report = node_report()
    reading = replace(
        report.devices[0].reading,
        missing={
            Signal.JPEG: Missing.NOT_SUPPORTED,
            Signal.OFA: Missing.NOT_SUPPORTED,
            Signal.POWER_WATTS: Missing.NO_PERMISSION,
        },
    )
    devices = (replace(report.devices[0], reading=reading),)
    (card,) = view_of(replace(report, devices=devices)).overview
    assert missing_labels(card.report) == ("No permission: power_watts", "Not supported: jpeg, ofa")
    assert "Not supported: jpeg, ofa" in page_of(replace(report, devices=devices))
    assert device_document(devices[0]).missing == {
        "jpeg": "not_supported",
        "ofa": "not_supported",
        "power_watts": "no_permission",
    }


def test_a_gpu_that_serves_shows_model_and_load() -> None:
    """In its row and on its page; not where its readings are old."""
    report = node_report()
    uuid = next(row.uuid for row in rows_of(view_of(report)) if row.is_fresh)
    load = ServedLoad("hub/llama", "vllm", 600.0, requests_per_second=3.1, devices=(uuid,))
    needs = "what it has, to keep today's level; state another (--ttft)"
    need = ServedNeed((uuid,), "llama", "what it has", needs, "saves $4 an hour")
    agent = replace(report.agent, served_needs=(need,))
    serving = replace(report, served=(load,), agent=agent)

    page = page_of(serving)
    assert "3.1/s llama" in page
    assert "hub/llama on vllm, 3.1 requests/s" in page
    assert ">needs what it has<" in page
    row = page.partition(">needs what it has<")[0].rpartition("<tr")[2]
    assert "--ttft" not in row
    assert needs not in html.unescape(page)
    query = PageQuery(DEFAULT_SPAN, gpu=uuid)
    card = WebPage(FreshnessSettings(), FitSettings(), 60.0).render(serving, NOW, query).decode()
    assert f"llama needs {needs}; saves $4 an hour." in html.unescape(card)
    assert all(row.served == () for row in rows_of(view_of(serving, NOW + HOUR)))
