"""Projections as JSON and as a table."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rightsizer.cli.project_request import Answer
from rightsizer.cli.project_run_text import assumptions, run_form, run_lines

__all__ = ["LEGEND", "answer_form", "answers_text"]

_HEADER: Final = ("target", "time", "from", "to", "fits", "bottleneck", "SM", "tensor", "DRAM")
_TEXTS: Final = frozenset({"target", "bottleneck", "fits"})
LEGEND: Final = (
    "time: that of the same work, over the time that it took; it lies between from and to in nine\n"
    "cases of ten. Then what would be measured there, idle time included."
)
_FITS: Final = {True: "yes", False: "no", None: "?"}
_DIGITS: Final = 6


def answer_form(answer: Answer) -> dict[str, Any]:
    """One target, by the names of the documentation."""
    projection = answer.projection
    if projection is None:
        return {"target": answer.target, "error": answer.error}
    ratio = projection.time_ratio
    return {
        "target": answer.target,
        "time_ratio": round(ratio.value, _DIGITS),
        "time_ratio_low": round(ratio.low, _DIGITS),
        "time_ratio_high": round(ratio.high, _DIGITS),
        "shares": {
            name: None if share is None else round(share, _DIGITS)
            for name, share in asdict(projection.shares).items()
        },
        "fits": projection.fits,
        "bottleneck": projection.bottleneck,
        "profile": None if answer.run is None else run_form(answer.run),
        "assumed": assumptions(answer),
    }


def answers_text(answers: Sequence[Answer]) -> str:
    """All targets of one question, a line each."""
    rows = [_HEADER, *(_row(answer) for answer in answers if answer.projection is not None)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if name in _TEXTS else cell.rjust(width)
            for cell, width, name in zip(row, widths, _HEADER, strict=True)
        ).rstrip()
        for row in rows
    ]
    errors = [f"{answer.target}: {answer.error}" for answer in answers if answer.error]
    return "\n".join([*lines, *errors, *(run_lines(answers[0]) if answers else ())])


def _row(answer: Answer) -> Sequence[str]:
    projection = answer.projection
    if projection is None:
        return ("",) * len(_HEADER)
    ratio, shares = projection.time_ratio, projection.shares
    return (
        answer.target,
        *(f"x{each:.2f}" for each in (ratio.value, ratio.low, ratio.high)),
        _FITS[projection.fits],
        projection.bottleneck,
        *(_percent(each) for each in (shares.sm_active, shares.tensor_active, shares.dram_active)),
    )


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.0%}"
