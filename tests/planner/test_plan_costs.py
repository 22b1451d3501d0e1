"""`rightsizer plan`: costs in every form, growth, settings, and unknown GPUs."""

import json
import math
from pathlib import Path

import pytest

from plan_answers import SHAPE, answer, refusal
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the requirements."""
    return tmp_path / "plan.yaml"


def test_a_change_of_gpu_that_growth_makes_due_is_reported(file: Path, capsys: Captured) -> None:
    """One cheap GPU today may need many expensive ones soon."""
    asked = {
        "model": SHAPE,
        "load": {"tokens_per_second": 150},
        "growth": {"per_month": 0.5, "months": 10},
        "gpus": ["L4", "H100-SXM5-80GB"],
        "prices": {"L4": 0.5, "H100-SXM5-80GB": 2.5},
    }
    plan = answer(file, json.dumps(asked), capsys)
    switch = plan["growth_outlook"]["switch"]

    assert plan["candidates"][0]["gpu"] == "L4"
    assert switch["gpu"] == "H100-SXM5-80GB"
    assert 1 <= switch["month"] <= 10
    assert main(["plan", str(file)]) == 0
    assert f"Change over in month {switch['month']} to " in capsys.readouterr().out


def test_a_candidate_has_its_costs_in_every_form(file: Path, capsys: Captured) -> None:
    """Offers with source and date, owning with its break-even, energy, and optional carbon."""
    text = "model: {parameters: 8e9}\ngpus: [H100-SXM5-80GB]\n"
    grams = "prices: {carbon_grams_per_kwh: 400}\n"
    found = answer(file, text + grams, capsys)["candidates"][0]
    costs = found["costs"]
    by_terms = {each["billing"]: each for each in costs["offers"]}
    demand = by_terms["on_demand"]

    assert list(by_terms) == [
        "on_demand",
        "reserved_1_year",
        "reserved_3_years",
        "spot",
        "on_premises",
    ]
    assert demand["cost_per_hour"] == pytest.approx(found["cost_per_hour"])
    assert demand["cost_per_hour_low"] < demand["cost_per_hour"] < demand["cost_per_hour_high"]
    assert demand["cost_per_million_tokens"] == pytest.approx(found["cost_per_million_tokens"])
    assert all(each["source"] and each["date"] for each in costs["offers"])
    assert costs["on_premises"]["break_even_hours"] > 0
    assert costs["on_premises"]["break_even_months"] > 0
    kilowatts = costs["energy"]["kilowatts"]
    assert costs["carbon"]["kilograms_per_hour"] == pytest.approx(0.4 * kilowatts)
    assert answer(file, text, capsys)["candidates"][0]["costs"]["carbon"] is None


def test_costs_of_what_is_asked_for_and_of_what_could_be_made_are_distinguished(
    file: Path, capsys: Captured
) -> None:
    """The table ranks by the demand; the details have both, named, at the same price."""
    asked = {"model": SHAPE, "load": {"tokens_per_second": 150}, "gpus": ["H100-SXM5-80GB"]}
    found = answer(file, json.dumps(asked), capsys)["candidates"][0]
    assert main(["plan", str(file), "--details"]) == 0
    text = capsys.readouterr().out
    (header,) = (line for line in text.splitlines() if "full load  " in line)
    row = text.splitlines()[text.splitlines().index(header) + 1]

    wanted = found["cost_per_million_tokens_asked"]
    full = found["cost_per_million_tokens"]
    assert wanted > full
    assert f"{wanted:,.2f}" in row
    assert (f"{full:,.2f}" if full >= 0.1 else f"{full:.2g}") in row
    assert "$/M: of output tokens asked for; full load: of all it could make." in text
    assert "output tokens at full load" in text


def test_plan_without_a_load_has_one_cost(file: Path, capsys: Captured) -> None:
    """Without a stated load, demand equals capacity."""
    file.write_text(json.dumps({"model": SHAPE, "gpus": ["L4"]}), encoding="utf-8")
    assert main(["plan", str(file), "--details"]) == 0
    text = capsys.readouterr().out

    assert "$/M output tokens" in text
    assert "full load" not in text


def test_a_configuration_is_used_where_it_is_named(file: Path, capsys: Captured) -> None:
    """Settings, boards and prices; flags override it."""
    own = file.with_name("prices.yaml")
    own.write_text("boards: {L4: {on_demand: 3.5}}\n", encoding="utf-8")
    settings = file.with_name("rightsizer.yaml")
    settings.write_text(
        f"catalogue: {{prices_file: {own}}}\n"
        "sizing: {memory: {driver_reserved: 4GiB}, cost: {carbon_grams_per_kilowatt_hour: 50}}\n",
        encoding="utf-8",
    )
    flag = file.with_name("others.yaml")
    flag.write_text("boards: {L4: {on_demand: 4.5}}\n", encoding="utf-8")
    text = "model: {parameters: 1e9}\ngpus: [L4]\nload: {concurrency: 4}\n"
    named = ("--config.file", str(settings))
    usual, found, flagged = (
        answer(file, text, capsys, *more)["candidates"][0]
        for more in ((), named, (*named, "--prices", str(flag)))
    )

    assert found["memory_headroom_ratio"] < usual["memory_headroom_ratio"]
    assert found["costs"]["carbon"]["grams_per_kwh"] == 50
    assert (found["cost_per_hour"], flagged["cost_per_hour"]) == (3.5, 4.5)


def test_a_gpu_that_nobody_knows_has_a_remedy(file: Path, capsys: Captured) -> None:
    """The remedy works."""
    text = "model: {parameters: 1e9}\ngpus: [LAB-1]\n"
    assert "describe it in a file of boards (--catalogue FILE" in refusal(file, text, capsys)

    boards = file.with_name("boards.yaml")
    boards.write_text(
        "boards:\n  LAB-1: {architecture: Hopper, compute_capability: '9.0', sm_count: 100,"
        " memory_mib: 65536, memory_bandwidth_gbs: 2000, power_limit_watts: 300,"
        " dense_peak_tera: {bf16: 500}}\n",
        encoding="utf-8",
    )
    found = answer(file, text, capsys, "--catalogue", str(boards))["candidates"][0]

    assert found["fits"]
    assert found["cost_per_hour"] is None
    assert found["costs"]["offers"] == []
    assert found["costs"]["energy"]["kilowatts"] > 0


def test_your_own_prices_go_before_the_catalogues(file: Path, capsys: Captured) -> None:
    """Prices of the plan override those of a file, and those override the packaged ones."""
    own = file.with_name("prices.yaml")
    own.write_text("boards: {L4: {on_demand: 3.5}, L40S: {on_demand: 4.5}}\n", encoding="utf-8")
    text = "model: {parameters: 1e9}\ngpus: [L4, L40S]\nprices: {NVIDIA L40S: 9}\n"
    plan = answer(file, text, capsys, "--prices", str(own))

    costs = {each["gpu"]: each["cost_per_hour"] for each in plan["candidates"]}
    assert costs == {"L4": 3.5, "L40S": 9.0}


@pytest.mark.parametrize("asked", [1e-6, 1e-3])
def test_a_load_of_next_to_nothing_has_finite_costs(
    asked: float, file: Path, capsys: Captured
) -> None:
    """For the smallest valid load; JSON has no infinity."""
    load = {"tokens_per_second": asked}
    found = answer(file, json.dumps({"model": SHAPE, "gpus": ["L4"], "load": load}), capsys)

    assert math.isfinite(found["candidates"][0]["cost_per_million_tokens_asked"])


@pytest.mark.parametrize("per_month", [-0.99, -0.5])
def test_a_load_that_shrinks_is_planned(per_month: float, file: Path, capsys: Captured) -> None:
    """Down to almost nothing."""
    asked = {
        "model": SHAPE,
        "gpus": ["L4"],
        "load": {"tokens_per_second": 500, "concurrency": 16},
        "growth": {"per_month": per_month, "months": 120},
    }
    assert answer(file, json.dumps(asked), capsys)["growth"][-1]["month"] == 120


def test_a_load_that_is_gone_is_refused(file: Path, capsys: Captured) -> None:
    """Costs per unit of nothing are undefined."""
    asked = {"model": SHAPE, "load": {"concurrency": 4}, "growth": {"per_month": -1, "months": 2}}

    assert "growth.per_month: must be between -0.99" in refusal(file, json.dumps(asked), capsys)
