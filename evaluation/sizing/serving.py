"""Serving predictions against measured times to and between tokens, beside the reference's form."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from evaluation.options import Options
from evaluation.sizing.serving_apart import is_computed_in_full, readings, server_of, set_apart
from evaluation.sizing.serving_fit import Constants, Linear, fit, fit_bunching
from evaluation.sizing.serving_intervals import interval_coverage
from evaluation.sizing.serving_offline import OFFLINE_FILE, distance, offline_rows, predicted
from evaluation.sizing.serving_peer import PeerTimes, peer_times
from evaluation.sizing.serving_published import published_errors
from evaluation.sizing.serving_queue import arrival_errors
from evaluation.sizing.serving_truth import FILE, Row, read_rows
from measured import as_rows, quantile, summarized, table
from profiler_environment import Absent
from rightsizer.catalogue.board import Precision
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.serving import Serving
from rightsizer.sizing.serving_settings import ServingModelSettings

MEDIAN_FLOOR: Final = 1.11
TAIL_FLOOR: Final = 1.35
_LEVEL: Final = 0.9

Judged = tuple[Row, Serving]
Groups = Sequence[tuple[str, Sequence[Judged]]]
COMPUTED: Final = "files that can be computed"
POSSIBLE: Final = "rows that can be computed"
_LONG_ANSWER: Final = 1000
_BY: Final = "by "
_ALL: Final = "all"
_ON_FILES: Final = (
    "\nA row *can be computed* if its prompts, at the measured rate with all requests in"
    " flight, are no more than the matrix units were measured to reach. Otherwise a prefix"
    " cache served a part or fewer requests were in flight, and constants are not fitted to"
    " the file. The closed form is the reference's.\n"
)
_ON_PEER: Final = (
    "\nBoth with their own defaults where a row does not say. It reads tables of kernels"
    " measured on these boards. Rows of a model that, by it, does not fit are left out for"
    " both.\n"
)
_ON_READINGS: Final = (
    "\nFiles that are set apart or miss the floor, read in other ways, with one fitted figure per"
    " file (none for the node's GPUs). First tokens are not fitted: predicted far too early, they"
    " show that more of the prompts was computed. Not used in the product, nor counted above.\n"
)
_ON_INTERVALS: Final = "\nWith files that are set apart.\n"
_ON_GPUS: Final = (
    "All files that can be computed are of one GPU; the constants are judged on long answers of"
    " other GPUs in files that are set apart, and on MLPerf's boards below.\n"
)


def evaluate(options: Options) -> Iterator[str]:
    """Errors on simulated arrivals, on published figures, and on measured rows."""
    yield from arrival_errors()
    yield from published_errors()
    if options.truth is None or not (options.truth / FILE).is_file():
        yield from interval_coverage(None)
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    yield from measured_errors(options.truth)


def measured_errors(truth: Path) -> Iterator[str]:
    """Errors by model, cross-validated, what may explain the misfits, how much intervals cover."""
    read = list(read_rows(truth / FILE))
    apart = set_apart(read)
    judged = [(row, server_of(row).at(row.concurrency)) for row in read]
    groups = list(_groups(judged, apart))
    headings: tuple[str, ...] = ("rows", "median", "p90", "closed form", "p90", "")
    yield summarized(_errors(groups), ("time between tokens", *headings), sums_up=_sums_up)
    yield _ON_FILES
    headings = ("time to the first token", "rows", "median", "p90")
    yield summarized(_first_tokens(groups), headings, sums_up=_sums_up)
    yield from beside_peer(truth / FILE, groups)
    fitted = ("rows", "us a layer, ns a request", "median", "p90", "")
    computed = [row for row in read if row.file not in apart]
    held_out = _held_out(computed)
    headings = ("left out", *fitted)
    yield summarized(held_out, headings, sums_up=lambda line: line[0].startswith(_BY))
    yield as_rows("\n".join(_behind(read, judged, apart)))
    yield table(_coverage(groups), ("90% intervals", "rows", "covered"))
    yield _ON_INTERVALS
    yield from interval_coverage(truth)
    if (truth / OFFLINE_FILE).is_file():
        yield from _offline(truth / OFFLINE_FILE)


def _sums_up(line: Sequence[str]) -> bool:
    return line[0] in {COMPUTED, POSSIBLE, _ALL}


def _behind(read: Sequence[Row], judged: Sequence[Judged], apart: Collection[str]) -> Iterator[str]:
    """Candidate explanations of the misfits, and constants fitted without some of the rows."""
    computed = [row for row in read if row.file not in apart]
    yield table(
        _explained(judged, apart),
        ("what may lie behind it", "rows", "TPOT", "p90", "TTFT", "p90", "TTFT predicted"),
    )
    yield _ON_READINGS
    yield _ON_GPUS
    fitted = ("rows", "us a layer, ns a request", "median", "p90", "")
    yield table(_other_gpus(read, computed), ("fitted on others", *fitted))
    yield _constants(computed)


def closed_form_ms(row: Row) -> float:
    """The reference's time between tokens: one roofline, sums over GPUs, the share of prompts."""
    model = row.requirement.model
    load = row.requirement.load
    gpus = row.layout.tensor
    assert isinstance(model, Transformer)
    board = row.board
    batch = row.concurrency
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


