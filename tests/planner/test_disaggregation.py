"""Prefill and decode of a served model on GPUs of their own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from plan_answers import answer
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.planner import Planner
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.settings import MemorySettings, SizingSettings

Captured = pytest.CaptureFixture[str]
LONG = {"in": 8000, "out": 300, "requests_per_second": 20, "ttft": "2s", "tpot": "30ms"}


def requirement_of(model: str, tokens: str = "4000") -> Requirement:
    """A served model, by its name."""
    (item,) = plan_of_flags({"model": model, "in": tokens, "out": "500"}).items
    assert item.requirement is not None
    return item.requirement


def split(
    path: Path, capsys: Captured, load: dict[str, Any], **more: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The whole answer, and its alternatives of that kind."""
    asked = {"model": "llama-3.1-70b", "gpus": ["H200-SXM-141GB"], "load": load, **more}
    found = answer(path / "plan.yaml", json.dumps(asked), capsys)
    return found, [each for each in found["alternatives"] if each["kind"] == "disaggregation"]


def server(requirement: Requirement, *, is_prefilled: bool) -> Server:
    """On eight H100 of a server."""
    load = replace(requirement.load, is_prefilled=is_prefilled)
    memory = ServingMemory(
        replace(requirement, load=load), Parallelism(tensor=8), settings=MemorySettings()
    )
    return Server(memory, built_in().boards["H100-SXM5-80GB"])


def test_long_prompts_and_short_steps_are_cheaper_apart(tmp_path: Path, capsys: Captured) -> None:
    """Where few prompts fit beside a step that must be short, both parts take fewer GPUs."""
    found, (apart,) = split(tmp_path, capsys, LONG)
    together = found["candidates"][0]

    assert apart["candidate"]["fits"]
    assert apart["prompts"]["fits"]
    assert apart["candidate"]["count"] + apart["prompts"]["count"] < 0.9 * together["count"]
    on = r"\d+ x H200-SXM-141GB \(tensor .*\)"
    together = r"\$[\d.]+ an hour together"
    assert re.fullmatch(rf"prefill on {on}, decode on {on}: {together}", apart["change"])
    assert "GB/s of KV cache between them" in apart["caution"]


def test_prefill_proposes_no_tokens(tmp_path: Path, capsys: Captured) -> None:
    """A draft head speeds up decode alone."""
    short = {**LONG, "ttft": "3s", "tpot": "25ms"}
    _, (plain,) = split(tmp_path, capsys, short)
    _, (drafted,) = split(tmp_path, capsys, {**short, "speculative": 1})

    assert drafted["prompts"] == plain["prompts"]
    assert drafted["candidate"]["tpot_ms"] < plain["candidate"]["tpot_ms"]


def test_it_is_not_named_where_it_saves_nothing(tmp_path: Path, capsys: Captured) -> None:
    """A small load fits one GPU, and two parts need two."""
    load = {"in": 500, "out": 200, "requests_per_second": 0.5}
    _, found = split(tmp_path, capsys, load, model="llama-3.1-8b")

    assert found == []


@pytest.mark.parametrize(
    "load",
    [
        {"in": 8000, "out": 300, "concurrency": 64, "tpot": "30ms"},
        {"in": 8000, "out": 300, "requests_per_second": 20, "latency": "12s"},
        {"in": 8000, "out": 300, "requests_per_second": 20, "ttft": "2ms", "tpot": "30ms"},
    ],
)
def test_parts_without_a_size_are_not_planned(
    tmp_path: Path, capsys: Captured, load: dict[str, Any]
) -> None:
    """Without a rate, with one limit for both parts, or where the cache alone arrives too late."""
    _, found = split(tmp_path, capsys, load)

    assert found == []


def test_both_parts_share_the_budget(tmp_path: Path, capsys: Captured) -> None:
    """Each alone is within it, and both together are not."""
    asked = {"model": "llama-3.1-70b", "gpus": ["H200-SXM-141GB"], "load": LONG, "budget": 250}
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps(asked))
    assert main(["plan", str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)

    assert found["nothing_fits"]
    assert not [each for each in found["alternatives"] if each["kind"] == "disaggregation"]


def test_caches_take_the_links_of_a_rack_where_the_network_is_slow() -> None:
    """NVLink joins both parts on GB200; beyond eight H200 only the network does."""
    asked = {"model": "llama-3.1-70b", "in": 8000, "out": 300, "rps": 20, "ttft": "2s"}
    slow = ServingModelSettings(network_bytes_per_second=1e8)
    planner = Planner(built_in(), built_in_prices(), SizingSettings(serving=slow))

    def is_split(gpus: str) -> bool:
        (item,) = plan_of_flags({**asked, "tpot": "30ms", "gpus": gpus}).items
        assert item.requirement is not None
        found = planner.plan(item.requirement).alternatives
        return any(each.kind == "disaggregation" for each in found)

    assert is_split("GB200")
    assert not is_split("H200-SXM-141GB")
    assert not is_split("H100-NVL-94GB")  # Its bridge joins two.


def test_answers_alone_wait_for_no_prompt() -> None:
    """A step then takes what it takes without arrivals, and the rate grows."""
    requirement = requirement_of("llama-3.1-70b")
    both, alone = (server(requirement, is_prefilled=each) for each in (False, True))

    assert alone.prompt.seconds == 0.0
    assert alone.at(64.0).tpot_ms.value < both.at(64.0).tpot_ms.value
    assert alone.at(64.0).tokens_per_second.value > both.at(64.0).tokens_per_second.value


def test_prompts_cross_the_network_once_a_server() -> None:
    """DeepSeek-R1 over four servers: twice the prompts of one copy an expert, in 8 bits.

    Source: 50,302 tokens/s of four servers each with 4K prompts (lmsys.org, 2025-05-05), with
    balanced experts and overlapped batches; about half of it without.
    """
    (item,) = plan_of_flags({"model": "deepseek-r1", "precision": "fp8", "in": "4096"}).items
    assert item.requirement is not None
    memory = ServingMemory(
        item.requirement, Parallelism(data=32, expert=32), settings=MemorySettings()
    )
    forward = Server(memory, built_in().boards["H100-SXM5-80GB"]).forward
    published = 50302.0 / 8.0

    made = 16384.0 / forward.prompts(4096.0, 4.0).seconds
    assert 0.45 * published < made < published
