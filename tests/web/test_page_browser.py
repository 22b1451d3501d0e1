"""The page in a real browser: it renders without errors, fits a phone, and stays current."""

import html
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from browser import IN_A_BROWSER, browse, measured
from publish_reports import full_report, node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.advice import AdviceState
from rightsizer.model.block import Blocks, Measure
from rightsizer.model.report import DeviceSpan, Report, TimeRange, WorkloadReport
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web import page
from rightsizer.web.authenticator import Admission, Authenticator, Passwords
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.page_query import PageQuery
from rightsizer.web.router import Route
from rightsizer.web.server import WebAccess, WebServer
from rightsizer.web.settings import FitSettings, PasswordSettings
from rightsizer.web.web_config import WebConfig
from sample_devices import HOUR, NOW

pytestmark = IN_A_BROWSER


class TrustingAuthenticator(Authenticator):
    """Authenticator that accepts every client."""

    def __init__(self) -> None:
        super().__init__(WebConfig, Passwords(PasswordSettings()))

    def admit(self, address: str, certificate: str | None, authorization: str) -> Admission:
        """Return the same user without a password, for which a browser would ask."""
        del address, certificate, authorization
        return Admission(identity="user:alice")


@contextmanager
def served(latest: Callable[[], Report | None], **options: Any) -> Iterator[str]:
    """Address of a served page with any report."""
    server = WebServer(
        ["127.0.0.1:0"],
        latest=latest,
        exposition=MetricsExposition(latest, wall_time=lambda: NOW),
        wall_time=lambda: NOW,
        **options,
    )
    server.start()
    try:
        yield f"http://{server.addresses[0]}/"
    finally:
        server.stop()


@pytest.fixture
def url() -> Iterator[str]:
    """A served page of the whole node, idle."""
    report = node_report()
    with served(lambda: report) as address:
        yield f"{address}?refresh=off"


def test_the_page_renders_without_a_complaint(url: str, tmp_path: Path) -> None:
    """Neither the console nor the content security policy reports anything."""
    run = browse(tmp_path, "--dump-dom", url)
    assert " wasted" in run.stdout
    assert run.stdout.rstrip().endswith("</html>")
    assert ":CONSOLE" not in run.stderr


def settled(tmp_path: Path, url: str) -> str:
    """The document after its script has polled a few times, in the browser's own time."""
    run = browse(tmp_path, "--virtual-time-budget=12000", "--dump-dom", url)
    assert ":CONSOLE" not in re.sub(r".*status of 5\d\d.*", "", run.stderr)
    return run.stdout


def text_of(document: str, pattern: str) -> str:
    """Text of the first matching element, without tags."""
    found = re.search(pattern + r"[^>]*>(.*?)</(?:span|dd|b|p)>", document, re.DOTALL)
    assert found is not None, pattern
    return html.unescape(re.sub(r"<[^>]*>", "", found[1])).strip()


def test_figures_move_while_somebody_looks(tmp_path: Path) -> None:
    """State, gauges and tiles follow the API without a reload."""
    before = full_report(1)
    (device,) = before.devices
    signals = {**device.signals, Signal.GPU_BUSY: 0.123}
    idle = replace(device, state=State.IDLE_HELD, signals=signals)
    after = replace(before, generation=2, devices=(idle,))
    asked: list[int] = []

    def latest() -> Report:
        asked.append(1)
        return before if len(asked) == 1 else after

    with served(latest) as address:
        document = settled(tmp_path, address)
    assert text_of(document, 'data-gauge="gpu_busy".*?<b') == "12%"
    assert text_of(document, 'class="badge" data-state.*?</span><span') == "Idle held"
    assert text_of(document, 'id="tile-working".*?class="value"') == "0 of 1"
    assert 'data-live="live"' in document


