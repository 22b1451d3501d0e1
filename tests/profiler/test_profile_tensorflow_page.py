"""Pages of TensorFlow's profiler: steps with their input, and the verdict on it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rightsizer.model.errors import ProfileError
from rightsizer.model.finding import Action, FindingKind
from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

GPU = ("stepnum", "deviceComputeTimeMs", "kernelLaunchTimeMs", "infeedTimeMs", "otherTimeMs")
TPU = ("stepnum", "computeTimeMs", "inputTimeMs", "idleTimeMs")


def table(ids: tuple[str, ...], *rows: tuple[object, ...], **properties: str) -> dict[str, Any]:
    """Table in the format of Google Charts."""
    columns = [{"id": each, "label": each, "type": "number"} for each in (*ids, "tooltip")]
    cells = [{"c": [*({"v": each} for each in row), {"v": "step"}]} for row in rows]
    return {"cols": columns, "rows": cells, "p": properties}


def read(document: object, folder: Path, name: str = "overview_page.json") -> Profile:
    """Written and read, compressed for a name that says so."""
    data = json.dumps(document).encode()
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return open_profile(path, ReadLimits())


def test_highly_input_bound_steps_are_a_finding(tmp_path: Path) -> None:
    """It has TensorFlow's share, and the wait's cost in a step."""
    said = "(1) Your program is HIGHLY input-bound because 81.0% of the total step time sampled is"
    steps = table(GPU, *((f"{each}", 15.0, 2.0, 81.0, 2.0) for each in range(10)))
    advice = {"p": {"bottleneck": "host", "statement": f"{said} waiting for input."}}
    profile = read([{}, steps, advice], tmp_path)
    assert profile.format is ProfileFormat.TENSORFLOW_PAGE
    assert profile.notes[1] == (
        "TensorFlow says: HIGHLY input-bound, 81.0% of the step time waits for input."
    )
    first = profile.host_steps[0]
    assert (first.name, first.end - first.start) == ("0", 100_000_000)
    assert first.loader_seconds == pytest.approx(0.081)
    (workload,) = judged_workloads((profile,))
    finding = workload.findings[0]
    assert (finding.rule, finding.kind) == ("profile_host_bound", FindingKind.INEFFICIENT)
    assert finding.action is Action.FIX_INPUT_PIPELINE
    assert "waits for input 81.0% of the time, 81.0 ms of a step" in finding.summary
    assert finding.options[0].time_ratio_low == pytest.approx(0.19)
    assert finding.confidence > 0.9


def test_little_waiting_is_none(tmp_path: Path) -> None:
    """A TPU's page has other columns; the longest is not its total."""
    profile = read(table(TPU, *(("1", 95.0, 3.0, 2.0) for _ in range(8))), tmp_path, "page.json.gz")
    assert profile.host_steps[0].end == 100_000_000
    (workload,) = judged_workloads((profile,))
    verdicts = {finding.rule: finding.kind for finding in workload.findings}
    assert verdicts["profile_host_bound"] is FindingKind.OPTIMIZED


def test_the_length_of_a_step_counts_before_the_sum(tmp_path: Path) -> None:
    """Newer pages have both; a value that is no number is unknown."""
    ids = ("stepname", "deviceComputeTimeMs", "infeedTimeMs", "stepTimeMs")
    rows = ("train 7", 40.0, 60.0, 120.0), ("train 8", "n/a", True, None)
    (step,) = read(table(ids, *rows), tmp_path).host_steps
    assert (step.name, step.end, step.loader_seconds) == ("train 7", 120_000_000, 0.06)


