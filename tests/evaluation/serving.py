"""Serving predictions against measured times to and between tokens, beside the reference's form."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from evaluation.options import Options
from evaluation.serving_fit import Constants, Linear, fit, fit_bunching
from evaluation.serving_offline import OFFLINE_FILE, distance, offline_rows, predicted
from evaluation.serving_truth import FILE, Row, read_rows
from measured import quantile, table
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.serving import Server, Serving
from rightsizer.sizing.serving_memory import serving_memory
from rightsizer.sizing.serving_settings import ServingSettings

__all__ = ["closed_form_ms", "evaluate", "is_computed_in_full"]

MEDIAN_FLOOR: Final = 1.11
TAIL_FLOOR: Final = 1.35
_LEVEL: Final = 0.9

Judged = tuple[Row, Serving]


def evaluate(options: Options) -> Iterator[str]:
    """Errors by model, cross-validated by GPU and by model, and how much intervals cover."""
    if options.truth is None or not (options.truth / FILE).is_file():
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    rows = list(read_rows(options.truth / FILE))
    judged = [(row, _server(row).at(row.concurrency)) for row in rows]
    yield table(
        _errors(judged),
        ("time between tokens", "rows", "median", "p90", "closed form", "p90", ""),
    )
    yield (
        "\nThe line *computed in full* leaves out rows whose prompts, at the rate that was measured"
        ", are more than the matrix units were measured to reach: a cache of prefixes must have"
        " served a part of them, and how much the file does not tell. The closed form is that of"
        " the reference.\n"
    )
    yield table(_first_tokens(judged), ("time to the first token", "rows", "median", "p90"))
    yield ""
    yield table(_held_out(rows), ("left out", "rows", "us a layer, a request", "median", "p90", ""))
    yield _constants(rows)
    yield table(_coverage(judged), ("90 % intervals", "rows", "covered"))
    yield ""
    if (options.truth / OFFLINE_FILE).is_file():
        yield from _offline(options.truth / OFFLINE_FILE)


def is_computed_in_full(row: Row) -> bool:
    """Whether matrix units could have computed all prompts at the rate that was measured."""
    server = _server(row)
    seconds = (row.ttft_ms + row.requirement.load.output_tokens * row.tpot_ms) / 1e3
    running = min(row.concurrency, server.capacity.requests)
    return running * server.prompt.compute <= seconds


def closed_form_ms(row: Row) -> float:
    """The reference's time between tokens: one roofline, sums over GPUs, the share of prompts."""
    model, load, gpus = row.requirement.model, row.requirement.load, row.layout.tensor
    board, batch = row.board, row.concurrency
    precision = Precision.FP8 if row.is_quantized else Precision.BF16
    speed = gpus * (0.55 if row.is_quantized else 0.7) * (board.peak(precision) or math.nan)
    reading = gpus * 0.8 * board.memory_bandwidth_bytes_per_second
    width = 1.0 if row.is_quantized else 2.0
    count = count_parameters(model)
    context = load.input_tokens + load.output_tokens / 2
    cache = 2 * model.layers * (model.kv_heads or 0) * (model.head_dim or 128) * width * context

    def exchange(tokens: float) -> float:
        latency = model.layers * 30e-6
        if gpus == 1:
            return latency
        payload = 2 * (gpus - 1) / gpus * tokens * model.hidden * 2
        bandwidth = board.all_reduce[gpus].bytes_per_second
        return latency + 2 * model.layers * (15e-6 + payload / bandwidth)

    weights = count.active * width + batch * cache
    step = max(weights / reading, 2 * count.linear * batch / speed) + exchange(batch)
    tokens = load.input_tokens
    flops = 2 * count.linear * tokens + 2 * model.layers * tokens**2 * model.hidden
    prompt = flops / speed + exchange(tokens)
    return 1e3 * (step + prompt * batch / load.output_tokens)


def _server(row: Row) -> Server:
    return Server.of(serving_memory(row.requirement, row.layout), row.board)


