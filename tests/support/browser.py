"""Pages in headless Chromium."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["IN_A_BROWSER", "browse", "measured"]

_CHROMIUM: Final = shutil.which("chromium")
IN_A_BROWSER: Final = [
    pytest.mark.browser,
    pytest.mark.skipif(_CHROMIUM is None, reason="chromium is not installed"),
]
"""Marks of tests that start one."""
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--enable-logging=stderr",
    "--log-level=0",
    "--allow-file-access-from-files",
)
_MEASURING: Final = """
<output></output>
<script>
  const found = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const measure = () => {
      const view = frame.contentDocument;
      found[frame.dataset.number] = EXPRESSION;
      document.querySelector("output").textContent = JSON.stringify(found);
    };
    frame.onload = measure;
    // A frame that has loaded already tells so no more.
    const { URL, readyState } = frame.contentDocument;
    if (URL !== "about:blank" && readyState === "complete") measure();
  }
</script>
"""


def browse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Chromium with a profile of its own."""
    return subprocess.run(
        [str(_CHROMIUM), *_FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def measured(
    tmp_path: Path,
    document: str,
    widths: Sequence[int],
    expression: str = "view.documentElement.scrollWidth",
) -> list[Any]:
    """A script's expression about `view`, a document in frames of some widths, for each of them.

    Its own scripts do not run.
    """
    (tmp_path / "framed.html").write_text(document, encoding="utf-8")
    frames = "".join(
        f"<iframe data-number='{number}' sandbox='allow-same-origin' src='framed.html' "
        f"style='border:0;width:{width}px;height:900px'></iframe>"
        for number, width in enumerate(widths)
    )
    page = tmp_path / "frames.html"
    page.write_text(f"<!doctype html>{frames}{_MEASURING.replace('EXPRESSION', expression)}")
    run = browse(tmp_path, "--dump-dom", page.as_uri())
    answer = re.search(r"<output>(.*?)</output>", run.stdout, re.DOTALL)
    assert answer is not None, run.stderr
    found: list[Any] = json.loads(html.unescape(answer[1]))
    assert len(found) == len(widths)
    return found