def _errors(groups: Groups) -> Iterator[tuple[str, ...]]:
    for title, group in groups:
        ours = _between(group)
        forms = [_apart(closed_form_ms(row), row.tpot_ms) for row, _ in group]
        yield (title, str(len(group)), *_factors(ours), *_factors(forms), _verdict(ours))


def _groups(
    judged: Sequence[Judged], apart: Collection[str]
) -> Iterator[tuple[str, Sequence[Judged]]]:
    kinds = {(row.file in apart, row.model_name, row.system, row.is_quantized) for row, _ in judged}
    for is_apart, name, system, is_quantized in sorted(kinds):
        number_format = "fp8" if is_quantized else "bf16"
        apart_text = ", set apart" if is_apart else ""
        yield (
            f"{name.rpartition('/')[2]}, {number_format}, {system}{apart_text}",
            [
                each
                for each in judged
                if (each[0].model_name, each[0].system, each[0].is_quantized)
                == (name, system, is_quantized)
            ],
        )
    yield COMPUTED, [each for each in judged if each[0].file not in apart]
    yield POSSIBLE, [each for each in judged if is_computed_in_full(each[0])]
    yield _ALL, judged


def _first_tokens(groups: Groups) -> Iterator[tuple[str, ...]]:
    for title, group in groups:
        yield (title, str(len(group)), *_factors(_first(group)))


def beside_peer(path: Path, groups: Groups) -> Iterator[str]:
    """The same errors beside those of a planner of other people, or why it is not there."""
    try:
        peer = peer_times(path)
    except Absent as reason:
        yield f"\nNot beside aiconfigurator: {reason}.\n"
        return
    yield ""
    yield summarized(
        _peer_errors(groups, peer),
        (
            "beside aiconfigurator 0.12.0",
            "rows",
            "TPOT",
            "p90",
            "its",
            "p90",
            "TTFT",
            "p90",
            "its",
            "p90",
        ),
        sums_up=_sums_up,
    )
    yield _ON_PEER


def _peer_errors(groups: Groups, peer: Mapping[str, PeerTimes]) -> Iterator[tuple[str, ...]]:
    for title, group in groups:
        both = [each for each in group if each[0].id in peer]
        if both:
            theirs = [(row, peer[row.id]) for row, _ in both]
            tpot = [_apart(times.tpot_ms, row.tpot_ms) for row, times in theirs]
            ttft = [_apart(times.ttft_ms, row.ttft_ms) for row, times in theirs]
            ours = (_factors(_between(both)), _factors(_first(both)))
            yield (title, str(len(both)), *ours[0], *_factors(tpot), *ours[1], *_factors(ttft))


