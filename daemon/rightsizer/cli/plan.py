"""`rightsizer plan`: GPUs that fit a requirement; predictions beside recordings and profiles."""

from __future__ import annotations

import argparse
import json
import keyword
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rightsizer.catalogue.catalogue import read_catalogue
from rightsizer.catalogue.prices_file import read_prices
from rightsizer.console.command import Command, add_flags, say
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.planner.plan_file import PlanFile, flag_lines, plan_of_flags, read_plan_file
from rightsizer.planner.planner import PlanAnswer, Planner, plan_answers
from rightsizer.planner.settings import PlannerSettings
from rightsizer.planner.summary import LineKind, SummaryLine, plan_summary, show_summaries
from rightsizer.planner.text import measured_text, plan_text, title_lines

if TYPE_CHECKING:
    from rightsizer.planner.plan_check import PlanCheck


_DESCRIPTION = """\
From a model, its task and its load to the GPUs that fit: by memory, compute, bandwidth and latency,
then by what the work costs. In one line:

  rightsizer plan --model llama-3.1-70b --rps 20 --in 2000 --out 500 --ttft 1s --tpot 50ms
  rightsizer plan --model bert-base --rps 2000 --latency 20ms
  rightsizer plan --model sdxl --rps 5 --gpus h100,l40s
  rightsizer plan --model whisper-large-v3 --streams 200
  rightsizer plan --model 7B --train full --tokens 1e9

or in a file of one requirement, several documents, or a list, in YAML or JSON; it takes the words
of the flags and more (docs/planning.md):

  model: {config: path/to/config.json}
  precision: fp8
  load: {input_tokens: 2000, output_tokens: 300, requests_per_second: 10, tpot: 40ms}
  growth: {per_month: 0.1, months: 12}
  gpus: [L40S, H100, NVIDIA H200]

Nothing runs and nothing is asked over the network; each figure carries its interval.
"""


