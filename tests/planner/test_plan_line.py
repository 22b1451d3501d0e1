"""`rightsizer plan` in one line: models by name, loads in common units."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from plan_answers import answered, refusal, requirement_of
from rightsizer.cli.main import main
from rightsizer.model.errors import UsageError
from rightsizer.planner.detail_blocks import title_texts
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import ModelTask

Captured = pytest.CaptureFixture[str]
Ask = Callable[..., Any]
BERT: Final = {
    "model_type": "bert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


@pytest.fixture
def ask(capsys: Captured) -> Ask:
    """The JSON answer to a line."""

    def answer(*options: str) -> Any:
        return answered(main(["plan", *options, "--json"]), capsys.readouterr().out)

    return answer


def test_line_asks_what_the_file_asks(ask: Ask, tmp_path: Path) -> None:
    """The requirement is identical."""
    options = ["--model", "llama-3.1-8b", "--rps", "5", "--in", "2k", "--out", "500"]
    line = ask(
        *options, "--ttft", "2s", "--tpot", "50ms", "--precision", "fp8", "--gpus", "h100,l4"
    )
    file = tmp_path / "plan.yaml"
    file.write_text(
        "model: {name: llama-3.1-8b}\n"
        "requests_per_second: 5\n"
        "load: {input_tokens: 2000, output_tokens: 500, ttft_ms: 2000, tpot: 50ms}\n"
        "precision: fp8\ngpus: [H100, L4]\n",
        encoding="utf-8",
    )

    assert ask(str(file)) == line
    assert line["unit"] == "output tokens"
    assert line["requests_per_second"] == pytest.approx(5)
    first = line["candidates"][0]
    assert first["tokens_per_second"] >= 5 * 500
    assert first["ttft_ms"] <= 2000
    keys = {each["gpu"] for each in line["candidates"]}
    assert keys == {"H100-SXM5-80GB", "H100-SXM5-96GB", "H100-PCIE-80GB", "L4"}


def test_model_has_one_answer_by_name_by_file_and_by_family(ask: Ask, tmp_path: Path) -> None:
    """BERT: candidates, rates and costs are the same."""
    (tmp_path / "config.json").write_text(json.dumps(BERT), encoding="utf-8")
    family = tmp_path / "family.yaml"
    family.write_text(
        "model: {kind: encoder, name: BERT, parameters: 109482240, layers: 12, hidden: 768,"
        " heads: 12, ffn: 3072, vocab: 30522}\n"
        "requests_per_second: 2000\nin: 128\nlatency: 20ms\n",
        encoding="utf-8",
    )
    load = ("--rps", "2000", "--in", "128", "--latency", "20ms")
    by_name = ask("--model", "google-bert/bert-base-uncased", *load)
    by_file = ask("--model", str(tmp_path / "config.json"), *load)
    by_folder = ask("--model", str(tmp_path), *load)
    by_family = ask(str(family))

    assert by_name["candidates"] == by_file["candidates"] == by_folder["candidates"]
    assert ask(str(tmp_path / "config.json"), *load) == by_file
    assert ask(str(tmp_path), *load) == by_folder
    for one, other in zip(by_name["candidates"], by_family["candidates"], strict=True):
        assert (one["gpu"], one["count"]) == (other["gpu"], other["count"])
        assert one["tokens_per_second"] == pytest.approx(other["tokens_per_second"], rel=0.01)


def test_model_may_stand_without_its_flag(ask: Ask) -> None:
    """A word that is no file is a model."""
    assert ask("llama-3.1-8b", "--rps", "3") == ask("--model", "llama-3.1-8b", "--rps", "3")


@pytest.mark.parametrize(
    ("word", "gpus"),
    [
        ("RTX PRO 6000", {"RTX-PRO-6000-SE", "RTX-PRO-6000-WS"}),
        ("4090", {"RTX4090"}),
        ("A6000", {"RTX-A6000"}),
        ("a100:3g.40gb", {"A100-PCIE-80GB:3g.40gb", "A100-SXM4-80GB:3g.40gb"}),
        ("96GB", {"H100-SXM5-96GB", "GH200-96GB", "H20", "RTX-PRO-6000-SE", "RTX-PRO-6000-WS"}),
    ],
)
def test_gpus_are_named_by_family_slice_or_size(ask: Ask, word: str, gpus: set[str]) -> None:
    """All kinds that the word may mean are considered."""
    answer = ask("--model", "llama-3.1-8b", "--concurrency", "1", "--gpus", word)
    assert {each["gpu"] for each in answer["candidates"]} == gpus


@pytest.mark.parametrize(
    ("name", "bits"), [("q4_k_m", 4.58), ("q5_k_m", 5.33), ("q6_k", 6.14), ("q8_0", 7.95)]
)
def test_gguf_takes_what_its_file_does(ask: Ask, name: str, bits: float) -> None:
    """GiB of Llama 3.1 8B, with embedding and head (llama.cpp, tools/quantize/README.md)."""
    options = ("--concurrency", "1", "--gpus", "l40s", "--precision", name)
    memory = ask("--model", "llama-3.1-8b", *options)["memory"]
    assert memory["weights_bytes"] / 2**30 == pytest.approx(bits, rel=0.005)


def test_model_that_writes_nothing_is_asked_for_sequences(ask: Ask) -> None:
    """With `--out 0` or an encoder's name: one pass, no cache, no head."""
    load = ("--rps", "20", "--in", "512", "--gpus", "l40s")
    silent = ask("--model", "qwen3-8b", "--out", "0", *load)
    reader = ask("--model", "Qwen/Qwen3-Embedding-8B", *load)
    assert silent["unit"] == reader["unit"] == "sequences"
    assert silent["candidates"] == reader["candidates"]
    assert reader["memory"]["kv_cache_bytes"] == 0
    assert reader["memory"]["weights_bytes"] == pytest.approx(7.57e9 * 2, rel=0.01)
    assert any("no output tokens: sequences are encoded" in note for note in reader["notes"])


