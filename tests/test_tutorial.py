"""The tutorial is walked through, on a machine without a GPU, as a reader would."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent.parent / "docs" / "tutorial.md"
DAEMON: Final = str(PAGE.parent.parent / "daemon")
FENCE: Final = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
TYPED: Final = re.compile(r"^(python3|rightsizer|echo) ", re.MULTILINE)


def _blocks(*titles: str) -> list[str]:
    """The blocks of the sections with these titles, in the page's order."""
    sections = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    chosen = [
        section for section in sections if any(title in section.split("\n")[0] for title in titles)
    ]
    assert len(chosen) == len(titles)
    return [block for section in chosen for block in FENCE.findall(section)]


def test_commands_of_the_tutorial_print_the_output_shown(tmp_path: Path) -> None:
    """From a log to advice, its explanation, what becomes of it, and the documents."""
    blocks = _blocks("A log of your own", "Recommendations", "Documents")
    typed = [block for block in blocks if TYPED.match(block)]
    shown = [block for block in blocks if re.match(r"GPU 0 |To do,", block)]
    assert len(typed) == 5
    assert len(shown) == 2
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    answer = subprocess.run(
        ["/bin/sh", "-e", "-c", "\n".join(typed)],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "PYTHONPATH": DAEMON},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [block for block in shown if block not in answer.stdout] == []
    made = {file.name for file in tmp_path.iterdir()}
    assert {"gpu.csv", "try.db", "report.html", "hours.csv", "model.yaml"} <= made
