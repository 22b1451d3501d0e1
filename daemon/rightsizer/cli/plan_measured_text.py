"""A prediction beside what was measured, for people."""

from collections.abc import Sequence
from typing import Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.plan_figures import NOTHING, interval_text
from rightsizer.runtime.plan_measured import Comparison, Measured

__all__ = ["measured_text"]

_GIB: Final = 2.0**30
_HEADER: Final = ("figure", "measured", "predicted", "90 % within", "verdict")


def measured_text(measured: Measured) -> str:
    """A line for each figure."""
    candidate = measured.candidate
    rows = [_row(each) for each in measured.comparisons]
    lines = aligned(_HEADER, rows, left=_HEADER)
    return "\n".join([f"measured on {candidate.count} x {candidate.gpu}:", *lines])


def _row(comparison: Comparison) -> Sequence[str]:
    scale = _GIB if comparison.unit == "bytes" else 1.0
    unit = "GiB" if comparison.unit == "bytes" else comparison.unit
    predicted = comparison.predicted
    verdict = {True: "as predicted", False: "off", None: ""}[comparison.is_as_predicted]
    if comparison.is_as_predicted is False:
        verdict = f"off by x{comparison.ratio:.2f}"
    return (
        comparison.what.replace("_bytes", "").replace("_", " "),
        f"{comparison.measured / scale:.4g} {unit}",
        NOTHING if predicted is None else f"{predicted.value / scale:.4g} {unit}",
        NOTHING if predicted is None else interval_text(predicted.scaled(1.0 / scale)),
        "; ".join(filter(None, (verdict, comparison.remark))),
    )
