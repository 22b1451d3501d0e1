"""`rightsizer profile`: files in, answers out; errors have their place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from profile_examples import launch_bound_trace, loader_bound_trace
from profile_mlperf import summary
from profile_nsight import details_page
from profile_traces import SECRETS, KinetoTrace
from profile_xplane import WORKED, space
from rightsizer.cli.main import main

PLANTED: Final = Path(__file__).parents[2] / "evaluation" / "profiles" / "planted"
Captured = pytest.CaptureFixture[str]
GoldenFile = Callable[[str | Path, str], None]


def _answer(capsys: Captured, *arguments: object) -> Any:
    assert main(["profile", "--json", *map(str, arguments)]) == 0
    return json.loads(capsys.readouterr().out)["workloads"]


def _text(capsys: Captured, *arguments: object) -> str:
    assert main(["profile", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def _complaints(workload: Any) -> list[str]:
    return [each["reasons"][0] for each in workload["findings"] if each["finding"] == "inefficient"]


def test_the_text_is_as_it_was(tmp_path: Path, capsys: Captured, golden: GoldenFile) -> None:
    """The breakdown of time, the changes with their gains, before and after."""
    before = loader_bound_trace(tmp_path)
    after = launch_bound_trace(tmp_path)

    golden("profile.txt", _text(capsys, after, "--against", before))


def test_the_json_is_as_it_was(tmp_path: Path, capsys: Captured, golden: GoldenFile) -> None:
    """With the keys documented in docs/profiles.md; few moments keep it readable."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("profiles: {time: {timeline_moments: 10}}\n")
    (workload,) = _answer(capsys, loader_bound_trace(tmp_path), "--constants", settings)

    golden("profile.json", json.dumps(workload, indent=1) + "\n")


def test_findings_are_the_troubles_of_the_trace(tmp_path: Path, capsys: Captured) -> None:
    """A loader within the step is the host's fault; short kernels are due to launches."""
    loader, eager = _answer(capsys, loader_bound_trace(tmp_path), launch_bound_trace(tmp_path))

    assert _complaints(loader) == ["HostBound"]
    assert _complaints(eager) == ["LaunchBound"]
    assert loader["findings"][0]["action"] == "fix_input_pipeline"


def test_kernels_and_idle_time_sum_to_the_span(tmp_path: Path, capsys: Captured) -> None:
    """In total and in every step."""
    (workload,) = _answer(capsys, loader_bound_trace(tmp_path))
    (device,) = workload["profiles"][0]["devices"]

    for time in (device["time"], *(step["time"] for step in device["steps"])):
        summed = time["kernel_seconds"] + time["idle_seconds"]
        assert summed == pytest.approx(time["span_seconds"], abs=1e-12)


def test_ranks_are_one_workload_and_strangers_are_not(tmp_path: Path, capsys: Captured) -> None:
    """By rank and number of ranks; the same rank twice is another run."""
    ranks = [
        launch_bound_trace(
            tmp_path, f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": 2}
        )
        for rank in (0, 1)
    ]
    again = launch_bound_trace(tmp_path, "again.json", distributedInfo={"rank": 0, "world_size": 2})
    alone = launch_bound_trace(tmp_path, "alone.json")

    found = _answer(capsys, *ranks, again, alone)
    assert [each["workload"] for each in found] == [
        "rank0.json and 1 more",
        "again.json",
        "alone.json",
    ]


def test_every_kind_of_file_has_an_answer(tmp_path: Path, capsys: Captured) -> None:
    """One without a timeline is no idle GPU, and a benchmark's log is no GPU at all."""
    compute = tmp_path / "ncu.csv"
    section = "GPU Speed Of Light Throughput"
    compute.write_text(details_page([(section, "Duration", "ns", "2,000")]), "utf-8")
    log = tmp_path / "mlperf_log_summary.txt"
    log.write_text(summary(), "utf-8")
    plane = tmp_path / "host.xplane.pb"
    plane.write_bytes(space(WORKED))

    found = _answer(capsys, compute, log, plane)
    assert [each["profiles"][0]["format"] for each in found] == [
        "nsight-compute",
        "mlperf-inference",
        "xplane",
    ]
    assert all(_complaints(each) == [] for each in found)
    assert found[1]["profiles"][0]["benchmark"]["figures"]["samples_per_second"] == 3590.46
    text = _text(capsys, compute, log)
    assert "no timeline" in text
    assert "samples_per_second  3,590.46" in text


def test_secrets_of_a_trace_stay_in_it(tmp_path: Path, capsys: Captured) -> None:
    """Text, JSON and page contain nothing of its environment."""
    trace = launch_bound_trace(tmp_path, "t.json")
    page = tmp_path / "page.html"
    said = _text(capsys, trace, "--report", page) + json.dumps(_answer(capsys, trace))
    said += page.read_text("utf-8")

    assert [secret for secret in SECRETS.values() if secret in said] == []


