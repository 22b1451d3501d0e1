"""`rightsizer plan` on a terminal: one screen for a decision, in color."""

import json
import os
import pty
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
LINE = [
    "plan",
    "--model",
    "llama-3.1-70b",
    "--rps",
    "20",
    "--in",
    "2000",
    "--out",
    "500",
    "--ttft",
    "1s",
    "--tpot",
    "50ms",
]


def summary(capsys: Captured, *arguments: str) -> list[str]:
    """The lines of an answer; the exit status is 0 if something fits every question."""
    status = main([*arguments])
    lines = capsys.readouterr().out.splitlines()
    assert status == any(line.startswith(("Nothing fits", "error: ")) for line in lines)
    return lines


def test_an_answer_is_a_screenful(capsys: Captured) -> None:
    """24 lines: the choice, why the others lost, and which measurement would confirm it."""
    lines = summary(capsys, *LINE)

    assert len(lines) <= 24
    chosen = next(line for line in lines if line.startswith("Take "))
    assert re.match(
        r"Take \d+ x B200 as \d+ replicas of \d: \$\d+\.\d\d .* an hour at list", chosen
    )
    (head,) = (place for place, line in enumerate(lines) if line.endswith("why not first"))
    table = lines[head + 1 : head + 6]
    assert [line.split()[0] for line in table] == ["1", "2", "3", "4", "5"]
    assert " cost" not in table[0]
    costs = [int(found[1]) for found in map(re.compile(r"\+(\d+)% cost").search, table) if found]
    assert len(costs) == 4
    assert costs == sorted(costs), "the cost that is shown is not the rank's"
    assert any(line.startswith("rejected, ") for line in lines)
    assert any(line.startswith("to verify, keep ") for line in lines)
    assert any("TTFT, TPOT: ms to the first token" in line for line in lines)
    assert lines[-1].startswith("--details: ")


def test_formats_of_what_is_not_shown_are_left_to_the_details(capsys: Captured) -> None:
    """A note on the fifteenth GPU distracts."""
    note = "fp16 in place of bf16"
    assert note not in "\n".join(summary(capsys, *LINE))
    assert note in "\n".join(summary(capsys, *LINE, "--details"))


def test_details_are_there_for_the_asking(capsys: Captured) -> None:
    """Memory, costs on all terms and alternatives, in many more lines."""
    brief = summary(capsys, *LINE)
    long = "\n".join(summary(capsys, *LINE, "--details"))

    for part in ("KV cache", "reserved, 1 year", "what else could be done:"):
        assert part in long
        assert part not in "\n".join(brief)


def test_every_candidate_says_why_it_is_not_first(capsys: Captured) -> None:
    """By its cost, or because its price is unknown; never an empty cell."""
    arguments = ["plan", "--model", "llama-3.1-8b", "--rps", "5", "--gpus", "a10,l4,l40s,h100,a100"]
    lines = summary(capsys, *arguments)
    head = next(place for place, line in enumerate(lines) if line.endswith("why not first"))
    at = lines[head].index("why not first")
    rows = [line for line in lines[head + 2 :] if re.match(r"\d+ +\d+ x ", line)]

    assert len(rows) >= 3
    assert all(row[at:].strip() for row in rows)


def test_candidate_without_price_is_slower_or_takes_more_gpus(capsys: Captured) -> None:
    """Without prices GPUs rank by their number, then by speed."""
    asked = ["plan", "--model", "qwen3-32b", "--concurrency", "16", "--gpus", "h800,a800,h20"]
    lines = summary(capsys, *asked, "--tp", "2")
    shown = [line.split()[-1] for line in lines if re.match(r"\d  2 x ", line)]

    assert shown[1:] == ["slower", "slower"]


def test_memory_range_above_the_card_is_said_and_ranks_lower(
    tmp_path: Path, capsys: Captured
) -> None:
    """What may not fit is told as such, with its probability."""
    file = tmp_path / "plan.yaml"
    file.write_text("model: resnet-50\ntask: training\ntraining: {micro_batch: 305}\n")
    with file.open("a") as more:
        more.write("gpus: [L4]\n")
    text = " ".join(" ".join(summary(capsys, "plan", str(file))).split())
    nearest = re.search(r"Nothing fits at 90% certainty .* the nearest, 1 x L4, at (\d\d)%\.", text)
    assert nearest
    with file.open("a") as more:
        more.write("sure: 0.5\n")
    text = " ".join(" ".join(summary(capsys, "plan", str(file))).split())
    sure = re.search(r"(\d\d)% sure to fit the memory\.", text)
    assert sure
    assert re.search(r"expect [\d.]+ to [\d.]+ GiB a GPU, of which [\d.]+ are there", text)
    details = " ".join(" ".join(summary(capsys, "plan", str(file), "--details")).split())
    assert f"free, fits with {sure[1]}%" in details
    (found,) = json.loads("".join(summary(capsys, "plan", str(file), "--json")))["candidates"]
    assert f"{100 * found['memory_probability']:.0f}" == sure[1]
    assert nearest[1] == sure[1]
    assert found["is_sure"]
    assert found["certainty"] == found["memory_probability"]
    assert found["memory_is_tight"]


