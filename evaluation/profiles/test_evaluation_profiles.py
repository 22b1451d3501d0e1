"""Comparison of profilers' files with their raw events: it can agree and disagree."""

import gzip
import json
from pathlib import Path

from evaluation.options import Options
from evaluation.profiles.breakdowns import beside_raw, evaluate
from evaluation.profiles.findings import beside_gpu, beside_labels, beside_planted
from evaluation.profiles.raw_events import raw_totals
from profile_examples import loader_bound_trace
from profile_nsight import NsightExport, details_page
from profile_xplane import WORKED, space, viewer_trace


def test_a_folder_that_is_not_there_is_skipped(tmp_path: Path) -> None:
    """The message has the reason."""
    assert next(evaluate(Options(truth=tmp_path))).startswith("Skipped: RIGHTSIZER_TRUTH does not")


def test_reader_and_raw_events_agree(tmp_path: Path) -> None:
    """Covers each format that has totals of its own."""
    loader_bound_trace(tmp_path, "torch.json.gz")
    export = NsightExport()
    export.kernel(1_000, 3_000)
    export.graph(2_500, 6_000)
    export.write(tmp_path / "export.sqlite")
    (tmp_path / "space.xplane.pb").write_bytes(space(WORKED))
    (tmp_path / "viewer.trace.json.gz").write_bytes(viewer_trace(WORKED))
    section = "GPU Speed Of Light Throughput"
    (tmp_path / "ncu.csv").write_text(details_page([(section, "Duration", "ns", "2,000")]), "utf-8")

    output = "\n".join(beside_raw(tmp_path))
    assert " no " not in output.partition("rows agree")[0].partition("|---")[2]
    for name in ("torch.json.gz", "export.sqlite", "space.xplane.pb", "viewer.trace", "ncu.csv"):
        assert name in output


def test_planted_faults_are_found_and_no_others() -> None:
    """Loader, late rank, values read back, tiny kernels, host work; and healthy loops."""
    output = "\n".join(beside_planted())
    assert "Precision 1.00 (9 said), recall 1.00 (9 due); of 15 files 15 right" in output, output


def test_planted_faults_on_a_gpu_are_found_and_no_others() -> None:
    """Loader, copies, allocator, single precision, small kernels on an H100; and healthy loops."""
    output = "\n".join(beside_gpu())
    assert "Precision 1.00 (5 said), recall 1.00 (5 due); of 8 files 8 right" in output, output


def test_findings_are_compared_with_labels(tmp_path: Path) -> None:
    """One is found, one was not due, and one due finding is missed."""
    loader_bound_trace(tmp_path, "due.json.gz")
    loader_bound_trace(tmp_path, "healthy.json.gz")
    (tmp_path / "ncu.csv").write_text(details_page([("S", "Duration", "ns", "2,000")]), "utf-8")
    labels = tmp_path / "labels.yaml"
    labels.write_text(
        "- {file: due.json.gz, due: [profile_host_bound], why: its loader}\n"
        "- {file: healthy.json.gz, due: [], why: none}\n"
        "- {file: ncu.csv, due: [profile_kernel_inefficient], why: none}\n"
        "- {file: missing.json.gz, due: [], why: it is not there}\n",
        encoding="utf-8",
    )

    output = "\n".join(beside_labels(tmp_path, labels))
    assert "Precision 0.50 (2 said), recall 0.50 (2 due); of 3 files 1 right" in output


def test_the_raw_union_is_that_of_the_words(tmp_path: Path) -> None:
    """Both spellings of kernels count; copies and annotations do not."""
    path = tmp_path / "a.json.gz"
    events = [
        {"ph": "X", "cat": cat, "name": cat, "ts": ts, "dur": 2, "args": {"device": 0}}
        for cat, ts in (("kernel", 1), ("Kernel", 2), ("gpu_memcpy", 9), ("user_annotation", 20))
    ]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    raw = raw_totals(path)

    assert raw.events == 4
    assert [float(end) for _, end in raw.devices["0"]] == [3e-6, 4e-6]
