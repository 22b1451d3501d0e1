"""`rightsizer plan --framework`, `--layout`, and engines of speech: names as people use them."""

import json
from typing import Any

import pytest

from plan_answers import requirement_of
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.model.errors import UsageError
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import ServingMemory

Captured = pytest.CaptureFixture[str]


def answer_of(capsys: Captured, *options: str) -> Any:
    """The JSON answer to a line."""
    assert main(["plan", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("word", "framework"),
    [
        ("peft", "peft"),
        ("HF", "transformers"),
        ("llamafactory", "llama-factory"),
        ("NeMo", "nemo"),
        ("nanotron", "nanotron"),
        ("MaxText", "maxtext"),
        ("llm-foundry", "fsdp"),
    ],
)
def test_framework_is_named_as_people_do(word: str, framework: str) -> None:
    """On the command line; the answer says which was taken."""
    asked = requirement_of(model="llama-3.1-8b", train="lora", framework=word)
    assert asked.training.framework == framework


def test_missing_framework_is_reported_where_frameworks_differ(capsys: Captured) -> None:
    """Of adapters and encoders, with what others would take."""
    line = ["--tokens", "1M", "--gpus", "h100-sxm5-80gb"]
    for model, train, is_told in (("8B", "lora", 1), ("8B", "full", 0), ("bert-base", "full", 1)):
        answer = answer_of(capsys, "--model", model, "--train", train, *line)
        told = [each for each in answer["notes"] if each.startswith("framework is not given")]
        assert len(told) == is_told
        assert answer["framework"] is None
        named = answer_of(capsys, "--model", model, "--train", train, "--framework", "peft", *line)
        assert not [each for each in named["notes"] if each.startswith("framework")]
        assert named["framework"] == "peft"


@pytest.mark.parametrize("model", ["resnet-50", "sdxl"])
def test_framework_that_changes_nothing_is_reported(model: str) -> None:
    """Kernels of convolutions are PyTorch's in all of them."""
    noted = {
        framework: plan_of_flags({"model": model, "train": "full", "framework": framework})
        for framework in ("unsloth", "peft")
    }
    for found in noted.values():
        assert any("framework is given but not used" in note for note in found.items[0].notes)
    asked = {"model": "8B", "train": "full", "framework": "unsloth"}
    assert not any("not used" in note for note in plan_of_flags(asked).items[0].notes)


def test_framework_given_twice_is_refused() -> None:
    """Beside that of the training settings, like tokens."""
    given = {"model": "8B", "train": "lora", "framework": "peft"}
    with pytest.raises(UsageError, match="framework: is given twice"):
        plan_of_flags({**given, "training": {"framework": "unsloth"}})


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ("tp4 pp2", Parallelism(4, 2)),
        ("TP=4,DP=2", Parallelism(4, 1, 2)),
        ("tp8 dp2 ep16", Parallelism(8, 1, 2, 2)),
        ("ep16", Parallelism(1, 1, 16, 16)),
        ("dp8 ep8", Parallelism(1, 1, 8, 8)),
        ("tp8 ep8", Parallelism(8)),
    ],
)
def test_layout_is_named_as_engines_do(words: str, layout: Parallelism) -> None:
    """`ep` counts the GPUs that hold one copy of the experts."""
    assert requirement_of(model="deepseek-v3", layout=words).parallel == layout


@pytest.mark.parametrize(
    ("gpu", "measured"),
    [("a100-sxm4-80gb", 15.99), ("v100s-pcie-32gb", 14.44), ("t4", 15.58), ("rtx3090", 11.1)],
)
def test_library_that_hears_one_sound_is_as_fast_as_measured(
    capsys: Captured, gpu: str, measured: float
) -> None:
    """Whisper large by faster-whisper, seconds of sound per second; nothing was fitted to them."""
    line = ("--model", "whisper-large-v3", "--concurrency", "1", "--gpus", gpu, "--precision")
    found = answer_of(capsys, *line, "fp16", "--engine", "faster-whisper")["candidates"][0]
    batching = answer_of(capsys, *line, "fp16")["candidates"][0]

    assert found["tokens_per_second_low"] < measured < found["tokens_per_second_high"]
    assert found["tokens_per_second"] == pytest.approx(measured, rel=0.35)
    assert found["count"] == 1
    narrow, wide = (
        each["tokens_per_second_high"] / each["tokens_per_second_low"] for each in (found, batching)
    )
    assert narrow < 0.7 * wide