def test_short_prompts_that_go_through_together_wait_for_no_more_than_that(ask: Ask) -> None:
    """There is no queue while demand is below throughput."""
    options = ("--rps", "100", "--in", "100", "--out", "1", "--gpus", "a100-sxm4-80gb")
    first = ask("--model", "llama-3.1-8b", *options)["candidates"][0]
    assert first["tokens_per_second"] > 120
    assert first["ttft_ms"] < 1000


def test_budget_rejects_what_costs_more_and_what_has_no_price(ask: Ask) -> None:
    """The remedies are within the budget."""
    options = ("--rps", "5", "--budget", "5", "--gpus", "h200,h100,rtx4090")
    answer = ask("--model", "llama-3.1-70b", *options)
    assert answer["nothing_fits"]
    reasons = {each["gpu"]: each["reasons"] for each in answer["candidates"]}
    assert reasons["H200-SXM-141GB"] == ["price: $8.00 an hour, of $5.00 at most"]
    assert "price: no price is known, of $5.00 at most" in reasons["RTX4090"]
    assert all(each["candidate"]["cost_per_hour"] <= 5 for each in answer["alternatives"])
    assert ask("--model", "llama-3.1-8b", *options)["candidates"][0]["cost_per_hour"] <= 5


def test_encoder_is_asked_for_sequences_and_answers_in_them(ask: Ask) -> None:
    """2,000 requests a second of 128 tokens each are 2,000 sequences, not 2,000 tokens."""
    plan = ask("--model", "bert-base", "--rps", "2000", "--in", "128", "--gpus", "t4")
    one = plan["candidates"][0]
    asked_dollars = one["cost_per_hour"] * 1e6 / (2000 * 3600)

    assert plan["unit"] == "sequences"
    assert one["tokens_per_second"] >= 2000
    assert one["tokens_per_second"] < 12000 * one["count"]
    assert one["tpot_ms"] is None
    assert one["cost_per_million_tokens_asked"] == pytest.approx(asked_dollars)


def test_longer_sequences_take_more_of_the_same_rate() -> None:
    """The unit is the sequence, whatever its length."""
    short, long = (
        requirement_of(model="bge-large", rps="100", **{"in": each}) for each in ("128", "512")
    )

    assert short.load.units_per_second == long.load.units_per_second == 100


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ({"model": "llama-3.1-8b", "rps": "20", "out": "500"}, 10_000),
        ({"model": "llama-3.1-8b", "tokens_per_second": "3k"}, 3000),
        ({"model": "llama-3.1-8b", "rps": "600/min", "out": "500"}, 5000),
        ({"model": "sdxl", "rps": "1.8k / h"}, 0.5),
        ({"model": "bert-base", "tokens_per_second": "12800", "in": "128"}, 100),
        ({"model": "bert-base", "sequences_per_second": "7"}, 7),
        ({"model": "sdxl", "images_per_second": "5"}, 5),
        ({"model": "resnet-50", "samples_per_second": "5"}, 5),
        ({"model": "whisper-large-v3", "rps": "2"}, 60),
        ({"model": "whisper-large-v3", "streams": "200"}, 200),
        ({"model": "whisper-large-v3", "audio_seconds_per_second": "50"}, 50),
    ],
)
def test_rate_is_kept_in_the_unit_of_the_model(options: dict[str, str], rate: float) -> None:
    """For text a response, for speech a window of 30 s, else one item of what is served."""
    assert requirement_of(**options).load.units_per_second == pytest.approx(rate)


