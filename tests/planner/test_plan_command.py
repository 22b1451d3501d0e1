"""`rightsizer plan`: files in, plans out; errors have their place."""

import json
import math
import os
from pathlib import Path
from typing import Final

import pytest

from plan_answers import SHAPE, answer, refusal
from published_models import PUBLISHED
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
PROMISED: Final = (
    "gpu count layout fits reasons memory memory_headroom_ratio concurrency tokens_per_second"
    " tokens_per_second_low tokens_per_second_high ttft_ms tpot_ms cost_per_hour"
    " cost_per_million_tokens training_hours rank"
)
PARTS: Final = (
    "weights_bytes kv_cache_bytes activations_bytes gradients_bytes optimizer_bytes overhead_bytes"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the requirements."""
    return tmp_path / "plan.yaml"


def test_a_plan_has_what_is_promised(file: Path, capsys: Captured) -> None:
    """Memory adds up, intervals contain their value, and the top has the memory of rank 1."""
    plan = answer(file, json.dumps({"model": SHAPE, "gpus": ["L4", "H100-SXM5-80GB"]}), capsys)
    first = plan["candidates"][0]

    assert set(PROMISED.split()) <= set(first)
    assert first["rank"] == 1
    assert plan["memory"] == first["memory"]
    total = sum(first["memory"][part] for part in PARTS.split())
    assert first["memory"]["total_bytes"] == pytest.approx(total)
    assert first["tokens_per_second_low"] <= first["tokens_per_second"]
    assert first["tokens_per_second"] <= first["tokens_per_second_high"]
    hourly = first["cost_per_hour"]
    made = first["tokens_per_second"]
    assert first["cost_per_million_tokens"] == pytest.approx(hourly / (made * 3600) * 1e6)
    assert plan["validation"][-1]["concurrency"] > first["concurrency"]


def test_words_beside_a_name_in_a_file_are_for_keys(file: Path, capsys: Captured) -> None:
    """A file has no flags."""
    error = refusal(file, "model: llama-3.1-8b h100\n", capsys)

    assert error.startswith("FILE:1:1: model: 'h100' is no part of the name")
    assert "each by its key: gpus: H100, rps: 5" in error
    assert "--" not in error


def test_plan_that_does_not_fit_is_predicted_with_its_reason(file: Path, capsys: Captured) -> None:
    """With its reason; the command succeeds."""
    asked = {
        "model": {**SHAPE, "parameters": 70e9, "layers": 80, "hidden": 8192, "heads": 64},
        "gpus": ["T4"],
        "parallel": {"tensor": 1},
        "load": {"concurrency": 4},
    }
    del asked["model"]["ffn"]  # type: ignore[attr-defined]
    plan = answer(file, json.dumps(asked), capsys)
    only = plan["candidates"][0]

    assert (only["fits"], only["rank"], only["concurrency"]) == (False, None, 4)
    assert only["tokens_per_second"] > 0
    assert only["memory_headroom_ratio"] < 0
    assert only["reasons"][0].startswith("memory: needs")
    assert plan["nothing_fits"].startswith("nothing fits, because memory is too small")
    assert plan["least"]["fits"]
    assert plan["memory"] == only["memory"]


def test_a_list_is_answered_in_its_order_and_goes_on_after_a_fault(
    file: Path, capsys: Captured
) -> None:
    """The error stands in the place of its answer."""
    asked = [
        {"model": {**SHAPE, "name": "one"}, "gpus": ["L4"]},
        {"model": {**SHAPE, "layers": 0}},
        {"model": SHAPE, "gpus": ["H999"]},
        {"model": SHAPE, "parallel": {"tensor": 3}},
        17,
        {"model": {**SHAPE, "name": "last"}, "gpus": ["L4"]},
    ]
    plans = answer(file, json.dumps(asked), capsys)

    assert [plan.get("model") for plan in plans] == ["one", None, None, None, None, "last"]
    assert all(list(plan) == ["error"] for plan in plans[1:5])
    errors = [plan["error"] for plan in plans[1:5]]
    for fault, message in zip(
        errors,
        (
            "model.layers: 0 is not above 0",
            "gpus: board 'H999' is not in the catalogue",
            "parallel.tensor: 32 heads do not divide by 3",
            "must be a mapping (got 17)",
        ),
        strict=True,
    ):
        assert message in fault


def test_experts_are_spread_where_there_are_some(file: Path, capsys: Captured) -> None:
    """Over replicas that serve, by a divisor of both numbers; the layout is kept."""
    mixture = {**SHAPE, "parameters": 32e9, "experts": 8, "experts_per_token": 2}
    layout = {"data": 4, "expert": 4}
    asked = [
        {"model": mixture, "gpus": ["H100-SXM5-80GB"], "parallel": layout},
        {"model": mixture, "gpus": ["H100-SXM5-80GB"], "parallel": {"data": 4}},
        {"model": SHAPE, "parallel": layout},
        {"model": mixture, "parallel": {"data": 6, "expert": 4}},
        {"model": mixture, "parallel": {"data": 16, "expert": 16}},
        {"model": mixture, "parallel": layout, "task": "finetune-lora"},
    ]
    shared, copies, *faults = answer(file, json.dumps(asked), capsys)
    first, second = (plan["candidates"][0] for plan in (shared, copies))

    assert first["layout"] == {"tensor": 1, "pipeline": 1, **layout}
    assert first["memory"]["weights_bytes"] < 0.6 * second["memory"]["weights_bytes"]
    for plan, message in zip(
        faults,
        (
            "parallel.expert: the model has no experts",
            "parallel.expert: 6 replicas (data) do not divide by 4",
            "parallel.expert: 8 experts do not divide by 16",
            "parallel.expert: adapters are trained beside whole experts",
        ),
        strict=True,
    ):
        assert message in plan["error"]


def test_documents_are_answered_like_a_list(file: Path, capsys: Captured) -> None:
    """In one process."""
    text = "model: {parameters: 1e9, name: a}\n---\nmodel: {parameters: 2.5e+9, name: b}\n"
    plans = answer(file, text, capsys)

    assert [plan["model"] for plan in plans] == ["a", "b"]
    weights = [plan["memory"]["weights_bytes"] for plan in plans]
    assert weights[1] / weights[0] == pytest.approx(2.5, rel=0.01)


def test_json_may_be_indented_by_tabs(file: Path, capsys: Captured) -> None:
    """YAML refuses tabs."""
    plan = answer(file, json.dumps({"model": SHAPE, "gpus": ["L4"]}, indent="\t"), capsys)

    assert plan["candidates"][0]["gpu"] == "L4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "FILE: is empty; give at least a model"),
        ("task: inference\n", "FILE:1:1: model: is required"),
        ("model: {parameters: 8e9}\ntsk: x\n", "FILE:2:1: tsk: unknown key; did you mean 'task'?"),
        (
            "model: {parameters: 8e9}\nload: {concurency: 3}\n",
            "FILE:2:8: load.concurency: unknown key; did you mean 'concurrency'?",
        ),
        (
            "model: {parameters: 8e9}\nprecision: {weights: fp7}\n",
            "FILE:2:13: precision.weights: must be one of fp32",
        ),
        ("model: meta/llama-9\n", "FILE:1:1: model: 'meta/llama-9' is none of the models that are"),
        (
            "model: {parameters: 8e9}\nprecision: [fp8]\n",
            "FILE:2:1: precision: must be a mapping (got a list); write it like",
        ),
        (
            "model: {config: a, layers: 3}\n",
            "FILE:1:20: model.layers: unknown key; known keys: image, steps, guided, ",
        ),
        (
            "model: {parameters: 8e9}\ntask: finetune-lora\nlora: {rank: 100000}\n",
            "FILE:3:8: lora.rank: 100000 is more than the width of ",
        ),
        ("model: {layers: 0, hidden: 64}\n", "FILE:1:9: model.layers: 0 is not above 0"),
        (
            "model: {layers: 2, hidden: 100, heads: 3, vocab: 10}\n",
            "FILE:1:33: model.heads: a hidden width of 100 does not divide by 3 heads",
        ),
        ("model: {kind: rnn}\n", "FILE:1:9: model.kind: must be one of transformer, encoder"),
        ("model: {kind: cnn, parameters: 1}\n", "FILE:1:1: model.forward_flops: is required"),
        ("model: {parameters: eight}\n", "FILE:1:9: model.parameters: must be a number"),
        (
            "model: {parameters: 8e9, tied_embeddings: 1}\n",
            "FILE:1:26: model.tied_embeddings: must",
        ),
        ("model: {config: nowhere}\n", "FILE:1:9: model.config: "),
        (
            "model: {parameters: 8e9}\nload: {tpot_ms: -1}\n",
            "FILE:2:8: load.tpot_ms: -1 is not above 0",
        ),
        ("model: {parameters: 8e9}\nprices: {H999: 1}\n", "FILE:2:1: prices: board 'H999'"),
        (
            "model: {parameters: 8e9}\nprices: {carbon_grams_per_kwh: -1}\n",
            "FILE:2:10: prices.carbon_grams_per_kwh: must be",
        ),
        ("model: [\n", "FILE:2:1: "),
    ],
)
def test_invalid_plan_is_refused_with_its_place(
    file: Path, text: str, message: str, capsys: Captured
) -> None:
    """Nothing is answered."""
    assert refusal(file, text, capsys).startswith(message)


def test_plan_that_is_no_mapping_has_one_error(file: Path, capsys: Captured) -> None:
    """It does not list missing keys."""
    assert len(refusal(file, "hello\n", capsys).splitlines()) == 1


def test_everything_wrong_with_single_keys_is_reported_at_once(
    file: Path, capsys: Captured
) -> None:
    """One line each."""
    text = "model: {layer: 1}\ntask: serve\nlora: {rank: x}\n"

    assert len(refusal(file, text, capsys).splitlines()) == 3


def test_a_configuration_is_found_beside_the_plan(file: Path, capsys: Captured) -> None:
    """By its own path or its folder's; parameters may be corrected."""
    folder = file.parent / "model"
    folder.mkdir()
    config = PUBLISHED["Llama-3.1-8B"][0]
    (folder / "config.json").write_text(json.dumps(config, indent="\t"), encoding="utf-8")
    text = (
        "- model: {config: model/config.json}\n  parallel: {tensor: 1}\n"
        "- model: {config: model, parameters: 9e9}\n  parallel: {tensor: 1}\n"
    )
    first, second = answer(file, text, capsys)

    assert first["memory"]["weights_bytes"] == pytest.approx(2 * 8030261248)
    assert second["memory"]["weights_bytes"] == pytest.approx(18e9)


def test_a_quantized_checkpoint_is_planned_as_it_is(file: Path, capsys: Captured) -> None:
    """Unless the plan states otherwise."""
    config = {**PUBLISHED["Llama-3.1-8B"][0], "quantization_config": {"quant_method": "fp8"}}
    (file.parent / "config.json").write_text(json.dumps(config), encoding="utf-8")
    text = (
        "- model: {config: config.json}\n  parallel: {tensor: 1}\n"
        "- model: {config: .}\n  parallel: {tensor: 1}\n  precision: {weights: bf16}\n"
    )
    narrow, wide = answer(file, text, capsys)

    assert narrow["memory"]["weights_bytes"] < 0.6 * wide["memory"]["weights_bytes"]


@pytest.mark.parametrize(
    "model",
    [
        "{kind: cnn, parameters: 25.6e6, forward_flops: 8.2e9}",
        "{kind: vit, layers: 12, hidden: 768, heads: 12}",
        "{kind: diffusion, parameters: 2.6e9}",
        "{kind: recommender, embedding_rows: 1e7, embedding_width: 64, dense_parameters: 1e7}",
    ],
)
@pytest.mark.parametrize("task", ["inference", "training"])
def test_every_kind_of_model_has_a_plan(
    file: Path, model: str, task: str, capsys: Captured
) -> None:
    """For people and for programs."""
    plan = answer(file, f"model: {model}\ntask: {task}\n", capsys)

    assert plan["candidates"][0]["fits"]
    assert main(["plan", str(file)]) == 0
    assert plan["candidates"][0]["gpu"] in capsys.readouterr().out


def recording(path: Path, gib: float) -> Path:
    """A minute of an engine with 24 requests in flight on one GPU."""
    header = (
        "timestamp,device,gpu_busy,dram_active,memory_used_bytes,requests_running,"
        "time_per_output_token_seconds,time_to_first_token_seconds\n"
    )
    lines = (
        f"{1767571200 + second},GPU-0,0.97,0.2,{gib * 2**30:.0f},24,0.011,0.1\n"
        for second in range(60)
    )
    path.write_text(header + "".join(lines), encoding="utf-8")
    return path


def test_times_of_a_recording_are_learned(
    file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the prediction without corrections, for later plans of the model."""
    learned = file.with_name("learned.json")
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    run = recording(file.with_name("run.csv"), gib=60.0)
    text = json.dumps({"model": "llama-3.1-8b", "gpus": ["H100-SXM5-80GB"]})
    more = ("--measured", str(run), "--learn")
    before = answer(file, text, capsys)["candidates"][0]
    compared = answer(file, text, capsys, *more)["measured"]["comparisons"]
    ratios = {each["what"]: each["ratio"] for each in compared if each["ratio"]}
    kept = json.loads(learned.read_text("utf-8"))["residuals"]
    assert {each["figure"] for each in kept} == {"tpot_ms", "ttft_ms"}
    for each in kept:
        assert math.exp(each["log_ratio"]) == pytest.approx(ratios[each["figure"]])
    after = answer(file, text, capsys)["candidates"][0]
    assert after["adjusted"]["count"] == 1
    assert after["tpot_ms"] != before["tpot_ms"]


def test_nothing_is_learned_of_a_model_without_a_name(file: Path, capsys: Captured) -> None:
    """It is not told from others."""
    file.write_text(json.dumps({"model": SHAPE, "gpus": ["H100-SXM5-80GB"]}), "utf-8")
    run = recording(file.with_name("run.csv"), gib=60.0)
    assert main(["plan", str(file), "--measured", str(run), "--learn"]) == 2
    assert "--learn: it takes a model by name" in capsys.readouterr().err
    assert main(["plan", str(file), "--learn"]) == 2
    assert "--learn: nothing is measured" in capsys.readouterr().err


def test_a_recording_tells_where_the_prediction_was_off(file: Path, capsys: Captured) -> None:
    """At the requests that were in flight, not at the planned number."""
    text = json.dumps({"model": SHAPE, "load": {"concurrency": 200}})
    run = recording(file.with_name("run.csv"), gib=60.0)
    more = ("--measured", str(run), "--board", "H100-SXM5-80GB")
    measured = answer(file, text, capsys, *more)["measured"]
    found = {each["what"]: each for each in measured["comparisons"]}

    assert measured["candidate"]["concurrency"] == 24
    assert measured["candidate"]["gpu"] == "H100-SXM5-80GB"
    assert found["memory_bytes"]["as_predicted"] is False
    assert found["memory_bytes"]["ratio"] > 2
    assert found["tokens_per_second"]["measured"] == pytest.approx(24 / 0.011)
    assert found["tokens_per_second"]["as_predicted"] is True
    assert found["tpot_ms"]["measured"] == pytest.approx(11)
    assert found["gpu_busy"]["predicted"] is None
    assert main(["plan", str(file), *more]) == 0
    assert "off by x" in capsys.readouterr().out


def test_a_recording_is_of_one_requirement(file: Path, capsys: Captured) -> None:
    """With several requirements it would be ambiguous."""
    file.write_text(json.dumps([{"model": SHAPE}]), encoding="utf-8")
    run = recording(file.with_name("run.csv"), gib=20.0)

    assert main(["plan", str(file), "--measured", str(run)]) == 2
    assert "--measured: a recording is of one model" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["gpus", "config"])
def test_error_message_escapes_control_characters(key: str, file: Path, capsys: Captured) -> None:
    """It may quote a file of unknown origin."""
    hostile = "\x1b[31mH100\u202e"
    file.with_name("config.json").write_text(json.dumps({"model_type": hostile}))
    asked = {
        "gpus": {"model": SHAPE, "gpus": [hostile]},
        "config": {"model": {"config": "config.json"}},
    }
    message = refusal(file, json.dumps(asked[key]), capsys)

    assert "?[31mH100?" in message
    assert all(letter.isprintable() for letter in message)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (
            "training: {micro_batch: 2}",
            "training is given but not used: the task is inference",
        ),
        ("lora: {rank: 16}", "lora is given but not used: the task is inference"),
        ("task: training\nlora: {rank: 16}", "lora is given but not used: the task is train"),
        ("task: training\nload: {concurrency: 2}", "load is given but not used: the task is"),
        ("growth: {per_month: 0.1, months: 3}", "growth is given and there is nothing to grow"),
        (
            "task: training\ngrowth: {per_month: 0.1, months: 3}",
            "growth is given but not used: the task is training",
        ),
    ],
)
def test_unused_key_of_a_task_is_reported(
    file: Path, capsys: Captured, text: str, start: str
) -> None:
    """Without the task, the answer would be mistaken for that of another."""
    plan = answer(file, f"model: {{parameters: 1e9}}\ngpus: [L4]\n{text}\n", capsys)

    (note,) = plan["notes"]
    assert note.startswith(start)


def test_used_key_of_a_task_needs_no_note(file: Path, capsys: Captured) -> None:
    """The same holds for an empty part."""
    text = "task: finetune-lora\nlora: {rank: 16}\ntraining: {micro_batch: 2}\nload: {}\n"
    text += "framework: peft\n"
    plan = answer(file, f"model: {{parameters: 1e9}}\ngpus: [L4]\n{text}", capsys)

    assert plan["notes"] == []


@pytest.mark.parametrize(("count", "notes_told"), [(7e10, 1), (3e9, 1), (8.2e9, 0)])
def test_a_count_far_from_that_of_the_config_is_reported(
    file: Path, capsys: Captured, count: float, notes_told: int
) -> None:
    """The stated count is used."""
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    (file.parent / "config.json").write_text(json.dumps(config), encoding="utf-8")
    asked = {"model": {"config": "config.json", "parameters": count}, "gpus": ["B200"]}
    notes = answer(file, json.dumps(asked), capsys)["notes"]

    assert len(notes) == notes_told
    assert all("and the config makes 8.03e+09" in note for note in notes)


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_what_is_learned_and_may_not_be_read_is_told(
    file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """With the remedy, in text and JSON; nothing is told of a file that is absent."""
    learned = file.with_name("learned.json")
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    text = json.dumps({"model": SHAPE, "gpus": ["H100-SXM5-80GB"]})
    stat = Path.stat
    access = os.access

    def stat_of(path: Path, **how: bool) -> os.stat_result:
        if closed == "folder" and path == learned:
            raise PermissionError(path)
        return stat(path, **how)

    assert "learned" not in json.dumps(answer(file, text, capsys)["notes"])
    learned.write_text("{}", "utf-8")
    monkeypatch.setattr(Path, "stat", stat_of)
    monkeypatch.setattr(
        os, "access", lambda path, mode: str(path) != str(learned) and access(path, mode)
    )
    (note,) = (note for note in answer(file, text, capsys)["notes"] if str(learned) in note)
    assert "join group rightsizer, or ask with sudo" in note
    assert main(["plan", str(file)]) == 0
    assert "which you may not read" in " ".join(capsys.readouterr().out.split())
