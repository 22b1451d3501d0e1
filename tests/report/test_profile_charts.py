"""Charts of a profile's page in a real browser: what a click and keys do to them."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from profiles_built import device, profile
from rightsizer.model.profile import FrameUse
from rightsizer.profiler.page import profile_document
from rightsizer.profiler.profile_encoder import answer_form
from rightsizer.profiler.workload import ProfiledWorkload

CHROMIUM: Final = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
KEY: Final = """
const press = (key, target = document.activeElement) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
"""


def told(script: str, folder: Path, **changes: Any) -> Any:
    """What a script returns in the page of a GPU."""
    found = profile(device(**changes))
    document = profile_document(answer_form([ProfiledWorkload("one", (found,), ())]))
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
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000")
    command = [str(CHROMIUM), *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, file.as_uri()], capture_output=True, text=True, timeout=90, check=True
    )
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
    """What is around it stays, as wide as all; what is beside it goes until that is clicked."""
    script = f"""{SHOWN}
      const boxes = document.querySelectorAll(".flame > svg"), found = [shown()];
      for (const place of [1, 0]) {{
        boxes[place].dispatchEvent(new MouseEvent("click"));
        found.push(shown());
      }}
      return found;"""
    whole = [
        *(["all kernels", 100], ["Layer", 75], ["aten::mm", 40], ["aten::add", 20]),
        ["(in no frame)", 25],
    ]
    zoomed = [["all kernels", 100], ["Layer", 100], ["aten::mm", 53], ["aten::add", 27]]
    assert told(script, tmp_path, frames=FRAMES) == [whole, zoomed, whole]


def test_frames_are_reached_by_keys(tmp_path: Path) -> None:
    """Arrow keys move, Enter zooms in, Escape out; one frame alone is a stop of the tab key."""
    script = f"""{SHOWN}
      first.focus();
      for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "Enter"]) step(key);
      steps.push(shown().length);
      for (const key of ["Escape", "ArrowUp"]) step(key);
      steps.push(shown().length, document.querySelectorAll('.flame [tabindex="0"]').length);
      return steps;"""
    assert told(script, tmp_path, frames=FRAMES) == [
        *(["Layer"], ["aten::mm"], ["aten::add"], ["aten::add"]),
        3,
        *(["Layer"], ["all kernels"]),
        *(4, 1),
    ]
