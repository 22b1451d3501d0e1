"""`rightsizer replay` and `record`: files in, answers out, nothing half-written."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agent_process import run_rightsizer
from recordings import BOARD, SIGNALS_OF, write_recording, write_states
from rightsizer.cli.main import main
from rightsizer.model.state import State
from rightsizer.model.units import format_duration
from rightsizer.recordings.writer import RecordingWriter

pytestmark = pytest.mark.timeout(240)

Captured = pytest.CaptureFixture[str]
HOUR: Final = 3600
FILES: Final = {
    "empty.csv": b"",
    "binary.csv": bytes(range(256)) * 20,
    "timeless.csv": b"device,gpu_busy\nGPU-0,0.5\n",
    "timeless-smi.csv": b"index, utilization.gpu [%]\n0, 5 %\n",
    "prose.csv": b"Dear operator,\nthese are no readings.\n",
    "fine.csv": b"timestamp,device,gpu_busy\n1,GPU-0,0.5\n2,GPU-0,0.5\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder with the files."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["missing.csv"], 1, "missing.csv: no such file or directory; check the path"),
        (["."], 1, "is a folder; name the files"),
        (["empty.csv"], 1, "empty.csv: is empty; was anything recorded?"),
        (["binary.csv"], 1, "binary.csv: is a binary file; a recording is text"),
        (["timeless.csv"], 1, "timeless.csv:1: this is in no known format"),
        (["timeless-smi.csv"], 1, "timeless-smi.csv:1: there is no timestamp"),
        (["prose.csv"], 1, "prose.csv:1: "),
        (["fine.csv", "missing.csv"], 1, "missing.csv: no such file"),
        (["fine.csv", "--board", "H101"], 2, "board 'H101' is not in the catalogue; did you mean"),
        (["fine.csv", "--columns", "no.yaml"], 78, "no.yaml: there is no such file"),
        (["fine.csv", "--timeline", "no/out.csv"], 1, "timeline 'no/out.csv' cannot be written"),
        (
            ["fine.csv", "--timeline", "."],
            1,
            "timeline '.' cannot be written: Is a directory; name",
        ),
        (["fine.csv", "--into", "."], 1, "history '.' cannot be read: Is a directory; name"),
        (["fine.csv", "--timeline", "fine.csv"], 2, "is a file of the recording; name another"),
        (["fine.csv", "--into", "./fine.csv"], 2, "is a file of the recording; name another"),
        (
            ["fine.csv", "--into", "no/try.db"],
            1,
            "history 'no/try.db' cannot be written: there is no folder 'no'; make it, or name",
        ),
        (["fine.csv", "--into", "empty.csv"], 1, "is there and is no history; name another"),
    ],
)
def test_a_fault_names_the_thing_and_the_remedy(
    folder: Path, arguments: list[str], status: int, message: str, capsys: Captured
) -> None:
    """Existing files are unchanged, and no new ones appear."""
    outputs = {"--timeline": "out.csv", "--into": "history.db"}
    for flag, name in outputs.items():
        arguments = arguments if flag in arguments else [*arguments, flag, name]
    returned = main(["replay", *arguments])
    out, err = capsys.readouterr()

    assert (returned, out) == (status, "")
    assert message in err.splitlines()[-1]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == FILES


def test_a_recording_that_breaks_off_in_its_middle_leaves_nothing(folder: Path) -> None:
    """Neither half a timeline nor half a history."""
    whole = write_states(folder / "whole.csv", (State.PRODUCTIVE, 3000))
    (folder / "torn.csv").write_bytes(whole.read_bytes() + b"\0\0\0" * 5000)
    done = run_rightsizer(
        "replay", "torn.csv", "--timeline", "out.csv", "--into", "history.db", "--json"
    )
    left = {file.name for file in folder.iterdir()} - FILES.keys() - {"whole.csv", "torn.csv"}

    # A reader may skip an invalid line with a notice, but not stop halfway.
    assert left == (set() if done.returncode else {"out.csv", "history.db"})
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("rightsizer: ")


def test_people_are_told_where_the_time_went(folder: Path, capsys: Captured) -> None:
    """Device, length, tier, the longest states, and the findings."""
    log = write_states(folder / "log.csv", (State.COMPUTE_BOUND, 600), (State.HIDDEN_STALL, 1800))

    assert main(["replay", str(log), "--board", BOARD]) == 0
    text = capsys.readouterr().out
    assert "GPU-0" in text
    assert "40 min" in text
    assert "profiling tier" in text
    assert "Hidden stall 75.0%, Compute bound 25.0%" in text
    assert re.search(r"^No verdict: \d+ rules lack the data to judge", text, re.MULTILINE)
    assert re.search(r"^1 finding; 0 recommendations opened", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("state", "length_seconds", "longer"),
    [
        (State.IDLE_HELD, 99, "idle from 1 h 48 min on."),
        (State.IDLE_HELD, 2 * HOUR, ""),
        (State.PRODUCTIVE, 99, "overprovisioned, memory overprovisioned from 7 d on."),
    ],
)
def test_a_log_too_short_for_advice_says_what_it_takes(
    folder: Path, state: State, length_seconds: int, longer: str, capsys: Captured
) -> None:
    """By the opening policies of what was seen: no finding in a short log is no verdict."""
    log = write_states(folder / "log.csv", (state, length_seconds))
    assert main(["replay", str(log), "--board", BOARD]) == 0
    text = " ".join(capsys.readouterr().out.split())

    takes = f"The recording covers {format_duration(length_seconds)}, and advice takes longer: "
    assert (takes in text) is bool(longer)
    assert longer in text.partition(takes)[2]
    assert "activity" not in text


def test_a_long_log_without_readings_is_not_called_short(folder: Path, capsys: Captured) -> None:
    """Its length is not what is missing."""
    gap = (State.UNKNOWN, 3 * HOUR)
    log = write_states(folder / "log.csv", (State.IDLE_HELD, 30), gap, (State.IDLE_HELD, 30))
    assert main(["replay", str(log), "--board", BOARD]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "idle from 1 h 48 min on" not in text
    assert "from 7 d on" in text


def test_length_that_idleness_takes_opens_its_recommendation(
    folder: Path, capsys: Captured
) -> None:
    """As promised to whoever recorded less."""
    lengths = {int(1.8 * HOUR) + 60: 1, int(1.8 * HOUR) - 60: 0}
    for length_seconds, opened in lengths.items():
        log = write_states(folder / "log.csv", (State.IDLE_HELD, length_seconds))
        assert main(["replay", str(log), "--board", BOARD]) == 0
        text = capsys.readouterr().out
        assert f"{opened} recommendation" in text
        assert ("advice takes longer: idle" in " ".join(text.split())) is not bool(opened)


def test_rules_without_a_verdict_are_listed_as_advise_does(folder: Path, capsys: Captured) -> None:
    """By the same flag, with reasons, of a recording and of the history made of it."""
    log = write_states(folder / "log.csv", (State.IDLE_HELD, 99))
    listed = []
    into = ["replay", str(log), "--board", BOARD, "--into", "history.db"]
    for command in (into, ["advise", "--history.path", "history.db"]):
        assert main([*command, "-v"]) == 0
        text = capsys.readouterr().out
        assert "-v tells which" not in text
        listed.append(text.partition("No verdict:\n")[2].partition("\n\n")[0])
    assert "  overprovisioned: only 0 s of activity to size by (" in listed[0]
    assert listed[0] == listed[1]


@pytest.mark.parametrize("command", ["replay", "advise", "report"])
def test_limit_that_a_log_states_is_not_assumed(
    folder: Path, command: str, capsys: Captured
) -> None:
    """Neither by the replay nor by what reads the history made of it; one not stated is."""
    heading = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]"
    for column, is_assumed in (("power.limit [W]", False), ("temperature.gpu", True)):
        cells = "0, NVIDIA A100-SXM4-80GB, 0, 40210, 62, 65"
        rows = "".join(
            f"2026/01/01 00:{at // 60:02}:{at % 60:02}, {cells}\n" for at in range(0, HOUR, 10)
        )
        (folder / "log.csv").write_text(f"{heading}, {column}\n{rows}")
        history = f"{is_assumed}.db"
        assert main(["replay", "log.csv", "--into", history, "--json"]) == 0
        answer = capsys.readouterr().out
        if command != "replay":
            assert main([command, "--history.path", history, "--format", "json"]) == 0
            answer = capsys.readouterr().out
        subjects = [item["subject"] for item in json.loads(answer)["evidence"]]
        assert ("power_limit_watts of 1 GPU" in subjects) is is_assumed
        assert "sm_clock_maximum_hertz of 1 GPU" in subjects


def test_long_findings_are_indented_from_their_second_line_on(
    folder: Path, capsys: Captured
) -> None:
    """No part of a finding looks like the start of another."""
    log = write_states(folder / "log.csv", (State.COMPUTE_BOUND, 600), (State.HIDDEN_STALL, 1800))
    assert main(["replay", str(log), "--board", BOARD]) == 0
    _, _, after = capsys.readouterr().out.partition("GPU-0: busy without working")
    wrapped = after.splitlines()[1]
    assert re.fullmatch(r"  .*confidence >?\d+%\]", wrapped)


def test_missing_columns_are_named_with_their_effect(folder: Path, capsys: Captured) -> None:
    """A log without memory has no holders, one without board and limit no stalls."""
    rows = "".join(
        f"2026/01/01 {at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}, "
        f"{index}, {busy}, {watts}, 40000\n"
        for at in range(0, 4 * HOUR, 10)
        for index, busy, watts in ((0, 99, 300), (1, 0, 60))
    )
    heading = "timestamp, index, utilization.gpu [%], power.draw [W], "
    by_column = {}
    for column in ("memory.used [MiB]", "temperature.gpu"):
        (folder / "log.csv").write_text(heading + column + "\n" + rows)
        assert main(["replay", "log.csv", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        idle = next(found for found in document["findings"] if found["finding"] == "idle")
        by_column[column] = [device["caveats"] for device in document["devices"]], idle["summary"]
    stall = "power without its limit shows no stall: name the board with --board"
    caveats, summary = by_column["memory.used [MiB]"]
    assert caveats == [[stall], []]
    assert summary.startswith("GPU 1: held but idle")
    caveats, summary = by_column["temperature.gpu"]
    assert caveats == [
        [stall],
        ["held by what is not known: without memory and processes it may be empty"],
    ]
    assert "neither memory nor processes are read" in summary
    assert document["interval_seconds"] == 10
    (folder / "log.csv").write_text(
        heading.replace("power.draw [W]", "fan.speed [%]") + "x\n" + rows
    )
    assert main(["replay", "log.csv"]) == 0
    text = capsys.readouterr().out
    assert "  without power a GPU that spins looks like one that works\n" in text
    assert "\nOne reading every 10 s: shorter pauses and peaks are seen by chance.\n" in text


def test_scripts_are_reported_in_json(folder: Path, capsys: Captured) -> None:
    """One object, with the keys of the design."""
    log = write_states(folder / "log.csv", (State.IDLE_HELD, 4 * HOUR), interval_seconds=10)

    assert main(["replay", str(log), "--board", BOARD, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["devices"][0]["states"] == {"idle_held": 4 * HOUR}
    assert [advice["rule"] for advice in document["advice"]] == ["idle"]


def test_recommendation_of_the_last_hours_is_printed(folder: Path, capsys: Captured) -> None:
    """A GPU that was busy at first and is idle at the end is no finding over the whole span."""
    states = (State.PRODUCTIVE, 2 * HOUR), (State.IDLE_HELD, 4 * HOUR)
    log = write_states(folder / "log.csv", *states, interval_seconds=10)
    assert main(["replay", str(log), "--board", BOARD]) == 0
    text = capsys.readouterr().out
    assert "1 recommendation opened, 1 still open at the end" in text
    assert text.count("held but idle since") == 1


def test_one_answer_gives_timeline_and_history_too(folder: Path, capsys: Captured) -> None:
    """`advise` can read the history later."""
    log = write_states(folder / "log.csv", (State.IDLE_HELD, 4 * HOUR), interval_seconds=10)
    outputs = ["--timeline", "out.csv", "--into", "state/history.db"]
    (folder / "state").mkdir()
    assert main(["replay", str(log), "--board", BOARD, *outputs]) == 0
    capsys.readouterr()
    with (folder / "out.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert main(["advise", "--history.path", "state/history.db", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["advise", "--history.path", "state/history.db"]) == 0
    text = capsys.readouterr().out

    assert (line["state"], float(line["end"]) - float(line["start"])) == ("idle_held", 4 * HOUR)
    assert [advice["reasons"] for advice in document["advice"]] == [["IdleHeld"]]
    assert "1 recommendation is open." in text


def test_a_single_poll_is_told_to_have_no_length(folder: Path, capsys: Captured) -> None:
    """There is no division by zero."""
    one = write_recording(folder / "log.csv", [(0.0, "GPU-0", SIGNALS_OF[State.PRODUCTIVE])])

    assert main(["replay", str(one)]) == 0
    assert "a single reading has no length" in capsys.readouterr().out


def test_a_column_that_is_no_signal_is_left_out_with_a_warning(
    folder: Path, capsys: Captured
) -> None:
    """The answer is still given."""
    (folder / "log.csv").write_text("timestamp,device,gpu_busy,gpu_bsy\n1,a,0.5,1\n2,a,0.5,1\n")

    assert main(["replay", "log.csv"]) == 0
    warning = capsys.readouterr().err
    assert warning.startswith("rightsizer: warning: log.csv")
    assert "'gpu_bsy' is not a signal" in warning


def record(folder: Path, *flags: str) -> tuple[int, str]:
    """Record a simulated node in a process of its own."""
    flags = ("--simulated.scenario", "t4-pair", "--interval", "100ms", *flags)
    done = run_rightsizer("record", *flags)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["own.jsonl", "own.jsonl.gz"])
def test_recorded_file_can_be_replayed(folder: Path, name: str, capsys: Captured) -> None:
    """With devices, names and states."""
    status, said = record(folder, "--duration", "1s", name)
    assert status == 0
    assert f"{name}: " in said
    assert main(["replay", name, "--json"]) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]

    assert [device["name"] for device in devices] == ["Tesla T4", "Tesla T4"]
    assert all(device["seconds"] > 0.3 for device in devices)


def test_a_recording_that_is_there_is_not_overwritten(folder: Path) -> None:
    """An hour's recording would be lost."""
    status, said = record(folder, "--duration", "1s", "fine.csv")

    assert (status, (folder / "fine.csv").read_bytes()) == (1, FILES["fine.csv"])
    assert "fine.csv: is there already; name another file" in said


