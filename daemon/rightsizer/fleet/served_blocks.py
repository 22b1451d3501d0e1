"""Rows and blocks of the served models of a fleet's answer in JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.io.terminal import counted
from rightsizer.model.values import number_text
from rightsizer.report.blocks import (
    NOTHING,
    Block,
    CellKind,
    Code,
    Heading,
    Items,
    Section,
    section,
    table,
)
from rightsizer.report.labels import HOURS_A_DAY

_JsonRow = Mapping[str, Any]
_FIGURES: Final = {"ttft_ms": "TTFT", "tpot_ms": "TPOT"}
_HEADINGS: Final[Sequence[Heading]] = (
    ("a day", CellKind.MONEY),
    "who",
    "serves",
    "engine",
    "on",
    ("requests/s", CellKind.NUMBER),
    *((f"{name} ms", CellKind.NUMBER) for name in _FIGURES.values()),
)
_EXPENDABLE: Final = ("engine", "TTFT ms", "serves")
"""Columns that a narrow terminal does without."""
SERVED_COLUMNS: Final = (
    "cluster",
    "team",
    "name",
    "model",
    "engine",
    "gpu",
    "gpus",
    "replicas",
    "requests_per_second",
    "requests_per_second_peak",
    *(f"{name}{end}" for name in _FIGURES for end in ("", "_predicted", "_low", "_high")),
    "needs",
    "savings_dollars_per_day",
    "finding",
    "change",
    "probability",
    "risk",
    "error",
)
"""Of the table in CSV."""


def served_rows(served: Sequence[_JsonRow]) -> list[dict[str, Any]]:
    """Return a row for each served model: load, prediction beside measurement, first advice."""
    return [dict.fromkeys(SERVED_COLUMNS) | _row(answer) for answer in served]


def _row(answer: _JsonRow) -> dict[str, Any]:
    load = answer["load"]
    row = {name: answer[name] for name in ("cluster", "team", "name")}
    row |= {"engine": load["engine"], "gpus": len(load["devices"]), "replicas": load["engines"]}
    row |= {"requests_per_second": load["requests_per_second"], "model": load["model"]}
    if "error" in answer:
        return {**row, "gpu": load["board"], "error": answer["error"]}
    saved = answer["savings_dollars_per_hour"]
    row |= {name: answer[name] for name in ("model", "gpu", "requests_per_second_peak", "needs")}
    row["savings_dollars_per_day"] = None if saved is None else saved * HOURS_A_DAY
    for figure in answer["comparisons"]:
        what = figure["what"]
        if what in _FIGURES:
            predicted = {end: figure[f"predicted{end}"] for end in ("", "_low", "_high")}
            row |= {what: figure["measured"], f"{what}_predicted": predicted.pop("")}
            row |= {f"{what}{end}": value for end, value in predicted.items()}
    for finding in _advised_findings(answer)[:1]:
        option = finding["options"][0]
        row |= {"finding": finding["kind"], **{name: option[name] for name in _OF_OPTION}}
    return row


_OF_OPTION: Final = ("change", "probability", "risk")


def served_rank(answer: _JsonRow) -> tuple[bool, bool, float]:
    """Return the sort key of an answer: what is short first, then by money, what failed last."""
    is_short = any(finding["kind"] == _SHORT for finding in _advised_findings(answer))
    saved = answer.get("savings_dollars_per_hour") or 0.0
    return "error" in answer, not is_short, -saved


_SHORT: Final = "too_small"


def _advised_findings(answer: _JsonRow) -> list[_JsonRow]:
    """Return the findings of an answer that advise something."""
    findings = answer.get("findings", ())
    return [finding for finding in findings if finding["options"] and not finding["abstained"]]


def served_blocks(served: Sequence[_JsonRow], limit: int) -> Section:
    """Return the first served models, each with its findings, as ranked: short ones, then by money.

    Args:
        served: `served_models` of the answer.
        limit: Number of models that are shown.
    """
    shown = served[:limit]
    more = len(served) - limit
    note = "TTFT, TPOT: measured, and in brackets the 90% range that is predicted"
    note += f"; and {more} more; --top shows more, --json has all" if more > 0 else ""
    rows = (_cells(row) for row in served_rows(shown))
    blocks = (block for answer in shown for block in _answer_blocks(answer))
    summary = replace(table(_HEADINGS, rows, note), expendable=_EXPENDABLE)
    return section("What engines serve:", summary, *blocks)


def _cells(row: _JsonRow) -> Iterator[str | float | None]:
    replicas = row["replicas"]
    yield row["savings_dollars_per_day"]
    yield row["name"]
    yield row["model"]
    yield row["engine"]
    yield _gpus_text(row) + (f", {replicas} replicas" if replicas > 1 else "")
    yield row["requests_per_second"]
    for name in _FIGURES:
        yield _beside(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _gpus_text(row: _JsonRow) -> str:
    """Return `2 x L40S`; without a kind, of more than one GPU, they are of several."""
    if row["gpu"]:
        return f"{row['gpus']} x {row['gpu']}"
    return counted(row["gpus"], "GPU") + (" of several kinds" if row["gpus"] > 1 else "")


def _beside(measured: float | None, low: float | None, high: float | None) -> str:
    if measured is None:
        return NOTHING
    ends = "" if low is None or high is None else f" ({number_text(low)} to {number_text(high)})"
    return f"{number_text(measured)}{ends}"


def _answer_blocks(answer: _JsonRow) -> Iterator[Block]:
    if "error" in answer:
        yield answer["error"]
    for finding in answer.get("findings", ()):
        yield section(
            f"{finding['kind'].replace('_', ' ')}: {finding['summary']}",
            *_finding_blocks(finding),
        )


def _finding_blocks(finding: _JsonRow) -> Iterator[Block]:
    why = finding["abstained"]
    yield f"not advised: {why}" if why else ""
    yield Items(tuple(finding["causes"]), is_numbered=True)
    yield Items((*finding["evidence"], *(option["text"] for option in finding["options"])))
    for option in finding["options"][: 0 if why else 1]:
        yield Code(option["launch"] or "")
        yield f"to verify: {option['canary']}"