def test_a_slider_tells_what_all_charts_say_at_a_moment(tmp_path: Path) -> None:
    """By its keys; a pointer over a drawing moves it."""
    report = full_report(1)
    (device,) = report.devices

    def measured(uuids: Collection[str], drawn: TimeRange) -> Mapping[str, Blocks]:
        known = Blocks.of_one(drawn.start, 300.0, {Measure.BUSY: 0.5}, {Measure.BUSY: 0.6})
        return dict.fromkeys(uuids, known)

    gpu = page.WebPage(FreshnessSettings(), FitSettings(), 0.0, lambda _: {}, blocks=measured)
    document = gpu.render(report, NOW, PageQuery(gpu=device.device.uuid)).decode()
    move = """<script>addEventListener("load", () => {
      const field = document.querySelector(".at input");
      field.value = 0;
      field.dispatchEvent(new Event("input"));
    });</script></body>"""
    open_to_scripts = re.sub("<meta http-equiv=.Content-Security-Policy.[^>]*>", "", document)
    file = tmp_path / "gpu.html"
    file.write_text(open_to_scripts.replace("</body>", move), "utf-8")
    shown = browse(tmp_path, "--virtual-time-budget=3000", "--dump-dom", file.as_uri()).stdout
    assert re.search(r"<output>[\d:]+ to [\d:]+: Busy mean 50%, peak 60%</output>", shown)


def test_new_advice_appears_and_is_said(tmp_path: Path) -> None:
    """The section is replaced, and announced to screen readers."""
    report = node_report()
    asked: list[int] = []

    def latest() -> Report:
        asked.append(1)
        return replace(report, advice=() if len(asked) == 1 else report.advice)

    with served(latest) as address:
        document = settled(tmp_path, address)
    assert "jupyter has held GPU 3" in document
    assert text_of(document, 'id="said"') == "The recommendations have changed."


@pytest.mark.parametrize(
    ("verb", "asked"),
    [("claim", {"why": "mine"}), ("snooze", {"why": "mine", "for": "7d"})],
)
def test_a_user_claims_advice_with_a_click(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, asked: dict[str, str]
) -> None:
    """The agent gets the user's name, and the page shows the result."""
    reports = [node_report()]
    (advice, *others) = reports[0].advice
    requests: list[tuple[str, Any, str | None]] = []

    def act(request: WebRequest) -> WebResponse:
        requests.append((request.named["id"], json.loads(request.body), request.identity))
        taken = replace(advice, state=AdviceState.CLAIMED, actor="user:alice")
        reports.append(replace(reports[0], generation=99, advice=(taken, *others)))
        return WebResponse.of_json({})

    click = (
        f'addEventListener("load", () => {{ const form = document.querySelector('
        f'"[data-advice={advice.id!r}]"); form.elements.why.value = "mine"; '
        f'form.querySelector("[value={verb}]").click(); }});'
    )
    monkeypatch.setattr(page, "_SCRIPT", page._SCRIPT + click)
    routes = (Route("POST", f"/api/v1/advice/{{id}}/{verb}", act, is_local=True),)
    access = WebAccess(authenticator=TrustingAuthenticator(), allows_changes=True)
    with served(lambda: reports[-1], local_routes=routes, access=access) as address:
        document = settled(tmp_path, address)

    assert requests == [(advice.id, asked, "user:alice")]
    assert "claimed by user:alice" in document


def test_link_to_a_folded_recommendation_unfolds_it(tmp_path: Path) -> None:
    """The action in a GPU's row links to it."""
    report = node_report()
    idle = report.advice[0]
    alike = tuple(
        replace(idle, finding=replace(idle.finding, id=f"empty{number}", workload=None))
        for number in range(3)
    )
    with served(lambda: replace(report, advice=alike)) as address:
        folded = browse(tmp_path, "--dump-dom", f"{address}?refresh=off").stdout
        linked = browse(tmp_path, "--dump-dom", f"{address}?refresh=off#advice-empty1").stdout
    assert 'id="group-empty0">' in folded
    assert 'id="group-empty0" open="">' in linked