def _explained(judged: Sequence[Judged], apart: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Of files that are set apart, and of those that miss the floor without."""
    files = {row.file: [each for each, _ in judged if each.file == row.file] for row, _ in judged}
    for file, rows in sorted(files.items()):
        stated, *others = readings(rows)
        if file not in apart and _is_kept(_between(stated.served)):
            continue
        for reading in (stated, *others):
            served = reading.served
            off = quantile((each.ttft_ms.value / row.ttft_ms for row, each in served), 0.5)
            cells = (*_factors(_between(served)), *_factors(_first(served)))
            yield (f"{Path(file).stem}: {reading.title}", str(len(served)), *cells, f"x{off:.2f}")


def _held_out(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Constants are fitted to files that can be computed, and judged on rows left out."""
    linear = [Linear.of(row) for row in rows]
    keys: tuple[tuple[str, Callable[[Row], str]], ...] = (
        ("model", lambda row: row.model_name),
        ("GPUs a model", lambda row: f"tensor parallel {row.layout.tensor}"),
    )
    for title, key in keys:
        gathered: list[float] = []
        for name in sorted({key(each.row) for each in linear}):
            constants = fit([each for each in linear if key(each.row) != name])
            apart = [abs(each.error(constants)) for each in linear if key(each.row) == name]
            gathered += apart
            yield (name, str(len(apart)), _spelled(constants), *_factors(apart), "")
        yield (f"{_BY}{title}", str(len(gathered)), "", *_factors(gathered), _verdict(gathered))
    yield ("nothing", str(len(linear)), _spelled(fit(linear)), "", "", "")


def _other_gpus(rows: Sequence[Row], computed: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Rows of a GPU that no computed file is of, where prompts count least."""
    known = {row.system for row in computed}
    fitted = fit([Linear.of(row) for row in computed])
    for system in sorted({row.system for row in rows} - known):
        linear = [
            Linear.of(row)
            for row in rows
            if row.system == system and row.requirement.load.output_tokens >= _LONG_ANSWER
        ]
        if not linear:
            continue
        title = f"{system}, answers of {_LONG_ANSWER} tokens and more"
        for name, constants in (("", fitted), (", as in use", Constants.of_product())):
            apart = [abs(each.error(constants)) for each in linear]
            cells = (*_factors(apart), _verdict(apart))
            yield (title + name, str(len(apart)), _spelled(constants), *cells)


def _constants(rows: Sequence[Row]) -> str:
    names = sorted({row.model_name for row in rows})
    others = [fit_bunching([row for row in rows if row.model_name != name]) for name in names]
    return (
        f"\nIn use: {_spelled(Constants.of_product())}, between what fits here and MLPerf's engines"
        f" below. Bunching of prompts: {fit_bunching(rows):.2f} by these rows, {min(others):.2f} to"
        f" {max(others):.2f} with a model left out. Nothing else is fitted to these rows.\n"
    )


def _offline(path: Path) -> Iterator[str]:
    """Other GPUs and engines, and what the time that a request adds does to them."""
    found = offline_rows(path)
    cells = (
        (row.board.key, row.round, f"{row.tokens_per_second:.0f}", f"{rate:.0f}")
        for row in found
        for rate in (predicted(row.board, ServingModelSettings()),)
    )
    yield as_rows(
        table(cells, ("llama2-70b Offline", "round", "tokens/s a GPU", "predicted")) + "\n"
    )
    errors = {
        each: distance(found, replace(Constants.of_product(), request=each).settings)
        for each in (0, Constants.of_product().request, 600)
    }
    spelled = ", ".join(
        f"x{math.exp(error):.2f} with {each} ns a request" for each, error in errors.items()
    )
    what = f"Llama 2 70B in MLPerf Offline, {len(found)} boards and rounds"
    yield f"{what}, median error: {spelled}.\n"


def _coverage(groups: Groups) -> Iterator[tuple[str, ...]]:
    times = (
        ("time between tokens", lambda row, serving: (serving.tpot_ms, row.tpot_ms)),
        ("time to the first token", lambda row, serving: (serving.ttft_ms, row.ttft_ms)),
    )
    for title, of in times:
        for name, group in groups[-3:]:
            covered = sum(_holds(*of(row, serving)) for row, serving in group)
            yield f"{title}, {name}", str(len(group)), f"{covered / len(group):.0%}"


def _between(judged: Sequence[Judged]) -> list[float]:
    return [_apart(serving.tpot_ms.value, row.tpot_ms) for row, serving in judged]


def _first(judged: Sequence[Judged]) -> list[float]:
    return [_apart(serving.ttft_ms.value, row.ttft_ms) for row, serving in judged]


def _holds(interval: EstimateInterval, measured: float) -> bool:
    return interval.low <= measured <= interval.high


def _apart(predicted: float, measured: float) -> float:
    return abs(math.log(predicted / measured))


def _factors(apart: Iterable[float]) -> Iterator[str]:
    distances = list(apart)
    return (f"x{math.exp(quantile(distances, share)):.2f}" for share in (0.5, _LEVEL))


def _verdict(apart: Sequence[float]) -> str:
    return "pass" if _is_kept(apart) else "FAIL"


def _is_kept(apart: Sequence[float]) -> bool:
    kept = quantile(apart, 0.5) <= math.log(MEDIAN_FLOOR)
    return kept and quantile(apart, _LEVEL) <= math.log(TAIL_FLOOR)


def _spelled(constants: Constants) -> str:
    return f"{constants.layer}, {constants.request}"
