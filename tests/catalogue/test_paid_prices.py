"""Prices paid for GPUs: one key in plans, price files and the configuration."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plan_answers import refusal
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices, read_prices
from rightsizer.catalogue.settings import PriceSettings
from rightsizer.cli.main import main
from rightsizer.model.errors import ConfigurationError

Captured = pytest.CaptureFixture[str]
Ask = Callable[..., Any]
KEY = "dollars_per_gpu_hour: {h100: 2.10, H100-PCIE-80GB: 1.50}"
PLAN = "model: llama-3.1-8b\nrps: 5\ngpus: [h100, l40s]\n"


@pytest.fixture
def ask(capsys: Captured, tmp_path: Path) -> Ask:
    """Candidates of a plan file by GPU."""

    def answered(text: str, *arguments: str) -> Any:
        file = tmp_path / "plan.yaml"
        file.write_text(text, encoding="utf-8")
        assert main(["plan", str(file), *arguments, "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        return {each["gpu"]: each for each in plan["candidates"]}

    return answered


def test_one_key_stands_in_plans_price_files_and_the_configuration(
    ask: Ask, tmp_path: Path
) -> None:
    """A family covers its boards, except those named individually."""
    prices = tmp_path / "prices.yaml"
    settings = tmp_path / "rightsizer.yaml"
    prices.write_text(f"{KEY}\n", encoding="utf-8")
    settings.write_text(f"prices: {{{KEY}}}\n", encoding="utf-8")
    ways = (
        ask(f"{PLAN}prices: {{{KEY}}}\n"),
        ask(PLAN, "--prices", str(prices)),
        ask(PLAN, "--config.file", str(settings)),
    )

    for way in ways:
        each = {key: one["cost_per_hour"] / one["count"] for key, one in way.items()}
        assert each["H100-SXM5-80GB"] == pytest.approx(2.10)
        assert each["H100-SXM5-96GB"] == pytest.approx(2.10)
        assert each["H100-PCIE-80GB"] == pytest.approx(1.50)
        assert each["L40S"] == built_in_prices().dollars_per_hour("L40S")


def test_one_number_is_that_of_every_gpu_named(ask: Ask) -> None:
    """Without named GPUs it is refused."""
    found = ask(f"{PLAN}prices: {{dollars_per_gpu_hour: 3}}\n")

    assert {one["cost_per_hour"] / one["count"] for one in found.values()} == {3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "prices: {dollars_per_gpu_hour: {h999: 2}}",
            "prices: board 'h999' is not in the catalogue",
        ),
        (
            "prices: {dollars_per_gpu_hour: 2}",
            "is one number for no gpus; write it like {h100: 2.10}",
        ),
        (
            "prices: {dollars_per_gpu_hour: {h100: x}}",
            "prices.dollars_per_gpu_hour.h100: must be a",
        ),
    ],
)
def test_wrong_price_of_a_plan_is_reported(
    text: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    """With its key."""
    output = refusal(tmp_path / "plan.yaml", f"model: llama-3.1-8b\n{text}\n", capsys)

    assert message in output


def test_wrong_price_of_the_configuration_is_reported() -> None:
    """With the most similar boards."""
    with pytest.raises(ConfigurationError, match=r"prices.dollars_per_gpu_hour.l44: is no board"):
        read_prices(None, built_in(), PriceSettings({"l44": 1.0}))


def test_money_has_its_range_behind_it(ask: Ask) -> None:
    """From the lowest to the highest list price; a stated price has no range."""
    (found,) = ask("model: llama-3.1-8b\nrps: 5\ngpus: [H100-SXM5-80GB]\n").values()
    (paid,) = ask(
        "model: llama-3.1-8b\nrps: 5\ngpus: [H100-SXM5-80GB]\nprices: {H100-SXM5-80GB: 2}\n"
    ).values()
    listed = built_in_prices().by_board["H100-SXM5-80GB"].on_demand
    assert listed is not None

    for key in ("cost_per_hour", "cost_per_million_tokens", "cost_per_million_tokens_asked"):
        assert found[f"{key}_low"] < found[key] < found[f"{key}_high"]
    assert found["cost_per_hour_low"] == pytest.approx(listed.low_dollars_per_hour)
    assert found["cost_per_hour_high"] == pytest.approx(listed.high_dollars_per_hour)
    assert paid["cost_per_hour_low"] == paid["cost_per_hour"] == paid["cost_per_hour_high"]


def test_people_read_money_with_its_range(capsys: Captured) -> None:
    """In the table, in alternatives, and in growth."""
    line = ["plan", "--model", "llama-3.1-8b", "--rps", "50", "--gpus", "h100", "--details"]
    assert main(line) == 0
    text = capsys.readouterr().out

    (change,) = (line for line in text.splitlines() if "weights in fp8" in line)
    assert "$" in change
    assert " to " in text[text.index("weights in fp8") :].split(";")[0]
