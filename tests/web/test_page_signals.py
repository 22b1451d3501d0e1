"""Signals over time on the page of a GPU or a workload, and zoomed intervals."""

import re
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from publish_reports import full_report, node_report
from rightsizer.model.advice import AdviceState
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.report import DEFAULT_SPAN, DeviceSpan, Report, Span, StripCell, TimeRange
from rightsizer.model.state import State
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.page import WebPage
from rightsizer.web.page_query import PageQuery, selected_uuids, zoom_of
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.signals import CHART_HEIGHT, marks_of, signal_charts
from rightsizer.web.view.strip import STRIP_WIDTH, state_times
from sample_devices import HOUR, NOW

DAY = TimeRange(NOW - 24 * HOUR, NOW)


def blocks(*ratios: float | None, first: int = NOW - 24 * HOUR) -> Blocks:
    """Five-minute blocks with a mean, and a peak a tenth higher; `None` is a gap."""
    return Blocks.joined(
        Blocks.of_one(
            first + place * BLOCK_SPAN,
            300.0,
            {Measure.COMPUTE: ratio},
            {Measure.COMPUTE: min(1.0, ratio + 0.1)},
        )
        for place, ratio in enumerate(ratios)
        if ratio is not None
    )


def device_spans(span: Span) -> dict[str, DeviceSpan]:
    """Every device worked, and was idle for the hour before the last two."""
    cells = tuple(
        StripCell(at, at + span.cell, {_IDLE if _is_idle(at) else State.PRODUCTIVE: span.cell})
        for at in range(NOW - span.length, NOW, span.cell)
    )
    of_all = DeviceSpan(cells, state_times(cells))
    return {device.device.uuid: of_all for device in node_report().devices}


_IDLE = State.IDLE_HELD


def _is_idle(at: int) -> bool:
    return NOW - 3 * HOUR <= at < NOW - 2 * HOUR


def measured(uuids: Collection[str], stretch: TimeRange) -> Mapping[str, Blocks]:
    """Half of each device's compute, all day."""
    whole = blocks(*[0.5] * 288)
    return {uuid: whole.between(stretch.start, stretch.end) for uuid in uuids}


def page_of(report: Report, **query: object) -> str:
    """Document of a report with a given view."""
    page = WebPage(FreshnessSettings(), FitSettings(), 60.0, device_spans, blocks=measured)
    return page.render(report, NOW, PageQuery(**query)).decode()  # type: ignore[arg-type]


def test_a_signal_is_drawn_by_its_mean_and_its_peak() -> None:
    """Time goes from left to right, and gaps are not drawn."""
    (chart,) = signal_charts((blocks(*[0.5] * 144),), DAY)
    assert chart.name == "Compute"
    assert chart.text == "mean 50%, peak 60%"
    half = f"V{CHART_HEIGHT / 2:g}H{STRIP_WIDTH / 2:g}"
    assert chart.mean.endswith(half)
    assert chart.peak.endswith(f"H{STRIP_WIDTH / 2:g}V{CHART_HEIGHT}Z")
    assert signal_charts((Blocks(),), DAY) == ()


def test_a_gap_is_no_line() -> None:
    """No samples exist in a gap."""
    (chart,) = signal_charts((blocks(*[0.5] * 30, *[None] * 60, *[0.5] * 30),), DAY)
    assert chart.mean.count("M") == 2
    assert len(chart.segments) == 20


def test_several_devices_are_one_mean_and_the_largest_peak() -> None:
    """This is the case for a workload on several devices."""
    (chart,) = signal_charts((blocks(*[0.2] * 288), blocks(*[0.6] * 288)), DAY)
    assert chart.text == "mean 40%, peak 70%"


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), max_size=300), st.integers(1, 288))
def test_a_drawing_stays_on_its_canvas(ratios: list[float | None], length: int) -> None:
    """This holds for any samples."""
    stretch = TimeRange(NOW - length * BLOCK_SPAN, NOW)
    first = NOW - len(ratios) * BLOCK_SPAN
    known = blocks(*ratios, first=first).between(stretch.start, stretch.end)
    for chart in signal_charts((known,), stretch):
        for command, number in re.findall(r"([VHM])([\d.]+)", chart.mean + chart.peak):
            most = CHART_HEIGHT if command == "V" else STRIP_WIDTH
            assert 0 <= float(number) <= most
        assert all(0 <= spell.x <= spell.x + spell.width <= STRIP_WIDTH for spell in chart.segments)


