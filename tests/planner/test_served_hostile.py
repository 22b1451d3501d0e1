"""`rightsizer served` on loads, flags and files that are wrong: named, with their remedy."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.io.codec import encode
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.answer_blocks import served_blocks
from rightsizer.planner.served.answers import predicted_loads, served_answers
from rightsizer.planner.served.causes import causes_of
from rightsizer.report.block_text import text_of
from rightsizer.sizing.site import SiteAdjustment, SiteResiduals

Captured = pytest.CaptureFixture[str]
PLANNER: Final = Planner(built_in(), built_in_prices())
CHAT: Final = ServedLoad(
    model="meta-llama/Llama-3.1-8B-Instruct",
    engine="vllm",
    window_seconds=7 * 86400.0,
    requests_per_second=3.0,
    devices=("GPU-1",),
    board="NVIDIA H100 80GB HBM3",
    workload="chat-api",
    prompt_tokens=800.0,
    output_tokens=200.0,
    requests_running=4.5,
    time_per_output_token=ServedLatency(0.0075),
)


def written(folder: Path, loads: Any) -> Path:
    """A file of loads."""
    file = folder / "loads.json"
    file.write_bytes(encode(loads))
    return file


def refused(capsys: Captured, status: int, *arguments: str) -> str:
    """The error of a command that fails."""
    assert main(["served", *arguments]) == status
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("requests_per_second", "NaN"),
        ("requests_per_second", "1e400"),
        ("requests_per_second", "-3"),
        ("requests_per_second", "1e300"),
        ("window_seconds", "-5"),
        ("engines", "1000000000"),
        ("engines", "-2"),
        ("prefix_hit_ratio", "1.5"),
        ("requests_per_second_by_hour", "[1, null, -5]"),
        ("requests_per_second_by_hour", "[1, 2]"),
        ("time_per_output_token", '{"mean_seconds": -0.1}'),
    ],
)
def test_figure_that_cannot_be_is_refused(
    key: str, value: str, tmp_path: Path, capsys: Captured
) -> None:
    """With the file, the place and a remedy."""
    fields = {"model": '"llama-3.1-8b"', "engine": '"vllm"', "window_seconds": "100", key: value}
    content = ", ".join(f'"{name}": {text}' for name, text in fields.items())
    file = tmp_path / "loads.json"
    file.write_text(f"[{{{content}}}]", encoding="utf-8")
    error = refused(capsys, 1, str(file), "--gpu", "L40S")
    assert "loads.json: " in error
    assert "give the answer of GET /api/v1/serving" in error
    if value not in {"NaN", "1e400"}:
        assert key in error


def test_load_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, capsys: Captured
) -> None:
    """It is named with its place, what is wrong, and a remedy; the others are answered."""
    file = written(tmp_path, [CHAT, replace(CHAT, workload="broken")])
    loads = json.loads(file.read_text(encoding="utf-8"))
    loads[1]["engines"] = "two"
    file.write_text(json.dumps([*loads, 7]), encoding="utf-8")
    assert main(["served", str(file), "--json", "--boards", "H100-SXM5-80GB"]) == 1
    good, broken, number = json.loads(capsys.readouterr().out)
    assert (good["name"], "error" in good) == ("chat-api", False)
    assert broken["name"] == "broken"
    assert broken["error"].startswith(f"{file}: load 2: ")
    assert "$.engines" in broken["error"]
    assert broken["error"].endswith("; correct it, or leave it out")
    assert number["name"] == f"{file}: load 3"


def test_engine_of_no_time_does_not_stop_the_others(tmp_path: Path, capsys: Captured) -> None:
    """Its answer says why."""
    none = replace(CHAT, workload="none", time_per_output_token=ServedLatency(0.0))
    unknown = replace(CHAT, workload="unknown", board="")
    file = written(tmp_path, [none, unknown, CHAT])
    assert main(["served", str(file), "--json", "--boards", "H100-SXM5-80GB"]) == 1
    answers = json.loads(capsys.readouterr().out)
    assert {answer["name"]: "error" in answer for answer in answers} == {
        "none": False,
        "unknown": True,
        "chat-api": False,
    }


def test_engine_without_an_answer_is_named_beside_the_others() -> None:
    """With the reason, once."""
    loads = predicted_loads([replace(CHAT, workload="unknown", board=""), CHAT], PLANNER)
    answers = served_answers(loads, PLANNER, ("H100-SXM5-80GB",))
    text = " ".join(text_of(served_blocks(answers)).split())
    assert "error: unknown: runs on an unknown GPU; name the board with --gpu" in text


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--precision", "xx"), "--precision: 'xx' is no format; it is one of fp32"),
        (("--ttft", "soon"), "--ttft: "),
        (("--tpot", "soon"), "--tpot: "),
        (("--gpu", "h100"), "--gpu: board 'h100' may be"),
        (("--window", "1h"), "--window: "),
    ],
)
def test_wrong_flag_is_refused_once(
    flags: tuple[str, str], error: str, tmp_path: Path, capsys: Captured
) -> None:
    """By its name, whatever the number of engines."""
    file = written(tmp_path, [CHAT, replace(CHAT, workload="other")])
    told = refused(capsys, 2, str(file), *flags)
    assert told.count(error) == 1


def test_window_of_an_agent_is_refused(capsys: Captured) -> None:
    """Before it is asked."""
    assert "--window: " in refused(capsys, 2, "--url", "http://127.0.0.1:1", "--window", "1h")


def test_load_that_is_given_twice_is_one_engine(tmp_path: Path, capsys: Captured) -> None:
    """And is paid once."""
    file = str(written(tmp_path, [CHAT]))
    assert main(["served", file, file, "--json", "--boards", "H100-SXM5-80GB"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


@pytest.mark.parametrize(
    ("key", "value"), [("log_ratio", 1e308), ("log_deviation", 1e-9), ("count", -1)]
)
def test_damaged_learned_figure_is_refused(
    key: str,
    value: float,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the way to start again."""
    residuals = predicted_loads([CHAT], PLANNER).residuals
    document = json.loads(encode({"version": 1, "residuals": residuals}))
    document["residuals"][0][key] = value
    learned = tmp_path / "learned.json"
    learned.write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    error = refused(capsys, 1, str(written(tmp_path, [CHAT])))
    assert key in error
    assert "start again with 'rightsizer served --forget'" in error