def test_note_says_how_speech_is_served(capsys: Captured) -> None:
    """A batch at a time, or one sound after the other, which takes more GPUs for live streams."""
    line = ("--model", "whisper-large-v3", "--streams", "20", "--gpus", "h100-sxm5-80gb")
    batching = answer_of(capsys, *line)
    alone = answer_of(capsys, *line, "--engine", "whisper.cpp")

    assert any(note.startswith("served by an engine that batches") for note in batching["notes"])
    assert any("transcribes one file at a time" in note for note in alone["notes"])
    assert alone["engine"].startswith("whisper.cpp ")
    assert alone["candidates"][0]["count"] > 3 * batching["candidates"][0]["count"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model yolo --fps 30", "--fps; write --rps, of all cameras together"),
        ("--model yolo --streams 200", "--streams: YOLO11m works in images; give --rps, of all"),
        ("--model 7B --engine whisper.cpp", "--engine: whisper.cpp serves speech alone; take vllm"),
        ("--model 7B --layout tp4,xx2", "--layout: 'tp4,xx2' is not known; write it like tp4 pp2"),
        ("--model 7B --layout tp8ep12", "--layout: ep12 is no multiple of tp8; take one"),
        ("--model 7B --layout tp0", "--layout: 'tp0' is not known; write it like tp4 pp2"),
        ("--model 7B --layout tp2,tp4", "--layout: 'tp2,tp4' gives one of them twice"),
        ("--model 7B --layout tp5", "--layout: 32 heads do not divide by 5; take a divisor"),
        ("--model 7B --layout tp4 --tp 4", "--tp: the whole layout is given; leave one of them"),
        (
            "--model 7B --train lora --framework jax",
            "--framework: must be one of transformers, peft",
        ),
    ],
)
def test_word_of_users_is_answered_by_its_flag(
    options: str, message: str, capsys: Captured
) -> None:
    """With the flag that takes it, or what it may be."""
    assert main(["plan", *options.split()]) != 0

    assert message in capsys.readouterr().err


def test_streams_of_speech_take_as_long_as_their_bytes() -> None:
    """Each of 256 windows has 1,500 frames in the caches of 32 layers, read in every step.

    The host launches kernels while these are read, and encodes new windows beside.
    """
    (item,) = plan_of_flags({"model": "whisper-large-v3", "concurrency": "256"}).items
    assert item.requirement is not None
    board = built_in().get("A100-SXM4-80GB")
    server = Server(ServingMemory(item.requirement, Parallelism()), board)
    step = server.forward.decode(256.0, 1500.0)

    cached = 256 * 1504 * 32 * 2 * 1280 * 2.0
    weights = 0.9e9 * 2.0
    read = (cached + weights) / (0.74 * board.memory_bandwidth_bytes_per_second)
    assert step.bandwidth == pytest.approx(read, rel=0.05)
    assert step.seconds < 1.25 * read


def test_a_lone_stream_waits_for_the_host() -> None:
    """60 to 70 tokens a second in vLLM on an RTX A5000 (its issue 24946)."""
    (item,) = plan_of_flags({"model": "whisper-large-v3", "concurrency": "1"}).items
    assert item.requirement is not None
    board = built_in().get("RTX-A5000")
    server = Server(ServingMemory(item.requirement, Parallelism()), board)

    assert 1e3 / 70 < server.at(1).tpot_ms.value < 1e3 / 55