@pytest.mark.parametrize("gpu", ["B200", "H200-SXM-141GB", "RTX-6000-Ada"])
def test_memory_to_verify_is_no_more_than_the_engine_fills(
    gpu: str, tmp_path: Path, capsys: Captured
) -> None:
    """Sentence, interval and probability agree where requests fill the memory."""
    file = tmp_path / "plan.yaml"
    file.write_text(f"model: {{parameters: 8e9}}\ngpus: [{gpu}]\n")
    text = " ".join(" ".join(summary(capsys, "plan", str(file))).split())
    (found,) = json.loads("".join(summary(capsys, "plan", str(file), "--json")))["candidates"]
    expected = re.search(
        r"expect ([\d.]+) to ([\d.]+) of ([\d.]+) GiB a GPU for weights and requests "
        r"\(nvidia-smi shows ([\d.]+), all that the engine reserves\)",
        text,
    )
    assert expected
    low, high, usable, reserved = map(float, expected.groups())

    assert low < high <= reserved < usable
    assert high == round(found["memory"]["total_bytes_high"] / 2**30, 1)
    assert found["memory_probability"] > 0.999
    assert not found["memory_is_tight"]


def test_plan_without_a_fit_shows_the_nearest_and_its_remedy(capsys: Captured) -> None:
    """There is no table, and no confirming measurement."""
    lines = summary(capsys, "plan", "--model", "llama-3.1-405b", "--train", "full", "--gpus", "l4")

    assert any(line.startswith("Nothing fits, because ") for line in lines)
    assert any("What would" in line for line in lines)
    assert not any(line.startswith("to verify") for line in lines)


def _on_a_terminal(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, columns: int = 100
) -> str:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", str(columns))
        patch.delenv("NO_COLOR", raising=False)
        assert main(arguments) == 0
    shown = b""
    with suppress(OSError):  # The other end is closed: all of it was read.
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "line",
    [
        "--model llama-3.1-70b --rps 20 --in 2000 --out 500 --ttft 1s --tpot 50ms",
        "--model whisper-large-v3 --streams 200 --provider any",
        "--model 7B --train full --tokens 1e9",
        "--model llama-3.1-8b --rps 5 --gpus h100,l4 --details",
    ],
)
def test_plan_fits_a_narrow_terminal(
    line: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables leave out columns, then wrap those that are left."""
    shown = _on_a_terminal(["plan", *line.split()], monkeypatch, columns)
    lines = [text.rstrip("\r") for text in re.sub(r"\x1b\[[\d;]*m", "", shown).split("\n")]

    assert len(lines) > 10
    assert [text for text in lines if len(text) > columns] == []


def test_the_first_is_colored_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The same lines through a pipe have no escape sequences."""
    line = ["plan", "--model", "llama-3.1-8b", "--rps", "5", "--gpus", "l4"]
    shown = _on_a_terminal(line, monkeypatch)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)

    assert "\x1b[1;32m" in shown
    assert plain.replace("\r", "") == "\n".join([*summary(capsys, *line), ""])


def test_each_requirement_of_a_list_has_its_summary(tmp_path: Path, capsys: Captured) -> None:
    """An invalid one is reported in its place."""
    file = tmp_path / "plan.yaml"
    file.write_text("- model: {parameters: 8e9}\n- model: {parameters: -1}\n", encoding="utf-8")
    lines = summary(capsys, "plan", str(file))

    assert any(line.startswith("to verify") for line in lines)
    assert any(line.startswith("error: ") for line in lines)


def test_replicas_that_share_experts_are_no_replicas_of_one_gpu(capsys: Captured) -> None:
    """671 billion parameters are on eight GPUs together; a larger load takes more groups."""
    asked = ("plan", "--model", "deepseek-v3", "--gpus", "b200", "--in", "4000", "--out", "1000")

    few, many = (summary(capsys, *asked, "--rps", rps) for rps in ("5", "50"))

    assert any(line.startswith("Take 8 x B200 that share the experts: $") for line in few)
    taken = next(line for line in many if line.startswith("Take "))
    assert re.match(r"Take \d+ x B200 as \d+ groups of 8 that share the experts: \$", taken)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "--model llama-3.1-8b --concurrency 1 --in 1M --gpus b200",
            "asked for: 1,000,000 tokens in and 256 out, 1 request in flight",
        ),
        (
            "--model llama-3.1-8b --rps 100k --gpus h100-pcie-80gb",
            "more than the 512 of sizing.plan.gpu_maximum",
        ),
        ("--model yolo11x --rps 3 --latency 500ms --gpus l4", ">99% sure to keep all latencies"),
    ],
)
def test_numbers_read_as_people_write_them(arguments: str, expected: str, capsys: Captured) -> None:
    """No powers of ten, no false certainty, and the limit of a search."""
    assert expected in " ".join(" ".join(summary(capsys, "plan", *arguments.split())).split())


def test_what_holds_less_surely_than_asked_is_not_taken(capsys: Captured) -> None:
    """It is named as the nearest, beside the cheapest that holds above the budget."""
    asked = ("plan", "--model", "flux.1-dev", "--rps", "1", "--budget")
    text = " ".join(" ".join(summary(capsys, *asked, "$20/h")).split())
    assert "Nothing fits $20.00 an hour at 90% certainty (--sure); the nearest, 3 x B200" in text
    assert "What would: 4 x B200 (data 4), $22.00" in text
    assert "% to make the rate" in text
    assert "the nearest, of which none holds at 90% certainty (--sure)" in text
    assert "Take" not in text

    assert main([*asked, "5", "--json"]) == 1
    least = json.loads(capsys.readouterr().out)["least"]
    assert (least["count"], least["gpu"], least["is_sure"]) == (4, "B200", True)
    assert main([*asked, "22"]) == 0


def test_costs_are_named_by_what_ranks(capsys: Captured) -> None:
    """Without a rate, busy GPUs rank by the cost of a token, not of an hour."""
    options = ("plan", "--model", "qwen3-32b", "--gpus", "b200,a100")
    busy = summary(capsys, *options, "--users", "100")
    assert any(line.endswith("% a token") for line in busy)
    assert not any(line.endswith("% cost") for line in busy)
    assert any(line.endswith("% cost") for line in summary(capsys, *options, "--rps", "5"))
