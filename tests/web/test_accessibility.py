"""Pages and documents against the rules of axe-core, in a real browser.

axe-core is not part of the project: `npm install axe-core` here, or name its file in AXE_CORE.
"""

import html
import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from browser import IN_A_BROWSER, browse
from publish_reports import full_report
from rightsizer.cli.main import main
from rightsizer.model.report import Report
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.page import WebPage
from rightsizer.web.page_query import PageQuery
from rightsizer.web.settings import FitSettings
from sample_devices import NOW

ROOT: Final = Path(__file__).parents[2]
AXE: Final = Path(os.environ.get("AXE_CORE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
DOCUMENTS: Final = sorted((ROOT / "tests" / "report" / "golden").glob("*.html"))
WIDTHS: Final = (390, 768, 1024, 1440, 2560)
"""In pixels, from a phone to a wall; no window is as narrow as a frame."""
RUN: Final = """
addEventListener("load", () => axe.run().then(({ violations }) =>
  parent.postMessage(violations.map(({ id, nodes }) =>
    [innerWidth, id, nodes.map((node) => node.html + " " + node.failureSummary)]), "*")));
"""
FRAMES: Final = """
<!doctype html><output></output>
<script>
  const answers = [];
  addEventListener("message", ({ data }) => {
    answers.push(data);
    if (answers.length === COUNT) {
      document.querySelector("output").textContent = JSON.stringify(answers.flat());
    }
  });
</script>
"""

pytestmark = [
    *IN_A_BROWSER,
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not here: npm install axe-core"),
]


def violations(document: str, folder: Path, scheme: int) -> Any:
    """The rules that a document breaks at any width: width, rule, elements."""
    open_to_scripts = re.sub("<meta http-equiv=.Content-Security-Policy.[^>]*>", "", document)
    scripts = f"<script>{AXE.read_text('utf-8')}</script><script>{RUN}</script>"
    file = folder / "page.html"
    file.write_text(open_to_scripts.replace("</body>", f"{scripts}</body>"), "utf-8")
    frames = "".join(
        f"<iframe src='page.html' style='border:0;width:{width}px;height:900px'></iframe>"
        for width in WIDTHS
    )
    whole = folder / "frames.html"
    whole.write_text(FRAMES.replace("COUNT", str(len(WIDTHS))) + frames, "utf-8")
    run = browse(
        folder,
        "--window-size=2560,900",
        "--virtual-time-budget=60000",
        f"--blink-settings=preferredColorScheme={scheme}",
        "--dump-dom",
        whole.as_uri(),
    )
    found = re.search(r"<output>(.+?)</output>", run.stdout, re.DOTALL)
    assert found is not None, run.stderr
    return json.loads(html.unescape(found[1]))


def with_conflict(report: Report) -> Report:
    """The report with conflicting open recommendations, and all sections unfolded."""
    pieces = (
        replace(each, finding=replace(each.finding, exclusive_group="same GPU"))
        if each.is_open
        else each
        for each in report.advice
    )
    return replace(report, advice=tuple(pieces))


@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
@pytest.mark.parametrize("shown", ["node", "gpu", "workload"])
def test_the_page_breaks_no_rule(tmp_path: Path, shown: str, scheme: int) -> None:
    """Covers names, roles, order and contrast in each view."""
    report = with_conflict(full_report())
    held = next(device for device in report.devices if device.holdings)
    queries = {
        "node": PageQuery(),
        "gpu": PageQuery(gpu=held.device.uuid),
        "workload": PageQuery(workload=held.holdings[0].workload.key),
    }
    page = WebPage(FreshnessSettings(), FitSettings(), 60.0)
    document = page.render(report, NOW, queries[shown]).decode()
    document = document.replace("<details ", "<details open ")
    assert violations(document, tmp_path, scheme) == []


@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
def test_the_page_of_a_plan_breaks_no_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: int
) -> None:
    """With its curve, its charts and its tables."""
    question = "plan llama-3.1-8b --rps 3 --in 1000 --out 200 --tpot 50ms --format html"
    assert main(question.split()) == 0
    assert violations(capsys.readouterr().out, tmp_path, scheme) == []


@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
@pytest.mark.parametrize("document", DOCUMENTS, ids=[document.stem for document in DOCUMENTS])
def test_documents_break_no_rule(tmp_path: Path, document: Path, scheme: int) -> None:
    """Covers report, fleet and profile documents."""
    assert violations(document.read_text("utf-8"), tmp_path, scheme) == []