def test_a_stretch_that_is_dragged_across_is_shown_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter to a half of the day is shown, on the GPU's own page."""
    drag = """
addEventListener("load", () => {
  if (location.search.includes("from=")) return;
  const drawing = document.querySelector(".time svg"), frame = drawing.getBoundingClientRect();
  const at = (kind, share) => drawing.dispatchEvent(new PointerEvent(kind, { bubbles: true,
    button: 0, pointerType: "mouse", clientX: frame.left + share * frame.width }));
  at("pointerdown", 0.25); at("pointermove", 0.4); at("pointermove", 0.5); at("pointerup", 0.5);
});
"""
    monkeypatch.setattr(page, "_SCRIPT", page._SCRIPT + drag)
    report = node_report()
    past = {device.device.uuid: DeviceSpan(device.strip) for device in report.devices}
    with served(lambda: report, past=lambda _: past) as address:
        document = settled(tmp_path, address)

    query = re.search(r'data-query="gpu=([^&]+)&amp;from=(\d+)&amp;to=(\d+)"', document)
    assert query is not None
    start = int(query[2])
    end = int(query[3])
    day = NOW // 10**9 - 86400
    assert (start - day) / 86400 == pytest.approx(0.25, abs=0.01)
    assert (end - day) / 86400 == pytest.approx(0.5, abs=0.01)
    assert document.count("<tbody data-board") == 1


def test_a_reader_without_leave_has_the_commands_alone(url: str, tmp_path: Path) -> None:
    """No button is shown that would be refused."""
    document = settled(tmp_path, url)

    assert 'class="acts"' not in document
    assert "rightsizer claim " in document


def test_what_is_not_there_is_said_not_to_be(url: str, tmp_path: Path) -> None:
    """The page of an unknown GPU has no complaint; an unknown path is answered in words."""
    gone = browse(tmp_path, "--dump-dom", f"{url}&gpu=GPU-gone")
    assert "There is no GPU 'GPU-gone' here." in html.unescape(gone.stdout)
    assert ":CONSOLE" not in re.sub(r".*status of 404.*", "", gone.stderr)
    unknown = browse(tmp_path, "--dump-dom", url.replace("?refresh=off", "-/nothing"))
    assert "there is nothing at /-/nothing" in unknown.stdout


def test_marks_stand_at_their_share_of_each_chart(tmp_path: Path) -> None:
    """Lines of the time axis cross the charts where the axis has them, at any width."""
    report = full_report(1)
    (device,) = report.devices

    def drawn(uuids: Collection[str], stretch: TimeRange) -> Mapping[str, Blocks]:
        block = Blocks.of_one(stretch.start, 300.0, {Measure.BUSY: 0.5}, {Measure.BUSY: 0.6})
        return dict.fromkeys(uuids, block)

    gpu = page.WebPage(FreshnessSettings(), FitSettings(), 0.0, lambda _: {}, blocks=drawn)
    document = gpu.render(report, NOW, PageQuery(gpu=device.device.uuid)).decode()
    off = (
        "(() => { const chart = view.querySelector('.chart svg').getBoundingClientRect();"
        " return [...view.querySelectorAll('.over i')].map((mark) => Math.abs(chart.left"
        " + chart.width * parseFloat(mark.style.left) / 100"
        " - mark.getBoundingClientRect().left)); })()"
    )
    for distances in measured(tmp_path, document, [390, 1280], off):
        assert distances
        assert max(distances) < 1.5


def test_an_agent_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    """The page says that its values are no longer current."""
    report = node_report()
    asked: list[int] = []

    def latest() -> Report:
        asked.append(1)
        if len(asked) > 1:
            raise OSError
        return report

    with served(latest) as address:
        document = settled(tmp_path, address)
    assert 'data-live="gone"' in document
    assert text_of(document, 'id="notice"').startswith("The agent does not answer")


def test_readings_that_have_stopped_are_said_to_be_stale(tmp_path: Path) -> None:
    """The agent answers, but its sampler has stopped."""
    report = node_report()
    old = tuple(replace(device, last_sample=NOW - HOUR) for device in report.devices)
    with served(lambda: replace(report, devices=old)) as address:
        document = settled(tmp_path, address)
    assert 'data-live="stale"' in document
    assert "the sampling has stopped" in text_of(document, 'id="notice"')


def test_the_page_fills_once_the_agent_has_started(tmp_path: Path) -> None:
    """Before the first sample it waits and reloads by itself."""
    report = node_report()
    asked: list[int] = []

    def latest() -> Report | None:
        asked.append(1)
        return None if len(asked) == 1 else report

    with served(latest) as address:
        assert " wasted" in settled(tmp_path, address)


