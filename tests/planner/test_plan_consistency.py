"""Answers that do not contradict each other; what would be absurd is not said."""

import json
from typing import Any

import pytest

from plan_questions import contradictions, random_question
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.planner.planner import Planner

Captured = pytest.CaptureFixture[str]


def answer_of(capsys: Captured, line: str) -> dict[str, Any]:
    """The answer to a command line."""
    main(["plan", *line.split(), "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_similar_questions_have_consistent_answers() -> None:
    """More load and tighter latencies cost no less; k replicas serve k times the load."""
    planner = Planner(built_in(), built_in_prices())
    faults = [
        (question, fault)
        for question in map(random_question, range(25))
        for fault in contradictions(planner, question)
    ]

    assert not faults


def test_what_fits_at_two_rates_fits_between_them(capsys: Captured) -> None:
    """Bursts at one replica do not decide what many replicas hold."""
    counts = []
    for rate in (20, 30, 50):
        line = f"--model llama-3.1-70b --in 128 --out 50 --tpot 30ms --rps {rate}"
        found = answer_of(capsys, f"{line} --gpus H100-PCIE-80GB")["candidates"][0]
        assert found["fits"]
        counts.append(found["count"])

    assert counts == sorted(counts)


def test_the_first_holds_with_the_certainty_that_is_asked_for(capsys: Captured) -> None:
    """No first answer is a coin flip if another one is not."""
    for line in (
        "--model llama-3.1-8b --rps 20 --ttft 500ms --gpus a10g,l4,h100",
        "--model qwen3-30b-a3b --rps 5 --in 4000 --tpot 30ms --gpus l40s,h100",
        "--model resnet-50 --rps 3000 --latency 20ms",
    ):
        first = answer_of(capsys, line)["candidates"][0]
        assert first["is_sure"]
        assert first["certainty"] >= 0.9


def test_a_given_certainty_decides_the_count(capsys: Captured) -> None:
    """As a ratio or in percent, on the command line as in a file."""
    line = "--model llama-3.1-8b --rps 200 --gpus l40s"
    even, usual, high = (
        answer_of(capsys, f"{line} --sure {sure}")["candidates"][0]["count"]
        for sure in ("0.5", "90%", ".99")
    )

    assert even < usual < high


def test_paid_gpus_are_used(capsys: Captured) -> None:
    """Of whole instances, every GPU that another replica can use has one."""
    line = "--model llama-3.1-8b --rps 60 --provider aws --gpus H200"
    found = answer_of(capsys, line)["candidates"][0]

    assert found["paid_count"] == found["count"] == 8


def test_paid_gpus_train(capsys: Captured) -> None:
    """A run that fits on one GPU of eight uses the eight that are paid."""
    line = "--model llama-3.1-8b --train lora --tokens 1e8 --provider aws --gpus H200"
    found = answer_of(capsys, line)["candidates"][0]

    assert found["paid_count"] == found["count"] == 8


def test_the_nearest_lacks_least(capsys: Captured) -> None:
    """Of what is too slow, the one with the smallest factor comes first."""
    line = "--model llama-3.1-70b --rps 1 --tpot 4ms --gpus l4,h100,h200"
    answer = answer_of(capsys, line)
    slow = [each["tpot_ms"] for each in answer["candidates"]]

    assert answer["nothing_fits"]
    assert slow[0] == min(slow)


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("--qps 20 --isl 2000 --osl 500 --gpu l4", "--rps 20 --in 2000 --out 500 --gpus l4"),
        ("--users 8 --gpu h100 --dtype fp8", "--concurrency 8 --gpus h100 --precision fp8"),
        ("--rate 5 --p95 20s --cloud oci", "--rps 5 --latency p95=20s --provider oci"),
        ("--tensor-parallel-size 4 --pp 2", "--layout tp4pp2"),
        (
            "--rps 2 --max-cost 9 --confidence .8 --gpu h100",
            "--rps 2 --budget 9 --sure .8 --gpus h100",
        ),
    ],
)
def test_flags_of_other_planners_are_accepted(line: str, same: str, capsys: Captured) -> None:
    """They are answered as ours are."""
    theirs, ours = (answer_of(capsys, f"llama-3.1-8b {words}") for words in (line, same))

    assert theirs == ours


def test_own_format_of_a_checkpoint_is_alike_in_both_spellings(
    tmp_path: Any, capsys: Captured
) -> None:
    """`precision: {weights: mxfp4}` is `precision: mxfp4`."""
    answers = []
    for spelled in ("mxfp4", "{weights: mxfp4}", "MXFP4"):
        file = tmp_path / "plan.yaml"
        file.write_text(f"model: gpt-oss-120b\nprecision: {spelled}\ngpus: [H100]\n")
        answers.append(answer_of(capsys, str(file)))

    assert answers[0] == answers[1] == answers[2]


def test_a_deadline_decides_how_many_train(capsys: Captured) -> None:
    """The shorter the time, the more GPUs; and no run ends after it."""
    counts = []
    for hours in (100, 10, 2):
        line = f"--model 7B --train full --tokens 1e9 --hours {hours} --gpus H100-SXM5-80GB"
        first = answer_of(capsys, line)["candidates"][0]
        assert first["training_hours"] <= hours
        assert first["targets_probability"] >= 0.9
        counts.append(first["count"])

    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_a_date_is_a_deadline(capsys: Captured) -> None:
    """One that has passed is refused, as is one that nothing can keep."""
    line = "--model 7B --train full --tokens 1e9 --gpus L4"
    later = answer_of(capsys, f"{line} --by 2999-01-01")["candidates"][0]

    assert later["targets_probability"] > 0.99
    with pytest.raises(SystemExit):
        main(["plan", *line.split(), "--by", "2001-01-01"])
    assert "has passed" in capsys.readouterr().err
    soon = answer_of(capsys, f"{line} --hours 0.01")
    assert "trains" in soon["nothing_fits"]


def test_what_a_cloud_does_not_have_is_not_offered(capsys: Captured) -> None:
    """No link is at fault."""
    answer = answer_of(capsys, "--model llama-3.1-8b --provider aws --gpus MI300X")

    assert answer["nothing_fits"].startswith("nothing fits, because the cloud does not offer it")
    assert answer["candidates"][0]["reasons"][0].startswith("offer: no instance of aws has MI300X")


def test_spot_capacity_has_its_own_prices(capsys: Captured) -> None:
    """Boards without such a price have none; of one cloud they are not known."""
    line = "--model llama-3.1-8b --rps 5 --gpus H100-SXM5-80GB"
    listed, spot = (answer_of(capsys, f"{line}{more}")["candidates"][0] for more in ("", " --spot"))

    assert spot["cost_per_hour"] < listed["cost_per_hour"]
    assert spot["costs"]["offers"][0]["billing"] == "spot"
    assert main(["plan", *line.split(), "--spot", "--provider", "aws"]) != 0
    assert "leave out provider" in capsys.readouterr().err
