"""Twelve questions, each asked in one line; docs/planning.md shows their answers."""

import argparse
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli import plan as plan_command
from rightsizer.planner.display import large, number, priced, range_text
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.planner import GpuPlan, Planner, plan_answers
from rightsizer.sizing.requirement import ModelTask

PAGE: Final = Path(__file__).parents[2] / "docs" / "planning.md"
TABLE: Final = re.compile(r"(?<=<!-- questions -->\n).*?(?=<!-- end of questions -->)", re.DOTALL)
HEAD: Final = "| in words | `rightsizer plan` | first in rank | it delivers | dollars an hour |\n"
QUESTIONS: Final = {
    "Llama 70B for 20 requests a second, 2,000 tokens in and 500 out, the first token in a second,"
    " 50 ms between tokens": "--model llama-3.1-70b --rps 20 --in 2000 --out 500 --ttft 1s --tpot"
    " 50ms",
    "the same in fp8, on what we can get": "--model llama-3.1-70b --rps 20 --in 2000 --out 500"
    " --ttft 1s --tpot 50ms --precision fp8 --gpus h100,h200",
    "7B full fine-tune on a billion tokens": "--model 7B --train full --tokens 1e9",
    "QLoRA of a 70B on 10 million tokens": "--model llama-3.1-70b --train qlora --tokens 10M",
    "BERT at 2,000 requests a second with p99 20 ms": "--model bert-base --rps 2000 --latency 20ms",
    "embed 500 passages of 512 tokens a second with bge-m3": "--model bge-m3 --rps 500 --in 512",
    "SDXL, 5 images a second": "--model sdxl --rps 5",
    "Whisper for 200 live streams": "--model whisper-large-v3 --streams 200",
    "ResNet-50, 10,000 images a second within 50 ms": "--model resnet-50 --rps 10k --latency 50ms",
    "YOLO on 30 cameras of 30 frames a second": "--model yolov8m --rps 900 --latency 100ms",
    "Mixtral for 64 users at a time, 40 ms between tokens": "--model mixtral:8x7b --concurrency 64"
    " --tpot 40ms",
    "gpt-oss-120b, 5 requests a second, on AWS": "--model openai/gpt-oss-120b --rps 5"
    " --provider aws",
}
ANSWERS: Final = pytest.mark.parametrize("question", QUESTIONS)


@cache
def planned(question: str) -> GpuPlan:
    """The answer to a question's line."""
    parser = argparse.ArgumentParser()
    plan_command.COMMAND.configure(parser)
    flags = vars(parser.parse_args(QUESTIONS[question].split()))
    words = re.findall(r"--(\w+)", QUESTIONS[question])
    given = {word: flags.get(word, flags.get(f"{word}_")) for word in words}
    planner = Planner(built_in(), built_in_prices())
    (answered,) = plan_answers(plan_of_flags(given), planner)
    assert answered.plan is not None
    return answered.plan


def row(question: str) -> str:
    """A row of the page's table."""
    plan = planned(question)
    best = plan.candidates[0]
    rate = plan.candidates[0].rate
    assert rate.units_per_second is not None
    unit = plan.requirement.unit_text
    made = f"{number(rate.units_per_second.value)} {unit}/s ({range_text(rate.units_per_second)})"
    if rate.training_hours is not None:
        hours = rate.training_hours
        made = f"{number(hours.value)} h ({number(hours.low)} to {number(hours.high)}), {made}"
    cost = priced(best.dollars_per_hour, best.hourly_range)
    return f"| {question} | `{QUESTIONS[question]}` | {best} | {made} | {cost} |\n"


def test_page_shows_what_the_questions_answer(golden: Callable[[str | Path, str], None]) -> None:
    """Each as asked, with the unit and the range of each value."""
    table = HEAD + "|---|---|---|---|---|\n" + "".join(map(row, QUESTIONS))
    page = PAGE.read_text(encoding="utf-8")

    assert len(QUESTIONS) == 12
    golden(PAGE, TABLE.sub(lambda _: table, page))


@ANSWERS
def test_question_in_words_has_an_answer_with_a_price(question: str) -> None:
    """A candidate fits, and its cost has an interval."""
    best = planned(question).best

    assert best is not None
    assert best.dollars_per_million
    assert best.hourly_range is not None


@ANSWERS
def test_answer_meets_what_is_asked(question: str) -> None:
    """The rate, and each latency."""
    plan = planned(question)
    best = plan.best
    load = plan.requirement.load
    assert best is not None
    rate = best.rate
    assert rate.units_per_second is not None
    if plan.requirement.task is not ModelTask.INFERENCE:
        return
    assert rate.units_per_second.value >= (load.units_per_second or 0.0) * (1 - 1e-9)
    first = rate.ttft_ms
    assert first is not None
    between = None if rate.tpot_ms is None else rate.tpot_ms.value
    took = (
        (load.ttft_ms, first.value),
        (load.tpot_ms, between or 0.0),
        (load.latency_ms, load.answer_ms(first.value, between)),
    )
    assert all(most is None or value <= most for most, value in took)


@pytest.mark.parametrize(
    ("question", "fewest", "most"),
    [
        ("7B full fine-tune on a billion tokens", 1, 16),
        ("QLoRA of a 70B on 10 million tokens", 1, 4),
        ("BERT at 2,000 requests a second with p99 20 ms", 1, 2),
        ("ResNet-50, 10,000 images a second within 50 ms", 1, 4),
        ("Mixtral for 64 users at a time, 40 ms between tokens", 1, 8),
    ],
)
def test_answer_is_of_the_size_that_people_run(question: str, fewest: int, most: int) -> None:
    """LoRA in 4 bits takes 48 to 96 GB in total, BERT one GPU of any kind."""
    best = planned(question).best

    assert best is not None
    assert fewest <= best.count <= most


@pytest.mark.parametrize(
    ("value", "text"),
    [(70.6e9, "70.6 billion"), (999.4e9, "999 billion"), (999.7e9, "1 trillion"), (12.0, "12")],
)
def test_large_numbers_have_the_word_of_their_rounded_figure(value: float, text: str) -> None:
    """Never a thousand billions."""
    assert large(value) == text