def test_measurement_that_is_learned_twice_counts_once() -> None:
    """Of one engine, and of two that have one subject."""
    slower = replace(CHAT, devices=("GPU-2",), time_per_output_token=ServedLatency(0.0078))
    both = predicted_loads([CHAT, slower], PLANNER).residuals
    once = SiteResiduals().with_(both)
    assert [residual.count for residual in once.residuals] == [2]
    assert once.with_(both) == once


def test_adjustment_that_changes_nothing_is_not_told() -> None:
    """To the digits that are shown."""
    assert not SiteAdjustment(1.004, 0.997, 1.0, 5).is_felt
    assert SiteAdjustment(1.0, 1.0, 1.02, 5).is_felt
    answers = served_answers(predicted_loads([CHAT], PLANNER), PLANNER, ("H100-SXM5-80GB",))
    assert "TPOT x1.00, TTFT x1.00" not in text_of(served_blocks(answers))


@pytest.mark.parametrize("seconds", [0.002, 0.05])
def test_causes_do_not_contradict_what_is_exported(seconds: float) -> None:
    """Format and layout are told."""
    told = replace(
        CHAT,
        weight_format="fp8",
        tensor=1,
        engines=2,
        devices=("GPU-1", "GPU-2"),
        prefix_hit_ratio=0.0,
        time_per_output_token=ServedLatency(seconds),
    )
    (prediction,) = predicted_loads([told], PLANNER).predictions
    causes = causes_of(prediction, PLANNER)
    assert causes
    assert not [cause for cause in causes if "weights" in cause or "parallel" in cause]
    assert not [cause for cause in causes if "prefix cache" in cause]