def test_dark_colors_follow_the_system(url: str, tmp_path: Path) -> None:
    """A switch to the other color scheme is shown."""
    by_night = browse(tmp_path, "--blink-settings=preferredColorScheme=0", "--dump-dom", url)
    assert 'aria-label="Use light colors"' in by_night.stdout
    by_day = browse(tmp_path, "--blink-settings=preferredColorScheme=1", "--dump-dom", url)
    assert 'aria-label="Use dark colors"' in by_day.stdout


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the whole node after its scripts."""
    report = node_report()
    with served(lambda: report) as address:
        folder = tmp_path_factory.mktemp("document")
        return f"<!doctype html>{browse(folder, '--dump-dom', f'{address}?refresh=off').stdout}"


def test_the_page_fits_its_window(document: str, tmp_path: Path) -> None:
    """Nothing exceeds the right edge, on a phone or a desktop."""
    widths = [360, 390, 768, 1400, 2560]
    assert measured(tmp_path, document, widths) == widths


def test_figures_on_a_phone_say_what_they_are(document: str, tmp_path: Path) -> None:
    """Without a heading, use and waste are named beside them."""
    cells = "[...view.querySelectorAll('#gpus tr[data-device] > td.number')].slice(0, 4)"
    content = "view.defaultView.getComputedStyle(cell, '::after').content"
    (phone, desktop) = measured(tmp_path, document, [390, 1400], f"{cells}.map(cell => {content})")
    assert phone == ['" used"', "none", "none", '" wasted"']
    assert desktop == ["none"] * 4


def test_workloads_on_a_phone_say_what_they_are(tmp_path: Path) -> None:
    """Without headings, each figure is named beside it; a desktop has headings."""
    page_of_all = page.WebPage(FreshnessSettings(), FitSettings(), 0.0)
    report = full_report(1)
    (device,) = report.devices
    held = WorkloadReport(device.holdings[0].workload, (device.device.uuid,), NOW, device.totals)
    document = page_of_all.render(replace(report, workloads=(held,)), NOW, PageQuery()).decode()
    cell = "view.querySelector('#s-workloads td.number')"
    name = f"view.defaultView.getComputedStyle({cell}, '::after').content"
    (phone, desktop) = measured(tmp_path, document, [390, 1400], name)
    assert phone == '" busy"'
    assert desktop == "none"


def test_cells_of_a_row_never_touch(document: str, tmp_path: Path) -> None:
    """What stands in one ends before the next begins, headings too, at any width."""
    reach = (
        "(cell) => { const range = view.createRange(); range.selectNodeContents(cell);"
        " return range.getBoundingClientRect(); }"
    )
    touching = (
        f"(() => {{ const reach = {reach}; return [...view.querySelectorAll('#gpus tr, .held tr')]"
        ".flatMap((row) => { const cells = [...row.cells].map(reach).filter((box) => box.width);"
        " return cells.slice(1).filter((box, place) => box.top < cells[place].bottom"
        " && box.left < cells[place].right - 0.5 && box.right > cells[place].left); }).length })()"
    )
    widths = [640, 780, 880, 1000, 1190, 1280, 1600]
    assert measured(tmp_path, document, widths, touching) == [0] * len(widths)


def test_a_wide_screen_is_used(document: str, tmp_path: Path) -> None:
    """At 2,560 px the table of GPUs is as wide as nine tenths of the window."""
    table = "view.querySelector('#s-overview').offsetWidth"
    (width,) = measured(tmp_path, document, [2560], table)
    assert width >= 0.9 * 2560


_PRINTABLE_WIDTH: Final = 1032
"""CSS pixels between the margins of A4 in landscape: 273 mm."""


def test_no_column_is_cut_off_in_print(document: str, tmp_path: Path) -> None:
    """The table of GPUs keeps its headings and fits between the margins of the paper."""
    printed = document.replace("@media print", "@media all")
    table = "view.querySelector('#gpus')"
    both = f"[{table}.scrollWidth, {table}.querySelector('thead').innerText]"
    ((width, headings),) = measured(tmp_path, printed, [_PRINTABLE_WIDTH], both)
    assert width <= _PRINTABLE_WIDTH
    assert "Wasted" in headings