def test_the_page_is_written_beside_the_answer(tmp_path: Path, capsys: Captured) -> None:
    """It is complete, at a path of its own."""
    trace = launch_bound_trace(tmp_path)
    page = tmp_path / "page.html"
    _text(capsys, trace, "--report", page)

    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert sorted(each.name for each in tmp_path.iterdir()) == [trace.name, page.name]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"hello", "of no known format: it begins with 'hello'"),
        (b"\x1f\x8b\x08broken", "packed data is broken"),
    ],
)
def test_a_file_that_is_no_profile_is_reported(
    content: bytes, message: str, tmp_path: Path, capsys: Captured
) -> None:
    """With its place; nothing is printed of the others."""
    file = tmp_path / "odd.json"
    file.write_bytes(content)

    assert main(["profile", str(launch_bound_trace(tmp_path)), str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"rightsizer: {file}" in err
    assert message in err


def test_broken_files_of_a_folder_are_named(tmp_path: Path, capsys: Captured) -> None:
    """In text, JSON and page; the others are answered, with exit status 0."""
    folder = tmp_path / "ranks"
    page = tmp_path / "page.html"
    folder.mkdir()
    launch_bound_trace(folder)
    (folder / "cut.xplane.pb").write_bytes(space(WORKED)[:-5])

    text = _text(capsys, folder, "--report", page)
    assert "Could not be read" in text
    assert "cut.xplane.pb: byte" in text
    assert "cut.xplane.pb: byte" in page.read_text("utf-8")
    assert main(["profile", "--json", str(folder)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["workloads"]) == 1
    assert [each["source"] for each in answer["broken"]] == ["cut.xplane.pb"]


def test_a_folder_of_broken_files_alone_exits_with_1(tmp_path: Path, capsys: Captured) -> None:
    """There is nothing to answer."""
    (tmp_path / "cut.xplane.pb").write_bytes(space(WORKED)[:-5])

    assert main(["profile", str(tmp_path)]) == 1
    assert "cut.xplane.pb: byte" in capsys.readouterr().err


def test_incomparable_profiles_are_refused(tmp_path: Path, capsys: Captured) -> None:
    """Exit status 2: as many earlier profiles as later ones, and a report is no profile."""
    trace = launch_bound_trace(tmp_path)
    other = launch_bound_trace(tmp_path, "other.json")

    assert main(["profile", str(trace), "--against", str(trace), str(other)]) == 2
    assert "--against: 2 workloads against 1" in capsys.readouterr().err
    before = trace.read_bytes()
    assert main(["profile", str(trace), "--report", str(trace)]) == 2
    assert "is a profile to read" in capsys.readouterr().err
    assert trace.read_bytes() == before
    assert main(["profile", str(tmp_path / "absent.json")]) == 1
    assert "absent.json" in capsys.readouterr().err


def test_a_terminal_is_shown_how_far_a_large_file_was_read(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In megabytes of the stored file; not for a small one, nor in a pipe."""
    trace = launch_bound_trace(tmp_path)
    large = tmp_path / "large.json"
    large.write_text(trace.read_text() + "\n" * 3_000_000)
    assert main(["profile", str(large)]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["profile", str(trace)]) == 0
    assert "MB" not in capsys.readouterr().err
    assert main(["profile", str(large)]) == 0
    shown = capsys.readouterr().err
    assert "large.json, MB [" in shown
    assert "/3" in shown
    assert shown.endswith("\r\x1b[K")


def test_steps_of_the_host_are_compared(capsys: Captured) -> None:
    """Traces of the CPU alone have no figure of a GPU."""
    loader, stepping = (
        str(PLANTED / f"torch_{name}.json.gz") for name in ("loader", "host_bound_step")
    )
    text = _text(capsys, loader, "--against", stepping)
    assert "A step takes 135% more time, 33.72 ms to 79.14 ms; loader of a step: 0 s to" in text
    assert "operators of a step        77        63   0.82" in text


def test_what_cannot_be_compared_is_said(tmp_path: Path, capsys: Captured) -> None:
    """A trace of the CPU alone has no time of a GPU."""
    trace = KinetoTrace()
    trace.launch(1, 100, 5)
    trace.kernel("sm90_gemm", 108, 90, correlation=1)
    before = str(trace.write(tmp_path, "gpu.json"))
    text = _text(capsys, str(PLANTED / "torch_loader.json.gz"), "--against", before)
    assert (
        "No times can be compared: gpu.json has a timeline of a GPU and torch_loader.json.gz has "
        "steps of the host alone; record steps of both in the same way."
    ) in " ".join(text.split())


def test_spans_of_the_host_are_of_a_rank(capsys: Captured) -> None:
    """The same name is in the files of both."""
    text = _text(capsys, str(PLANTED / "torch_late_rank"))
    assert "rank 0, gloo:all_reduce " in text
    assert "rank 1, gloo:all_reduce " in text


def test_files_of_all_ranks_are_not_asked_for_again(capsys: Captured) -> None:
    """Only of a part of them."""
    question = "with the files of all ranks"
    both = PLANTED / "torch_late_rank"
    assert question not in " ".join(_text(capsys, both).split())
    assert question in " ".join(_text(capsys, both / "rank0.json.gz").split())