def test_live_streams_cost_more_than_recorded_sound() -> None:
    """Each chunk processes a window of 30 s again."""
    live = requirement_of(model="whisper-large-v3", streams="200").load
    recorded = requirement_of(model="whisper-large-v3", audio_seconds_per_second="200").load

    assert (live.chunk_seconds, recorded.chunk_seconds) == (2.0, None)
    assert live.units_per_second == recorded.units_per_second


def test_latency_of_one_pass_leaves_time_for_the_batch_before(ask: Ask) -> None:
    """The previous batch takes at most half of the limit."""
    best = ask("--model", "bert-base", "--rps", "2000", "--latency", "20ms")["candidates"][0]

    assert best["fits"]
    assert best["ttft_ms"] <= 10


def test_latency_of_an_answer_is_that_of_all_its_tokens(ask: Ask) -> None:
    """A rejected candidate states its actual latency."""
    options = ("--model", "llama-3.1-8b", "--rps", "1", "--out", "500", "--gpus", "t4,b200")
    best, other = ask(*options, "--latency", "5s")["candidates"]

    assert best["ttft_ms"] + 499 * best["tpot_ms"] <= 5000
    assert (other["gpu"], other["fits"]) == ("T4", False)
    assert other["reasons"][0].startswith("bandwidth: answer after ")


def test_size_alone_is_taken_as_usual_and_says_so(ask: Ask) -> None:
    """The assumed shape is in the notes."""
    plan = ask("--model", "70B", "--gpus", "h200")

    assert "only the size of the model is given" in plan["notes"][0]
    assert "as is usual" in plan["notes"][0]


@pytest.mark.parametrize(
    ("word", "task"),
    [
        ("full", ModelTask.TRAINING),
        ("LoRA", ModelTask.FINETUNE_LORA),
        ("qlora", ModelTask.FINETUNE_QLORA),
    ],
)
def test_training_is_one_word(word: str, task: ModelTask) -> None:
    """The number of tokens is assumed; several GPUs shard the training."""
    requirement = requirement_of(model="7B", train=word, tokens="1e9")

    assert requirement.task is task
    assert requirement.training.tokens == 1e9
    assert requirement.training.zero_stage == 3


def test_provider_has_its_own_prices_and_gpus(ask: Ask) -> None:
    """Only the provider's offers are considered."""
    plan = ask("--model", "llama-3.1-8b", "--rps", "5", "--provider", "AWS")
    keys = {each["gpu"] for each in plan["candidates"]}

    assert {"H100-SXM5-80GB", "A100-SXM4-80GB", "T4"} <= keys
    assert keys.isdisjoint({"MI300X", "L40"})
    by_key = {each["gpu"]: each for each in plan["candidates"]}
    assert by_key["A100-SXM4-80GB"]["cost_per_hour"] == pytest.approx(27.44705)


