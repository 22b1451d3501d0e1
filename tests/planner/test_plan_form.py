"""`rightsizer plan --form`: the page of the form, and its answer."""

import argparse
import html
import json
import re
from pathlib import Path

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.cli.plan import COMMAND
from rightsizer.planner.form import FIELDS, form_document
from rightsizer.planner.planner import Planner

PLANNER = Planner(built_in(), built_in_prices())


def faults_of(query: str) -> list[str]:
    """The errors on the page."""
    page = form_document(query, PLANNER)
    return [html.unescape(each) for each in re.findall(r'role="alert">(.*?)</p>', page)]


def test_an_empty_form_asks_for_a_model_and_answers_nothing() -> None:
    """All fields and no table; a browser also submits empty fields."""
    page = form_document("model=&rps=", PLANNER)
    assert "<table" not in page
    assert "alert" not in page
    assert '<option value="Llama-3.1-70B">' in page
    assert '<a href="./">Overview</a>' in page


def test_a_question_is_answered_as_the_command_answers_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first choice is the same; entered values stay in the form."""
    asked = {"model": "llama-3.1-70b", "rps": "20", "in": "2000", "out": "500", "ttft": "1s"}
    page = form_document("&".join(f"{word}={value}" for word, value in asked.items()), PLANNER)
    assert main(["plan", "--json", *(f"--{word}={value}" for word, value in asked.items())]) == 0
    best = json.loads(capsys.readouterr().out)["candidates"][0]
    assert f'<p class="best">Take {best["count"]} x {best["gpu"]}' in page
    assert all(f'value="{value}"' in page for value in asked.values())
    assert "TTFT &lt;= 1000 ms" in page


def test_every_field_is_a_flag_of_the_command() -> None:
    """With a label, in a place of its own."""
    parser = argparse.ArgumentParser()
    COMMAND.configure(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    words = [field.word for fields in FIELDS.values() for field in fields]
    assert {f"--{word}" for word in words} <= flags
    assert len(words) == len(set(words))


def test_choices_are_what_the_planner_takes() -> None:
    """None of them is refused."""
    for query in ("engine=sglang", "engine=vllm", "engine=tensorrt-llm"):
        assert faults_of(f"model=8B&rps=1&{query}") == []
    for kind in ("full", "lora", "qlora"):
        assert faults_of(f"model=8B&train={kind}&tokens=1e8&gpus=h100") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("rps=20", "model: give a name as on the hubs"),
        ("model=llama-9x&rps=1", "model: 'llama-9x' is none of the models that are known by name"),
        ("model=sdxl&rps=2x", "Requests a second: must be a number (got '2x')"),
        ("model=sdxl&rqs=2", "rqs: is no field; there are"),
    ],
)
def test_invalid_field_shows_its_error(query: str, said: str) -> None:
    """With the command's message without dashes; there is no answer."""
    (fault,) = faults_of(query)
    assert fault.startswith(said)


def test_words_beside_a_name_are_for_fields() -> None:
    """The form has no flags."""
    (fault,) = faults_of("model=qwen3-8b+on+l4&rps=1")
    assert fault.startswith("model: 'on l4' is no part of the name in 'qwen3-8b on l4'; ")
    assert fault.endswith("tp: 4, train: lora")
    assert "--" not in fault


@pytest.mark.parametrize("name", ["config.json", "", "."])
def test_no_file_of_the_node_is_read(tmp_path: Path, name: str) -> None:
    """In any notation: readers of the page need not have access to the node."""
    config = '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}'
    (tmp_path / "config.json").write_text(config, "utf-8")
    for path in (tmp_path / name, Path("~") / name, Path("..") / ".." / name):
        assert faults_of(f"model={path}&rps=1") != []


def test_entered_text_is_escaped() -> None:
    """Markup in a shared link never becomes markup of the page."""
    page = form_document("model=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&rps=1", PLANNER)
    assert "<script" not in page
