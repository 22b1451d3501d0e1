"""The evaluation of projections reports its checks, with and without the truth."""

from pathlib import Path

from evaluation.options import Options
from evaluation.sizing.mig import FILE
from evaluation.sizing.projection import evaluate

HEADER = "gpu_key,profile,instances,workload,ratio_per_slice,sm_share\n"


def test_there_and_back_needs_no_truth() -> None:
    """It reports that slices are omitted."""
    output = "\n".join(evaluate(Options(truth=None)))
    assert "there and back" in output
    assert "Slices skipped" in output


def test_slices_are_compared_with_what_was_measured(tmp_path: Path) -> None:
    """A slice as fast as predicted has no error, one half as fast a factor of two."""
    rows = "".join(
        f"A30,1g.6gb,1,MLPerf v1.1 {name} Offline,{ratio},0.25\n"
        for name, ratio in (("dlrm-99", 0.2625), ("rnnt", 0.13125), ("dlrm-99.9", 0.2625))
    )
    (tmp_path / FILE).write_text(HEADER + rows, encoding="utf-8")
    output = "\n".join(evaluate(Options(truth=tmp_path)))
    own = next(line for line in output.splitlines() if line.startswith("| own, alone "))
    assert [cell.strip() for cell in own.split("|")[2:6]] == [
        "3",
        "x1.000",
        "x2.000",
        "67% in the interval",
    ]
    assert "by a median of x1.050" in output