def test_a_gpu_has_a_page_with_its_signals() -> None:
    """Its values are at the top, with links to other intervals."""
    report = node_report()
    uuid = report.devices[1].device.uuid
    page = page_of(report, gpu=uuid)
    assert '<h1 id="headline" data-section>GPU 1: ' in page
    assert page.count('<div class="chart ') == 1
    assert page.count("<tbody data-board>") == 1
    for way in ("earlier", "closer", "wider"):
        assert re.search(rf'<a href="\?gpu={uuid}&amp;from=\d+&amp;to=\d+">{way}</a>', page)
    assert ">later</a>" not in page
    assert '<div class="chart ' not in page_of(report)


def test_the_busiest_signal_is_tall_and_an_unused_one_flat() -> None:
    """A GPU's page has room for what matters."""
    both = Blocks.of_one(
        NOW - HOUR,
        300.0,
        {Measure.BUSY: 0.9, Measure.COMPUTE: 0.3, Measure.NVLINK: 0.0},
        {Measure.BUSY: 1.0, Measure.COMPUTE: 0.4, Measure.NVLINK: 0.01},
    )
    charts = signal_charts((both,), DAY)
    assert [(chart.name, chart.size) for chart in charts] == [
        ("Busy", "tall"),
        ("Compute", ""),
        ("NVLink", "flat"),
    ]


def test_recommendations_are_marked_in_their_time() -> None:
    """When they opened and ended; those outside the range are not drawn."""
    report = node_report()
    piece = next(each for each in report.advice if each.finding.rule == "held_idle")
    ended = replace(piece, opened=NOW - 6 * HOUR, closed=NOW, state=AdviceState.EXPIRED)
    first, last = marks_of((ended,), DAY)
    assert (first.share, last.share) == (0.75, 1.0)
    assert first.text.endswith(" opened: release the GPU")
    assert last.text.endswith(" expired: release the GPU")
    assert marks_of((replace(ended, opened=NOW - 30 * HOUR, closed=None),), DAY) == ()


def test_a_stretch_is_drawn_alone() -> None:
    """It has the shortest stored cells; all else covers the span."""
    report = node_report()
    uuid = report.devices[1].device.uuid
    page = page_of(report, gpu=uuid, zoom=TimeRange(NOW - 3 * HOUR, NOW - 2 * HOUR))
    assert "7 Jan 10:00 to 11:00" in page
    (card,) = re.findall(r'<article class="card device".*?</article>', page, re.DOTALL)
    assert "Idle held <b>100%</b>" in card
    assert ">later</a>" in page
    assert f'<a href="?gpu={uuid}">all of the last 24 hours</a>' in page


def test_a_workload_has_a_page() -> None:
    """It shows the held GPUs, recommendations and the workload's row."""
    report = full_report()
    holder = next(device for device in report.devices if device.holdings)
    key = holder.holdings[0].workload.key
    uuids = selected_uuids(report, PageQuery(workload=key))
    assert holder.device.uuid in uuids
    page = page_of(report, workload=key)
    assert page.count("<tbody data-board>") == len(uuids)
    assert f"{key}: " in page.partition("</h1>")[0]
    rows = page.partition('id="s-workloads"')[2]
    assert rows.count('<th scope="row">') == sum(w.workload.key == key for w in report.workloads)


def test_unknown_device_in_a_link_selects_nothing() -> None:
    """A link may outlive its device."""
    report = node_report()
    for query in (PageQuery(workload="kubernetes/gone"), PageQuery(gpu="GPU-gone"), PageQuery()):
        assert not selected_uuids(report, query)
    empty = replace(report, devices=(), workloads=())
    assert not selected_uuids(empty, PageQuery(workload="kubernetes/gone"))


@pytest.mark.parametrize(
    ("start", "end"),
    [("now", "1"), ("-1", "nan"), ("1", "2"), ("inf", "1"), ("", ""), ("9e18", "9e19")],
)
def test_invalid_interval_does_not_zoom(start: str, end: str) -> None:
    """The page shows the span."""
    assert zoom_of({"from": [start], "to": [end]}, NOW) is None
    assert zoom_of({"from": ["1767790000"]}, NOW) is None


@given(st.integers(0, 40 * 86400), st.integers(1, 86400 * 40))
def test_a_stretch_ends_by_now_and_can_be_drawn(before: int, length: int) -> None:
    """It has at least half an hour and at most thirty days."""
    seconds = NOW // 10**9
    found = zoom_of({"from": [str(seconds - before)], "to": [str(seconds - before + length)]}, NOW)
    if found is not None:
        assert found.end <= NOW
        assert 1800 * 10**9 <= found.end - found.start <= 30 * 86400 * 10**9 + 1
        assert found.detail(NOW).length >= min(NOW - found.start, 30 * 86400 * 10**9)
        again = PageQuery(gpu="a b", zoom=found).address
        assert again.startswith("gpu=a+b&from=")
    assert PageQuery(DEFAULT_SPAN).address == ""
