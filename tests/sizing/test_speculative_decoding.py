"""Speculative decoding: what proposed tokens gain where steps read memory, and cost where not."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_answers import answer
from rightsizer.cli.main import main
from rightsizer.sizing.load import RequestLoad

Captured = pytest.CaptureFixture[str]


def rate(path: Path, capsys: Captured, **load: float) -> float:
    """Tokens per second of Llama 3.1 70B on four H100."""
    asked = {
        "model": "llama-3.1-70b",
        "gpus": ["H100-SXM5-80GB"],
        "parallel": {"tensor": 4},
        "load": {"in": 1000, "out": 500, **load},
    }
    found = answer(path / "plan.yaml", json.dumps(asked), capsys)["candidates"][0]
    return float(found["tokens_per_second"])


@given(proposed=st.integers(0, 32), accepted=st.floats(0.0, 1.0))
def test_a_step_adds_one_token_and_those_accepted(proposed: int, accepted: float) -> None:
    """Engines count the accepted of all proposed; by default later ones are accepted less."""
    load = RequestLoad(speculative_tokens=proposed, acceptance_ratio=accepted)
    usual = RequestLoad(speculative_tokens=proposed).accepting(0.75)

    assert load.accepting(0.75).tokens_per_step == pytest.approx(1.0 + proposed * accepted)
    assert usual.tokens_per_step == pytest.approx(sum(0.75**place for place in range(proposed + 1)))


def test_an_acceptance_that_is_not_set_is_no_zero() -> None:
    """The settings have one for loads without their own."""
    with pytest.raises(ValueError, match="is not set"):
        _ = RequestLoad(speculative_tokens=3).tokens_per_step


def test_it_gains_most_where_few_requests_run(tmp_path: Path, capsys: Captured) -> None:
    """Few read the weights for few products; with many, each proposed token takes its time.

    DeepSeek-V3 reports 1.8 times the tokens with one proposed and 0.85 to 0.9 of them accepted
    (arXiv:2412.19437, section 5.4.3).
    """
    gains = []
    for requests in (1, 32, 256):
        plain = rate(tmp_path, capsys, concurrency=requests)
        faster = rate(
            tmp_path, capsys, concurrency=requests, speculative_tokens=1, acceptance_ratio=0.9
        )
        gains.append(faster / plain)

    assert gains == sorted(gains, reverse=True)
    assert 1.7 < gains[0] < 1.9
    assert gains[-1] < 1.4


def test_proposals_that_are_refused_cost_time(tmp_path: Path, capsys: Captured) -> None:
    """Nothing is gained, and more is computed."""
    plain = rate(tmp_path, capsys, concurrency=128)
    refused = rate(tmp_path, capsys, concurrency=128, speculative_tokens=4, acceptance_ratio=0.0)

    assert refused < 0.9 * plain


@pytest.mark.parametrize(
    ("load", "fault"),
    [
        ({"speculative": 2.5}, "2.5 is no count from 0 to 32"),
        ({"speculative": 100}, "100 is no count from 0 to 32"),
        ({"speculative": 2, "acceptance": 1.5}, "acceptance_ratio: 1.5 is not from 0 to 1"),
        ({"mtp": 1}, "write speculative_tokens"),
    ],
)
def test_nonsense_is_refused(
    tmp_path: Path, capsys: Captured, load: dict[str, float], fault: str
) -> None:
    """With the key and what is usual; names in engines' configurations are told the key."""
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps({"model": "llama-3.1-8b", "load": load}))

    assert main(["plan", str(file)]) == 1
    assert fault in capsys.readouterr().err


def test_the_answer_says_that_a_draft_head_is_needed(capsys: Captured) -> None:
    """In what is asked for, in the run that verifies it, and in JSON."""
    asked = [
        "plan",
        "--model",
        "llama-3.1-8b",
        "--gpus",
        "l40s",
        "--speculative",
        "3",
        "--rps",
        "2",
    ]
    assert main([*asked, "--details"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "3 tokens proposed and 2.73 made in a step by a draft head" in text
    assert "; 3 proposed tokens; keep as many requests in flight" in text
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens_per_step"] == pytest.approx(2.734375)


def test_it_is_a_flag(capsys: Captured) -> None:
    """As the other parts of a load are."""
    asked = ["plan", "--model", "llama-3.1-8b", "--gpus", "l40s", "--concurrency", "1", "--json"]
    rates = []
    for more in ([], ["--speculative", "3"]):
        assert main([*asked, *more]) == 0
        rates.append(json.loads(capsys.readouterr().out)["candidates"][0]["tokens_per_second"])

    assert rates[1] > 1.8 * rates[0]