def _errors(judged: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    for title, group in _groups(judged):
        ours = [_apart(serving.tpot_ms.value, row.tpot_ms) for row, serving in group]
        forms = [_apart(closed_form_ms(row), row.tpot_ms) for row, _ in group]
        yield (title, str(len(group)), *_factors(ours), *_factors(forms), _verdict(ours))


def _groups(judged: Sequence[Judged]) -> Iterator[tuple[str, Sequence[Judged]]]:
    kinds = {(row.model_name, row.system, row.is_quantized) for row, _ in judged}
    for name, system, is_quantized in sorted(kinds):
        form = "fp8" if is_quantized else "bf16"
        yield (
            f"{name.rpartition('/')[2]}, {form}, {system}",
            [
                each
                for each in judged
                if (each[0].model_name, each[0].system, each[0].is_quantized)
                == (name, system, is_quantized)
            ],
        )
    yield "computed in full", [each for each in judged if is_computed_in_full(each[0])]
    yield "all", judged


def _first_tokens(judged: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    for title, group in _groups(judged):
        apart = [_apart(serving.ttft_ms.value, row.ttft_ms) for row, serving in group]
        yield (title, str(len(group)), *_factors(apart))


def _held_out(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Constants are fitted to rows that were computed in full, and judged on those left out."""
    linear = [Linear.of(row) for row in rows if is_computed_in_full(row)]
    keys: tuple[tuple[str, Callable[[Row], str]], ...] = (
        ("GPU", lambda row: row.system),
        ("model", lambda row: row.model_name),
    )
    for title, key in keys:
        gathered: list[float] = []
        for name in sorted({key(each.row) for each in linear}):
            constants = fit([each for each in linear if key(each.row) != name])
            apart = [abs(each.error(constants)) for each in linear if key(each.row) == name]
            gathered += apart
            yield (name, str(len(apart)), _spelled(constants), *_factors(apart), "")
        yield (f"by {title}", str(len(gathered)), "", *_factors(gathered), _verdict(gathered))
    yield ("nothing", str(len(linear)), _spelled(fit(linear)), "", "", "")


def _constants(rows: Sequence[Row]) -> str:
    names = sorted({row.model_name for row in rows})
    others = [fit_bunching([row for row in rows if row.model_name != name]) for name in names]
    return (
        f"\nIn use: {_spelled(Constants.of_product())} us; what a request adds lies between "
        "what fits here and what fits MLPerf's engines below. Bunching of prompts: "
        f"{fit_bunching(rows):.2f} by all rows, {min(others):.2f} to {max(others):.2f} with a model"
        " left out. Nothing else is fitted to these rows: what boards reach is the catalogue's.\n"
    )


def _offline(path: Path) -> Iterator[str]:
    """Other GPUs and engines, and what the time that a request adds does to them."""
    rows = offline_rows(path)
    cells = (
        (row.board.key, row.round, f"{row.tokens_per_second:.0f}", f"{rate:.0f}")
        for row in rows
        for rate in (predicted(row.board, ServingSettings()),)
    )
    yield table(cells, ("llama2-70b Offline", "round", "tokens/s a GPU", "predicted"))
    errors = {
        each: distance(rows, replace(Constants.of_product(), request=each).settings)
        for each in (0, 30, 46)
    }
    spelled = ", ".join(
        f"x{math.exp(error):.2f} with {each} us a request" for each, error in errors.items()
    )
    yield f"\nMedian error: {spelled}.\n"


def _coverage(judged: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    times = (
        ("time between tokens", lambda row, serving: (serving.tpot_ms, row.tpot_ms)),
        ("time to the first token", lambda row, serving: (serving.ttft_ms, row.ttft_ms)),
    )
    for title, of in times:
        covered = sum(_holds(*of(row, serving)) for row, serving in judged)
        yield title, str(len(judged)), f"{covered / len(judged):.0%}"


def _holds(interval: Interval, measured: float) -> bool:
    return interval.low <= measured <= interval.high


def _apart(predicted: float, measured: float) -> float:
    return abs(math.log(predicted / measured))


def _factors(apart: Iterable[float]) -> Iterator[str]:
    distances = list(apart)
    return (f"x{math.exp(quantile(distances, share)):.2f}" for share in (0.5, _LEVEL))


def _verdict(apart: Sequence[float]) -> str:
    kept = quantile(apart, 0.5) <= math.log(MEDIAN_FLOOR)
    kept = kept and quantile(apart, _LEVEL) <= math.log(TAIL_FLOOR)
    return "pass" if kept else "FAIL"


def _spelled(constants: Constants) -> str:
    return f"{constants.layer}, {constants.request}"
