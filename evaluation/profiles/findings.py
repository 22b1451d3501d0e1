"""Findings in profilers' files against a specialist's labels."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from measured import as_rows, table
from rightsizer.io.yaml import load_yaml
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import read_files

LABELS: Final = Path(__file__).parent / "labels.yaml"
PLANTED: Final = Path(__file__).parent / "planted"
ON_GPU: Final = Path(__file__).parents[1] / "hardware" / "profiles"
_HEADINGS: Final = ("file", "due", "said", "")
_PREFIX: Final = "profile_"
_HOW: Final = (
    "\nFindings beside labels, whose reasons are in `evaluation/profiles/labels.yaml`; what is "
    "true and minor does not count. The labels' authors knew these files.\n"
)

_HOW_PLANTED: Final = (
    "\nLoops on the CPU, each with a planted fault or none (`evaluation/profiles/planted/`, "
    "recorded by `tests/profilers/`).\n"
)

_HOW_ON_GPU: Final = (
    "\nLoops on an H100, each with a planted fault or none (`evaluation/hardware/profiles/`).\n"
)


def beside_gpu() -> Iterable[str]:
    """The same of what was recorded on a GPU."""
    return beside_labels(ON_GPU, ON_GPU / "labels.yaml", _HOW_ON_GPU)


def beside_planted() -> Iterable[str]:
    """The same of what was recorded for it."""
    return beside_labels(PLANTED, PLANTED / "labels.yaml", _HOW_PLANTED)


def beside_labels(folder: Path, labels: Path = LABELS, how: str = _HOW) -> Iterable[str]:
    """A row for each labeled file that is there, precision and recall."""
    lines: list[Sequence[str]] = []
    right = 0
    said = 0
    due = 0
    for label in load_yaml(labels.read_text(encoding="utf-8"), str(labels)).data:
        path = folder / label["file"]
        if not path.exists():
            continue
        asked = set(label["due"])
        found = _complaints(path)
        judged = found - (set(label.get("may", ())) - asked)
        right = right + len(asked & found)
        said = said + len(judged)
        due = due + len(asked)
        verdict = "right" if judged == asked else "wrong"
        lines.append((label["file"], _names(asked), _names(found), verdict))
    precision = f"Precision {_ratio(right, said)} ({said} said)"
    recall = f"recall {_ratio(right, due)} ({due} due)"
    files = f"of {len(lines)} files {sum(line[3] == 'right' for line in lines)} right"
    return [how, as_rows(table(lines, _HEADINGS) + "\n"), f"{precision}, {recall}; {files}.\n"]


def _complaints(path: Path) -> set[str]:
    """The rules that complain of any workload of a file or folder."""
    read = read_files([path], ReadLimits())
    findings: list[Any] = [
        finding for workload in judged_workloads(read.profiles) for finding in workload.findings
    ]
    return {finding.rule for finding in findings if finding.is_actionable}


def _names(rules: Iterable[str]) -> str:
    return ", ".join(sorted(rule.removeprefix(_PREFIX) for rule in rules)) or "nothing"


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"