def test_a_place_that_cannot_be_written_is_reported(folder: Path) -> None:
    """With its remedy."""
    status, said = record(folder, "--duration", "1s", "no/own.jsonl")

    assert status == 1
    assert "no/own.jsonl: cannot be written: No such file or directory; name a file in" in said


def test_a_full_disk_ends_the_recording_with_what_it_has(folder: Path) -> None:
    """The error is immediate, and the part already written can be replayed."""
    shell = (
        f"ulimit -f 40; exec '{sys.executable}' -m rightsizer record own.jsonl "
        "--simulated.scenario eight-gpu-node --interval 100ms --duration 60s"
    )
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, cwd=folder, check=False, timeout=60
    )

    assert done.returncode == 1
    assert "own.jsonl: cannot be written" in done.stderr
    assert main(["replay", "own.jsonl"]) == 0


@pytest.mark.parametrize("name", ["own.jsonl", "own.jsonl.gz"])
def test_a_disk_without_any_room_is_left_without_a_file(folder: Path, name: str) -> None:
    """An empty recording is useless and blocks the next attempt."""
    shell = (
        f"ulimit -f 0; exec '{sys.executable}' -m rightsizer record {name} "
        "--simulated.scenario t4-pair --interval 100ms --duration 60s 2>&1 | cat"
    )
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    assert f"{name}: cannot be written: File too large" in done.stdout
    assert "Traceback" not in done.stdout
    assert {file.name for file in folder.iterdir()} == set(FILES)


@pytest.mark.parametrize("name", ["own.jsonl", "own.jsonl.gz"])
def test_a_recording_of_nothing_leaves_no_file(folder: Path, name: str) -> None:
    """If it was stopped before its first reading."""
    with RecordingWriter(Path(name)):
        assert (folder / name).exists()

    assert {file.name for file in folder.iterdir()} == set(FILES)