@pytest.mark.parametrize(
    "document",
    [
        [table(("kernel_name", "occurrences", "total_duration_us"), ("gemm", 3, 4.0))],
        table(("stepnum", "heapSizes"), ("1", 4.0)),
        [table(GPU)],
        [{"cols": 3, "rows": {"c": 1}}],
        [{"cols": [1, None], "rows": [None, {"c": 4}]}],
    ],
)
def test_other_pages_are_refused_with_what_to_export(tmp_path: Path, document: object) -> None:
    """Covers kernels, memory, no steps, and other content."""
    with pytest.raises(ProfileError, match=r"without steps; export overview_page or input_pipel"):
        read(document, tmp_path)


def test_a_page_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """So is one that is too large."""
    path = tmp_path / "page.json"
    path.write_text(json.dumps(table(GPU, ("1", 1.0, 1.0, 1.0, 1.0)))[:-4])
    with pytest.raises(ProfileError, match="cut off; export it again"):
        open_profile(path, ReadLimits())
    path.write_text(json.dumps([table(GPU, ("1", 1.0, 1.0, 1.0, 1.0)), "x" * 2**20]))
    with pytest.raises(ProfileError, match=r"more than 1 MiB; name the \.xplane\.pb"):
        open_profile(path, ReadLimits(event_maximum_bytes=2**20))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("host.overview_page.pb", "export overview_page or input_pipeline_analyzer as JSON"),
        ("host.kernel_stats.pb", r"name the \.xplane\.pb of its run"),
        ("snapshot.pickle", "record with torch.profiler"),
        ("run.pftrace", "the SQLite export"),
    ],
)
def test_kinds_that_are_not_read_say_what_to_name(tmp_path: Path, name: str, remedy: str) -> None:
    """They are recognized by name, as their content has no format."""
    path = tmp_path / name
    path.write_bytes(b"\x80\x04\x12\x00binary")
    with pytest.raises(ProfileError, match=remedy):
        open_profile(path, ReadLimits())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\x80\x04\x95.}(segments", "a pickle"),
        ("<html><title>GPU Memory Timeline HTML</title>", "a view of PyTorch's memory"),
        ("[[1.7e15, 1.8e15], [[0, 1], [0, 2]]]", "a view of PyTorch's memory"),
        ('{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "an execution trace of PyTorch"),
        ("---  ---\n  Name    Self CPU %  Self CUDA\n", "the printed table"),
        ("\x18\x00\x1a\x0dbrain.Event:2", "an event file of TensorBoard"),
        ('[{"frame": {"name": "ROOT"}, "metrics": {}}]', "a profile of Triton's Proton"),
        ("==7== NVPROF is profiling process 7\n", "a profile of nvprof"),
        ('"Index","KernelName","gpu-id"\n', "a table of rocprof"),
        ('"Name","Calls","TotalDurationNs"\n', "a table of rocprof"),
        ('"GPU ID","Op Name","TC Eligible","Using TC"\n', "a table of DLProf"),
        ("timestamp, index, utilization.gpu [%]\n", "telemetry, not a profile"),
        ('{"$schema": "https://www.speedscope.app/file-format-schema.json"}', "the host alone"),
        ("main;train;forward 12\nmain;load 3\n", "the host alone"),
        ("all 40\nmain;train 12\n", "the host alone"),
        ("         92 function calls (90 primitive calls) in 0.004 seconds\n", "the host alone"),
        ("# captured on    : Fri Nov 27\n# cmdline : perf.data\n", "the host alone"),
        ("python 4711 [001] 12.345678:  1000 cycles:\n\tffffffff81 run\n", "the host alone"),
        ('{"root_frame": {"function": "main"}}', "the host alone"),
        ("<!DOCTYPE html>\n<html>", "a page made of a profile"),
        ('[{"name": "x", "ph": "X", "ts": 1}]', "of no profiler that is known"),
    ],
)
def test_other_files_are_named_with_what_to_export(tmp_path: Path, text: str, message: str) -> None:
    """The message shows their beginning, in one line."""
    path = tmp_path / "run"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ProfileError, match=rf"run: [^;]*{message}[^;]*; (?:record|name|run) .+"):
        open_profile(path, ReadLimits())