def test_images_are_what_a_model_of_images_and_texts_is_asked_for() -> None:
    """CLIP by name: its vision tower."""
    model = requirement_of(model="openai/clip-vit-base-patch32", rps="100").model

    assert not isinstance(model, Transformer)
    assert count_parameters(model).total == pytest.approx(87.9e6, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--rps 3", "--model is missing; name a model, such as llama-3.1-70b"),
        ("a.yaml b.json", "a.yaml b.json: one file is taken; give one, which may hold several"),
        ("llama.yaml", "llama.yaml: there is no such file; check the path, or name a model"),
        ("llama-3.1-71b --rps 3", "did you mean Llama-3.1-70B"),
        (
            "--model llama-3.1-71b",
            "--model: 'llama-3.1-71b' is none of the models that are known by",
        ),
        ("--model llama-3.1-71b", "did you mean Llama-3.1-70B"),
        (f"--model {'9' * 300}B", "is none of the models that are known by name"),
        ("--model ~unknown-user/model", "there is no such file"),
        ("--model foo-13b", "config.json or, if it writes text, its size alone (13B)"),
        ("--model ./nowhere.json", "--model: './nowhere.json': there is no such file"),
        ("--model bert --rps abc", "--rps: must be a number (got 'abc'); write it like 20"),
        ("--model 7B --rps -3", "--rps: -3 is not above 0"),
        ("--model 7B --rps 1e400", "--rps: must be a number"),
        ("--model 7B --in 0", "--in: 0 is not above 0"),
        ("--model 7B --ttft 0s", "--ttft: 0 is not above 0"),
        ("--model sdxl --train lora", "--train: finetune-lora is for models of tokens"),
        (
            "--model bert --latency 20",
            "--latency: must be a duration (got '20'); write it like 50ms",
        ),
        (
            "--model sdxl --streams 4",
            "--streams: SDXL works in images; give --rps",
        ),
        ("--model 7B --precision fp7", "(got 'fp7'); did you mean 'fp8'"),
        ("--model 7B --gpus h1000", "--gpus: board 'h1000' is not in the catalogue; did you mean"),
        ("--model 7B --gpus 8xh100", "--gpus: '8xh100': the plan finds how many; write h100"),
        ("--model 7B --gpus h100:8", "--gpus: 'h100:8': the plan finds how many; write h100"),
        ("--model 7B --budget much", "--budget: must be a number (got 'much')"),
        ("--model 7B --rps 5 --by 2999-12-31", "--hours: as --by, is for training; leave it out"),
        ("--model 7B --train some", "--train: must be one of full, lora, qlora (got 'some')"),
        ("--model gpt-4o", "--model: 'gpt-4o' is served by its maker alone"),
        ("--model claude-3.5-sonnet", "name an open model, or a size like 70B"),
        ("--model 7B --provider azur", "did you mean 'azure'? Else take one of aws"),
        ("--model 7B --provider foo", "--provider: no prices of 'foo' are known; take one of aws"),
        ("--model 7B --provider ,", "--provider: no prices of ',' are known; take one of aws"),
    ],
)
def test_invalid_option_is_refused_by_its_flag(
    options: str, message: str, capsys: Captured
) -> None:
    """The error has the nearest valid form."""
    assert main(["plan", *options.split()]) != 0

    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("request_per_second: 20\n", "did you mean 'requests_per_second'?"),
        ("load: {requests_per_sec: 20}\n", "did you mean 'requests_per_second'?"),
        ("qps: 20\n", "write requests_per_second"),
        ("load: {p99: 20ms}\n", "write latency"),
        ("dtype: fp8\n", "write precision"),
        ("gpu: H100\n", "write gpus"),
        (
            "load: {concurrency: 5.0e-324}\n",
            "concurrency: must be at least 1e-06 (got ",
        ),
        ("load: {ttft: 1}\n", "has no unit (got 1); write it like 50ms or 1s"),
        ("requests_per_second: 3\nload: {rps: 4}\n", "is given twice, as load.rps too"),
        ("load: {rps: 4, tokens_per_second: 3}\n", "load.requests_per_second"),
        (
            "images_per_second: 4\n",
            "works in tokens; give requests_per_second or tokens_per_second",
        ),
    ],
)
def test_invalid_load_names_the_right_format(
    text: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    """The named format is never that of another unit."""
    output = refusal(tmp_path / "plan.yaml", f"model: llama-3.1-8b\n{text}", capsys)

    assert message.replace("load.requests_per_second", "load.rps says how much already") in output
    assert text.startswith("load: {rps") or "tokens_per_second'" not in output


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (("--model", "bert-base", "--tpot", "5ms"), "tpot is given but not used: BERT-base"),
        (("--model", "resnet-50", "--in", "300"), "in is given but not used: ResNet-50 works"),
        (("--model", "7B", "--tokens", "1e9"), "tokens is given but not used"),
        (
            ("--model", "7B", "--tokens", "1e9", "--framework", "nemo"),
            "tokens, framework are given but not used: the task is inference",
        ),
        (("--model", "7B", "--train", "lora", "--rps", "3"), "rps is given but not used"),
    ],
)
def test_unused_option_of_a_model_is_reported(
    options: tuple[str, ...], note: str, ask: Ask
) -> None:
    """It is not taken for another option."""
    notes = ask(*options, "--gpus", "a30")["notes"]

    assert any(each.startswith(note) for each in notes)


