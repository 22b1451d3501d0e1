"""Charts of a profile's page in a real browser: clicks and keys."""

import html
import json
import re
from pathlib import Path
from typing import Any, Final

from browser import IN_A_BROWSER, browse
from profiles_built import device, profile
from rightsizer.io.codec import plain
from rightsizer.model.profile import FrameUse, ProfileTimeline, TimelineLane
from rightsizer.profiler.page import profile_document
from rightsizer.profiler.profile_encoder import answer_document
from rightsizer.profiler.workload import ProfileAnswer, ProfiledWorkload

pytestmark = IN_A_BROWSER
KEY: Final = """
const press = (key, target = document.activeElement) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
"""


def run_script(script: str, folder: Path, **changes: Any) -> Any:
    """Result of a script in the page of a GPU."""
    found = profile(device(**changes))
    document = profile_document(
        plain(answer_document(ProfileAnswer((ProfiledWorkload("one", (found,), ()),))))
    )
    run = f"""<script>addEventListener("load", () => {{
      const told = document.createElement("pre");
      told.id = "told";
      {KEY}
      told.textContent = JSON.stringify((() => {{ {script} }})());
      document.body.append(told);
    }})</script>"""
    document = re.sub("<meta http-equiv=.Content-Security-Policy.[^>]*>", "", document)
    file = folder / "page.html"
    file.write_text(document.replace("</body>", f"{run}</body>"), "utf-8")
    done = browse(folder, "--virtual-time-budget=5000", "--dump-dom", file.as_uri())
    answer = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert answer is not None, done.stderr
    return json.loads(html.unescape(answer[1]))


FRAMES: Final = (
    FrameUse("Layer", None, 0.75, 0.15, 3),
    FrameUse("aten::mm", 0, 0.4, 0.4, 2),
    FrameUse("aten::add", 0, 0.2, 0.2, 1),
    FrameUse("(in no frame)", None, 0.25, 0.25, 1),
)
SHOWN: Final = """
const shown = () => [...document.querySelectorAll(".flame > svg")]
  .filter((box) => box.getAttribute("display") !== "none")
  .map((box) => [box.lastChild.textContent, Math.round(parseFloat(box.getAttribute("width")))]);
const first = document.querySelector(".flame > svg");
const steps = [];
const step = (key) => { press(key); steps.push([document.activeElement.lastChild?.textContent]); };
"""


def test_a_frame_is_zoomed_into_by_a_click(tmp_path: Path) -> None:
    """Its parents stay at full width; its siblings are hidden until the parent is clicked."""
    script = f"""{SHOWN}
      const boxes = document.querySelectorAll(".flame > svg"), found = [shown()];
      for (const place of [1, 0]) {{
        boxes[place].dispatchEvent(new MouseEvent("click"));
        found.push(shown());
      }}
      return found;"""
    whole = [
        ["all kernels", 100],
        ["Layer", 75],
        ["aten::mm", 40],
        ["aten::add", 20],
        ["(in no frame)", 25],
    ]
    zoomed = [["all kernels", 100], ["Layer", 100], ["aten::mm", 53], ["aten::add", 27]]
    assert run_script(script, tmp_path, frames=FRAMES) == [whole, zoomed, whole]


def test_frames_are_reached_by_keys(tmp_path: Path) -> None:
    """Arrow keys move, Enter zooms in, Escape out; one frame is a stop of the tab key."""
    script = f"""{SHOWN}
      first.focus();
      for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "Enter"]) step(key);
      steps.push(shown().length);
      for (const key of ["Escape", "ArrowUp"]) step(key);
      steps.push(shown().length, document.querySelectorAll('.flame [tabindex="0"]').length);
      return steps;"""
    assert run_script(script, tmp_path, frames=FRAMES) == [
        ["Layer"],
        ["aten::mm"],
        ["aten::add"],
        ["aten::add"],
        3,
        ["Layer"],
        ["all kernels"],
        4,
        1,
    ]


TIMELINE: Final = ProfileTimeline(
    0.001,
    {TimelineLane.COMPUTE: tuple(float(at % 2) for at in range(1000))},
    threads={"thread 1": (0.25,) * 1000},
    memory_bytes=(None, *range(1, 1000)),
)
LANES: Final = """
const chart = document.querySelector(".lanes"), svg = chart.querySelector("svg");
const texts = (selector) => [...chart.querySelectorAll(selector)].map((each) => each.textContent);
const told = () => texts("g:last-of-type text"), tips = () => texts(".hover title"), buttons = {};
for (const each of chart.querySelectorAll("button")) buttons[each.textContent] = each;
const off = () => Object.keys(buttons).filter((name) => buttons[name].disabled);
"""


def test_a_time_line_shows_more_as_it_is_zoomed_into(tmp_path: Path) -> None:
    """Merged moments are separated, and buttons reach all of it."""
    script = f"""{LANES}
      const found = [[told(), tips().length, tips()[0], off()]];
      for (const name of ["closer", "closer", "closer", "later", "whole"]) {{
        buttons[name].click();
        found.push([told(), tips().length, tips()[0], off()]);
      }}
      return found;"""
    whole, half, quarter, eighth, later, again = run_script(script, tmp_path, timeline=TIMELINE)
    assert whole == again
    assert whole == [
        ["0 s", "250 ms", "500 ms", "750 ms", "1 s"],
        200,
        "0 s: kernels 40%, host, thread 1 26%, memory of 999 B 3%",
        ["earlier", "wider", "later", "whole"],
    ]
    assert half[0] == ["250 ms", "375 ms", "500 ms", "625 ms", "750 ms"]
    assert quarter[0][::4] == ["375 ms", "625 ms"]
    assert (eighth[0][::4], eighth[1]) == (["438 ms", "563 ms"], 125)
    assert eighth[2].startswith("438 ms: host, thread 1 26%, memory")
    assert later[0][::4] == ["501 ms", "626 ms"]
    assert later[3] == []


def test_a_stretch_is_chosen_by_dragging(tmp_path: Path) -> None:
    """A click alone changes nothing."""
    script = f"""{LANES}
      svg.setPointerCapture = () => 0;
      const {{ left, width }} = svg.getBoundingClientRect(), found = [];
      const at = (part) => left + (width * (150 + 570 * part)) / 720;
      for (const [start, end] of [[0.5, 0.5], [0.75, 0.5]]) {{
        svg.dispatchEvent(new PointerEvent("pointerdown", {{ clientX: at(start) }}));
        svg.dispatchEvent(new PointerEvent("pointermove", {{ clientX: at(end) }}));
        found.push(chart.querySelectorAll(".chosen").length);
        svg.dispatchEvent(new PointerEvent("pointerup", {{ clientX: at(end) }}));
        found.push(told()[0], told()[4]);
      }}
      return [...found, chart.querySelectorAll(".chosen").length];"""
    assert run_script(script, tmp_path, timeline=TIMELINE) == [
        1,
        "0 s",
        "1 s",
        1,
        "500 ms",
        "750 ms",
        0,
    ]