_QUESTION: Final = """
--model MODEL: name as on the hubs (llama-3.1-70b, google/gemma-3-27b-it, bert-base, sdxl), path of
  a config.json or of its folder, or size alone (70B)
--rps RATE: requests a second; a request is an answer, a sequence, an image, or 30 s of sound
--in TOKENS: tokens of a request's prompt
--out TOKENS: tokens of its answer
--ttft TIME: longest time to the first token, such as 1s, or p95=1s for 95 of 100 requests
--tpot TIME: longest time between tokens, such as 50ms
--latency TIME: longest time to the whole answer, such as 20ms
--arrivals KIND: of requests at a rate: bursty, poisson, steady, closed, or the squared coefficient
  of variation of the times between them; bursty without it
--engine NAME: vllm, sglang or tensorrt-llm; vllm without it
--streams COUNT: live streams of speech
--concurrency COUNT: requests in flight, in place of a rate
--precision FORMAT: format of the weights, such as fp8; bf16, or the checkpoint's own, without it
--gpus LIST: kinds of GPU, such as h100,h200,l40s; all that are known without it
--provider LIST: clouds whose instances and prices count, such as aws,gcp, or any for aws, gcp,
  azure, oci, lambda and coreweave; counts are whole instances of theirs
--spares COUNT: instances that may fail, 1 for N+1; without --provider, replicas
--train KIND: full, lora or qlora: train it instead of serving it
--tokens COUNT: tokens to train on in all, such as 1e9
"""
_WORDS: Final = tuple(re.findall("^--([a-z]+)", _QUESTION, re.MULTILINE))
_SOURCES: Final = """
--measured FILE: files of the model at work: of a recording, a profiler's traces, MLPerf logs; tells
  where the prediction was off
--board KEY: board of the catalogue that was measured, where the files do not say
--catalogue FILE: YAML file that changes or adds boards, as for 'rightsizer catalogue'; without it
  catalogue.boards_file of the configuration
--prices FILE: YAML file that changes or adds prices, in dollars per GPU-hour; without it
  catalogue.prices_file of the configuration
"""
_FORMS: Final = """
--html OUT: write the plan as one page of HTML too
--details: tell all of it: memory, costs on all terms, alternatives, growth, every check
--all: the same with all candidates, rejected ones too
--json: answer in JSON; bytes, milliseconds, tokens a second, dollars, hours
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """What is asked, by which facts, and how to answer."""
    file_help = "YAML or JSON of requirements, in place of --model"
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help=file_help)
    add_flags(parser.add_argument, _QUESTION, spares=int)
    measured = {"type": Path, "nargs": "+"}
    add_flags(parser.add_argument, _SOURCES, measured=measured, catalogue=Path, prices=Path)
    add_config_flag(parser)
    add_flags(parser.add_argument, _FORMS, html=Path)


def run(arguments: argparse.Namespace) -> int:
    """Plan, and print what came of it."""
    settings = settings_of(arguments, PlannerSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    prices_file = arguments.prices or settings.catalogue.prices_path
    prices = read_prices(prices_file, catalogue, settings.prices)
    planner = Planner(catalogue, prices, settings.sizing)
    file, found = _answered(arguments, planner)
    measured = _measured(arguments, file, found, planner)
    if arguments.html is not None:
        _write_html(arguments.html, arguments.file, found, _forms(found))
    if arguments.json:
        forms = _forms(found, measured)
        say(json.dumps(forms if file.is_list else forms[0], indent=1))
        return 0
    is_brief = not (arguments.details or arguments.all or measured)
    if is_brief:
        show_summaries([_summary(each) for each in found])
        return 0
    text_of = partial(plan_text, shows_all=arguments.all)
    texts = [text_of(e.plan, e.notes) if e.plan else f"error: {e.error}" for e in found]
    say("\n\n".join([*texts, *([measured_text(measured)] if measured else [])]))
    return 0


def _forms(found: Sequence[PlanAnswer], measured: PlanCheck | None = None) -> list[dict[str, Any]]:
    """The answers as JSON, the first with what was measured beside it."""
    # No text needs it.
    from rightsizer.planner.plan_encoder import encode_plan, encode_plan_check  # noqa: PLC0415

    forms: list[dict[str, Any]] = [
        encode_plan(each.plan, each.notes) if each.plan else {"error": each.error} for each in found
    ]
    if measured is not None:
        forms[0]["measured"] = encode_plan_check(measured)
    return forms


def _summary(found: PlanAnswer) -> Sequence[SummaryLine]:
    if found.plan is None:
        return (SummaryLine(f"error: {found.error}", LineKind.WARNING),)
    return plan_summary(found.plan, found.notes)


def _answered(
    arguments: argparse.Namespace, planner: Planner
) -> tuple[PlanFile, tuple[PlanAnswer, ...]]:
    """What is asked in a file or in flags, and what came of it."""
    flags = {
        word: getattr(arguments, f"{word}_" * keyword.iskeyword(word) or word) for word in _WORDS
    }
    given = {word: value for word, value in flags.items() if value is not None}
    if arguments.file is not None:
        if given:
            raise UsageError(f"--{next(iter(given))}: the file asks already; leave one of them out")
        file = read_plan_file(arguments.file)
        return file, plan_answers(file, planner)
    if "model" not in given:
        raise UsageError("--model: is missing; name a model, such as llama-3.1-70b, or give a FILE")
    file = plan_of_flags(given)
    try:
        return file, plan_answers(file, planner)
    except RequirementError as error:
        raise UsageError(flag_lines(str(error), given)) from None


def _write_html(
    path: Path, asked: Path | None, found: Sequence[PlanAnswer], forms: Sequence[dict[str, Any]]
) -> None:
    if asked is not None and path.resolve() == asked.resolve():
        raise UsageError(f"--html {path}: is the file of requirements; name another file")
    from rightsizer.io.files import whole_file  # noqa: PLC0415 - for a page alone.
    from rightsizer.planner.page import plan_document  # noqa: PLC0415 - jinja2 too.

    titles = (
        tuple(title_lines(each.plan.requirement, ())) if each.plan else (f"GPU plan {place}",)
        for place, each in enumerate(found, 1)
    )
    with whole_file(path, "plan") as out:
        out.write(plan_document(list(zip(titles, forms, strict=True))).encode())


def _measured(
    arguments: argparse.Namespace, file: PlanFile, found: tuple[PlanAnswer, ...], planner: Planner
) -> PlanCheck | None:
    if arguments.measured is None:
        return None
    requirement, plan = file.items[0].requirement, found[0].plan
    if file.is_list or requirement is None or plan is None:
        raise UsageError("--measured: a recording is of one model; give a file of one requirement")
    # Readers of recordings and profiles are half of all that would be loaded.
    from rightsizer.cli.plan_measured import check_plan  # noqa: PLC0415

    paths, board = arguments.measured, arguments.board
    return check_plan(requirement, planner, plan.candidates[0], paths, board)


COMMAND = Command("plan", configure, run, _DESCRIPTION)