def test_size_may_stand_alone_in_a_file(ask: Ask, tmp_path: Path) -> None:
    """At the top, under the model, or as its text: the answer is the same."""
    file = tmp_path / "plan.yaml"
    found = []
    for text in ("parameters: 70B", "model: {parameters: 70B}", "model: 70B"):
        file.write_text(f"{text}\ngpus: [H200]\n", encoding="utf-8")
        found.append(ask(str(file))["candidates"])

    assert found[0] == found[1] == found[2]


def test_decoder_of_a_pair_of_stacks_is_all_that_writes(ask: Ask) -> None:
    """Whisper turbo has large v3's encoder and an eighth of its decoder: it decodes faster."""
    large, turbo = (
        ask("--model", name, "--concurrency", "32", "--gpus", "H100-SXM5-80GB")["candidates"][0]
        for name in ("whisper-large-v3", "whisper-large-v3-turbo")
    )

    assert turbo["tpot_ms"] < large["tpot_ms"] / 2
    # The first token takes a step of the decoder too.
    assert 0.5 * large["ttft_ms"] < turbo["ttft_ms"] < large["ttft_ms"]
    assert turbo["tokens_per_second"] > 1.5 * large["tokens_per_second"]


@pytest.mark.parametrize("target", ["p95=1s", "{p95: 1s}", "p95 1s", "P95:1000ms"])
def test_a_target_has_a_percentile(target: str) -> None:
    """As written in a file, and in a form that shells accept."""
    load = requirement_of(model="llama-3.1-8b", rps="20", ttft=target, tpot="50ms").load

    assert (load.ttft_ms, load.ttft_percentile) == (1000.0, 95.0)
    assert (load.tpot_ms, load.tpot_percentile) == (50.0, None)


@pytest.mark.parametrize(
    ("arrivals", "burstiness", "is_open"),
    [("bursty", None, True), ("poisson", 1.0, True), ("2.5", 2.5, True), ("closed", None, False)],
)
def test_arrivals_are_stated(arrivals: str, burstiness: float | None, *, is_open: bool) -> None:
    """By a word, or by their coefficient of variation."""
    load = requirement_of(model="llama-3.1-8b", rps="20", arrivals=arrivals).load
    assert (load.burstiness, load.is_open) == (burstiness, is_open)


def test_arrivals_that_are_unknown_are_told_the_known(capsys: Captured) -> None:
    """So is an unsupported percentile."""
    with pytest.raises(UsageError, match="take one of closed, steady, poisson, bursty, or a num"):
        requirement_of(model="llama-3.1-8b", rps="20", arrivals="sometimes")
    assert main(["plan", "--model", "llama-3.1-8b", "--rps", "20", "--ttft", "p5=1s"]) == 2
    assert "p5 is not from p50 to p99.99; p95 is usual" in capsys.readouterr().err


def test_the_answer_tells_how_likely_it_is_in_time(ask: Ask) -> None:
    """For each candidate."""
    question = "--model llama-3.1-8b --rps 20 --ttft p95=1s --gpus h100,l40s"
    for candidate in ask(*question.split())["candidates"]:
        assert 0.0 <= candidate["targets_probability"] <= 1.0


def test_an_engine_has_limits_of_its_own(ask: Ask) -> None:
    """Those of vLLM are 256 requests below 70 GiB and 1,024 above; other engines state theirs."""
    question = ["--model", "qwen2.5-0.5b", "--gpus", "L4,H100-SXM5-80GB"]
    question += ["--in", "64", "--out", "64"]
    plain = ask(*question)
    other = ask(*question, "--engine", "sglang")
    most = {each["gpu"]: each["concurrency"] for each in plain["candidates"]}

    assert most == {"L4": 256, "H100-SXM5-80GB": 1024}
    assert {each["concurrency"] for each in other["candidates"]} == {2048}
    assert plain["engine"].startswith("vllm ")
    assert not plain["notes"]
    assert "sglang" in other["notes"][0]


@pytest.mark.parametrize(("spelled", "ratio"), [("99.9%", 0.999), ("50%", 0.5), ("90%", 0.9)])
def test_a_certainty_in_percent_is_as_exact_as_a_ratio(spelled: str, ratio: float) -> None:
    """The bounds themselves are within them."""
    assert requirement_of(model="llama-3.1-8b", sure=spelled).load.sure_ratio == ratio


def test_what_is_not_within_the_limit_is_not_called_impossible(capsys: Captured) -> None:
    """The answer names the limit of the search, and hours in their number."""
    line = ["--model", "llama-3.1-8b", "--rps", "1000000", "--out", "100", "--gpus", "l4"]
    assert main(["plan", *line]) == 1
    out = capsys.readouterr().out
    assert "None would within 512 GPUs (sizing.plan.gpu_maximum)." in out
    assert "No known GPU would" not in out

    requirement = requirement_of(model="8B", train="full", tokens="1e9", hours="1")
    title, asked, *_ = title_texts(requirement, ())
    assert title == "training: a model of 8 billion parameters in bf16"
    assert "in 1 hour at most" in asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model llama-3.1-8b --runtime eager", "--runtime: Llama-3.1-8B is no image network; "),
        ("--model sdxl --engine sglang", "--engine: SDXL works in images, which no engine serves"),
    ],
)
def test_a_flag_of_another_kind_of_model_is_refused(
    options: str, message: str, capsys: Captured
) -> None:
    """Else the answer would not be to the question."""
    assert main(["plan", *options.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--rps 5 --qps 50", "--qps: 5 is given already; leave one of them out"),
        ("--qps 5 --rate 50", "--rate: 5 is given already; leave one of them out"),
        ("--latency 100ms --p99 5ms", "--p99: 100ms is given already; leave one of them out"),
        ("--tp 2 --tensor-parallel-size 4", "--tensor-parallel-size: 2 is given already"),
    ],
)
def test_a_second_value_of_a_key_is_refused(options: str, message: str, capsys: Captured) -> None:
    """By whichever of its flags."""
    with pytest.raises(SystemExit) as stopped:
        main(["plan", "--model", "8B", *options.split()])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_same_value_may_stand_twice(ask: Ask) -> None:
    """By a flag and by its other name."""
    line = ("--model", "llama-3.1-8b", "--gpus", "l4", "--rps", "1")
    assert ask(*line, "--qps", "1") == ask(*line)


@pytest.mark.parametrize(("model", "is_dense"), [("llama-3.1-8b", True), ("mixtral-8x7b", False)])
def test_an_engine_is_compared_on_models_of_its_rates(model: str, *, is_dense: bool) -> None:
    """Its published rates are of dense ones."""
    (item,) = plan_of_flags({"model": model, "engine": "sglang"}).items
    (note,) = (note for note in item.notes if note.startswith("engine: sglang"))
    assert ("dense models" in note) is is_dense


def test_an_engine_is_of_no_use_to_a_training() -> None:
    """A note says so, as of its load."""
    (item,) = plan_of_flags({"model": "llama-3.1-8b", "train": "full", "engine": "vllm"}).items
    assert any(note.startswith("engine is given but not used") for note in item.notes)


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        ("--vram 24", "--gpus 24GB"),
        ("--memory 24GB", "--gpus 24GB"),
        ("--system h100_sxm", "--gpus h100_sxm"),
        ("--batch-size 8", "--concurrency 8"),
        ("--backend sglang --max-ttft 500ms", "--engine sglang --ttft 500ms"),
        ("--train full --seq-len 4096 --optim sgd", "--train full --training.sequence 4096"),
        ("--kv_cache_dtype fp8 --precision fp8", "--precision fp8 --precision.kv_cache fp8"),
    ],
)
def test_a_flag_of_another_planner_is_accepted(ask: Ask, options: str, ours: str) -> None:
    """It means the same as ours; what has no flag is a key of the file, by its path."""
    if "sgd" in options:
        ours += " --training.optimizer sgd"
    line = ("--model", "llama-3.1-8b")

    assert ask(*line, *options.split()) == ask(*line, *ours.split())


def test_a_price_of_ones_own_is_called_own(capsys: Captured) -> None:
    """It is that of the named kind of GPU, and no list price."""
    line = ["plan", "--model", "llama-3.1-8b", "--rps", "2", "--gpus", "h100", "--price"]
    assert main([*line, "2.5"]) == 0
    assert "$2.50 an hour at your prices" in " ".join(capsys.readouterr().out.split())

    assert main([*line, "cheap"]) == 2
    assert "--prices: must be a number (got 'cheap')" in capsys.readouterr().err


def test_a_flag_is_never_taken_for_one_that_begins_alike(capsys: Captured) -> None:
    """Another flag that is added later would change what a line means."""
    assert main(["plan", "--model", "llama-3.1-8b", "--detail"]) == 2
    assert "plan has no flag --detail; did you mean --details?" in capsys.readouterr().err
