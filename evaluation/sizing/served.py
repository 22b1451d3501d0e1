"""Engines that run: prediction beside measurement, and what a site's residuals change of others.

Measured rows become loads of engines, on the board that measured them. A site is what one source
measured; its residuals are learned on half of its models and scored on the other half, both ways.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from engine_pages import EnginePage
from evaluation.options import Options
from evaluation.sizing.serving_apart import set_apart
from evaluation.sizing.serving_published import published_mixtures
from evaluation.sizing.serving_truth import FILE, Row, read_rows
from evaluation.sizing.unfitted import predictions
from measured import quantile, table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.io.yaml import load_yaml
from rightsizer.model.served_load import ServedLoad
from rightsizer.planner.plan_file import plan_of_keys
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.engine import NOTHING_STATED, served_engine
from rightsizer.planner.served.prediction import ServedPrediction, predict
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.serving import site_subject
from rightsizer.sizing.site import (
    SiteFigure,
    SiteLoad,
    SiteResidual,
    SiteResiduals,
    SiteShares,
    log_deviation,
)
from rightsizer.telemetry.serving.page import parse_page
from rightsizer.telemetry.serving.served import served_loads

_PLANNER: Final = Planner(built_in(), built_in_prices())
_REQUESTS: Final = 1000.0
"""Counted on a page."""
_BOUNDS: Final = tuple(1e-3 * 2.0**power for power in range(28))
_TIMES: Final = {"TPOT": SiteFigure.TPOT, "TTFT": SiteFigure.TTFT}
_CHOICES: Final = tuple(
    SiteShares(site, engine_board, model, subject)
    for site in (0.0, 0.05, 0.1, 0.2)
    for engine_board in (0.0, 0.05, 0.1, 0.2)
    for model in (0.0, 0.1, 0.2, 0.3)
    for subject in (0.2, 0.4, 0.6)
    if site + engine_board + model + subject <= 0.85
)
"""Parts of the variance that are tried."""
_EQUAL: Final = SiteShares(0.2, 0.2, 0.2, 0.2)
_HEADINGS: Final = (
    "residuals",
    "rows",
    "median",
    "p90",
    "covered",
    "width",
    "after: median",
    "p90",
    "covered",
    "width",
)
_ON_LOADS: Final = (
    "\nEach row as the page of an engine (model, rate, tokens, requests in flight, latencies) on "
    "its board, predicted by `rightsizer served` without residuals. Rows of files that can be "
    "computed are those that constants of serving were fitted to; the others were set apart. A "
    "load does not tell that their clients sent each request after an answer: its first token is "
    "predicted between that and random arrivals.\n"
)
_ON_RESIDUALS: Final = (
    "\nLearned on half of the models of each source and scored on the other half, both ways; "
    "*other loads*: on half of the loads of each engine, model and board, scored on the other "
    "half. *Never fitted*: published figures of `unfitted_figures.csv` that no constant was "
    "chosen by; rates are taken as times between tokens. *Equal*: the parts of the variance that "
    "predictions have in common are equal, which nothing was chosen for; *nested*: those that "
    "make the halves of all other sources likeliest. Covered: by 90% intervals. Width: median "
    "factor from the middle to the ends.\n"
)
_ON_SHARES: Final = (
    "\nOf all sources together: site {site:g}, engine and board {engine_board:g}, model "
    "{model:g}, one engine {subject:g}, one load {own:g}; the product's are {product}. What was "
    "measured tells of other loads of the same engine, hardly of other models.\n"
)
_ALL: Final = ""


class SiteRow(Struct, frozen=True):
    """A measured time with its prediction."""

    site: str
    is_fitted: bool
    """Whether constants of serving were chosen by rows of its kind."""
    residual: SiteResidual
    below: float
    """Logarithm of the factor from the interval's low end to its middle."""
    above: float

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.residual.subject.model


class Scored(Struct, frozen=True):
    """Error of a row, and the interval that it should be in."""

    error: float
    below: float
    above: float

    @property
    def is_covered(self) -> bool:
        """Whether the interval holds it."""
        return -self.below <= self.error <= self.above


def evaluate(options: Options) -> Iterator[str]:
    """Tables of predictions beside measurements, and of residuals learned and scored."""
    rows: list[SiteRow] = []
    if options.truth is not None and (options.truth / FILE).is_file():
        yield from _loads(options.truth, rows)
    else:
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
    rows += [*_mixtures(), *_unfitted()]
    chosen = _chosen(rows)
    yield table(_residuals(rows, chosen), _HEADINGS)
    yield _ON_RESIDUALS
    best = chosen[_ALL]
    product = "the same" if best == SiteShares() else str(SiteShares())
    yield _ON_SHARES.format(**asdict(best), own=best.own, product=product)


def load_of(row: Row) -> ServedLoad:
    """Return a measurement as the load of an engine, read from its page; GPUs are its node's."""
    asked = row.requirement.load
    seconds = 1e-3 * (row.ttft_ms + row.tpot_ms * asked.output_tokens)
    page = EnginePage("vllm:", {"model_name": row.model_name})
    page.level("num_requests_running", row.concurrency)
    page.count("request_success", _REQUESTS, finished_reason="stop")
    for name, value in (
        ("time_to_first_token_seconds", 1e-3 * row.ttft_ms),
        ("inter_token_latency_seconds", 1e-3 * row.tpot_ms),
        ("request_prompt_tokens", asked.input_tokens),
        ("request_generation_tokens", asked.output_tokens),
    ):
        page.observe(name, value, bounds=_BOUNDS)
    (load,) = served_loads(parse_page(page.page()), None, _REQUESTS * seconds / row.concurrency)
    layout = row.layout
    return replace(
        load,
        requests_running=row.concurrency,
        devices=tuple(f"GPU-{number}" for number in range(layout.tensor * layout.pipeline)),
        board=row.board.names[0],
        weight_format=str(row.requirement.precision.weights),
        cache_format=str(row.requirement.precision.kv_cache),
        tensor=layout.tensor,
    )


def _loads(truth: Path, rows: list[SiteRow]) -> Iterator[str]:
    """Yield errors by model; add the rows."""
    read = list(read_rows(truth / FILE))
    apart = set_apart(read)
    lines: dict[tuple[str, str], list[Scored]] = {}
    for row in read:
        engine = served_engine(load_of(row), _PLANNER, NOTHING_STATED)
        prediction = predict(engine, _PLANNER)
        is_fitted = row.file not in apart
        kind = "computed" if is_fitted else "set apart"
        for found in _rows_of(prediction, f"aiconfigurator, {kind}", is_fitted=is_fitted):
            rows.append(found)
            name = f"{found.residual.figure.name}, {engine.model}, {engine.board.key}, {kind}"
            lines.setdefault((kind, name), []).append(_plain(found))
    cells = ((name, *_cells(scored)) for (_, name), scored in sorted(lines.items()))
    yield table(cells, ("engines that run", "rows", "median", "p90", "covered", "width"))
    yield _ON_LOADS


def _rows_of(prediction: ServedPrediction, site: str, *, is_fitted: bool) -> Iterator[SiteRow]:
    engine = prediction.engine
    load = engine.requirement.load
    subject = site_subject(engine.requirement, engine.layout, engine.board.key)
    in_flight = (engine.in_flight or 1.0) / engine.layout.data
    where = SiteLoad.of(in_flight, load.input_tokens, load.output_tokens)
    for figure in SiteFigure:
        found = prediction.figure(figure)
        if found is not None and found.predicted is not None:
            residual = SiteResidual(subject, where, figure, 0.0, 0.0)
            measured = found.measured
            yield _site_row(site, residual, measured, found.predicted, is_fitted=is_fitted)


def _site_row(
    site: str,
    residual: SiteResidual,
    measured: float,
    predicted: EstimateInterval,
    *,
    is_fitted: bool,
) -> SiteRow:
    below = predicted.value / predicted.low
    above = predicted.high / predicted.value
    learned = replace(
        residual,
        log_ratio=math.log(measured / predicted.value),
        log_deviation=log_deviation(below, above),
    )
    return SiteRow(site, is_fitted, learned, math.log(below), math.log(above))


def _mixtures() -> Iterator[SiteRow]:
    """Yield published times of mixtures, by source."""
    for row in published_mixtures():
        asked = {"model": row.model, "precision": row.format, "engine": row.engine}
        (item,) = plan_of_keys({**asked, "in": row.input_tokens, "out": row.output_tokens}).items
        assert item.requirement is not None
        subject = site_subject(item.requirement, Parallelism(row.gpus), row.board)
        where = SiteLoad.of(row.concurrency, row.input_tokens, row.output_tokens)
        for what, measured, predicted in row.measures():
            figure = _TIMES.get(what)
            if figure is not None:
                residual = SiteResidual(subject, where, figure, 0.0, 0.0)
                site = f"mixtures, {row.source.partition(' ')[0]}"
                yield _site_row(site, residual, measured, predicted, is_fitted=True)


def _unfitted() -> Iterator[SiteRow]:
    """Yield published times and rates of serving, by source."""
    for prediction in predictions():
        figure = prediction.figure
        if not figure.domain.startswith(("serving", "first token")):
            continue
        (item,) = plan_of_keys(load_yaml(figure.question, "").data).items
        requirement = item.requirement
        assert requirement is not None
        layout = requirement.parallel or Parallelism()
        load = requirement.load
        subject = site_subject(requirement, layout, built_in().get(requirement.gpus[0]).key)
        in_flight = (load.concurrency or 1.0) / layout.data
        where = SiteLoad.of(in_flight, load.input_tokens, load.output_tokens)
        is_rate = figure.quantity == "units_per_second"
        kind = SiteFigure.TPOT if is_rate else SiteFigure(figure.quantity)
        measured = 1.0 / figure.published if is_rate else figure.published
        predicted = prediction.predicted.inverse() if is_rate else prediction.predicted
        site = figure.source.partition(" @")[0].partition(" pull")[0]
        residual = SiteResidual(subject, where, kind, 0.0, 0.0)
        is_fitted = figure.part != "kept"
        yield _site_row(site, residual, measured, predicted, is_fitted=is_fitted)


def _plain(row: SiteRow) -> Scored:
    return Scored(row.residual.log_ratio, row.below, row.above)


def _corrected(row: SiteRow, site: SiteResiduals) -> Scored:
    """Return the error and interval of a row after a site's corrections."""
    residual = row.residual
    correction = site.correction(residual.subject, residual.figure)
    if correction is None:
        return _plain(row)
    shift = correction.shift * residual.log_deviation
    ratio = correction.deviation_ratio
    return Scored(residual.log_ratio - shift, row.below * ratio, row.above * ratio)


def _learned(rows: Sequence[SiteRow], shares: SiteShares) -> SiteResiduals:
    return SiteResiduals((), shares).with_([row.residual for row in rows])


_Split = Callable[[SiteRow], str]


def _halves(rows: Sequence[SiteRow], split: _Split) -> Iterator[tuple[list[SiteRow], ...]]:
    """Yield the learned and the scored half, both ways; every other name is in one."""
    names = sorted({split(row) for row in rows})
    for part in (0, 1):
        held = set(names[part::2])
        learned = [row for row in rows if split(row) not in held]
        scored = [row for row in rows if split(row) in held]
        if learned and scored:
            yield learned, scored


def _by_model(row: SiteRow) -> str:
    return row.model


def _by_load(row: SiteRow) -> str:
    subject = row.residual.subject
    return f"{row.residual.load} {subject.layout}"


def _loss(rows: Sequence[SiteRow], shares: SiteShares) -> float:
    """Return the negative log likelihood of halves of one source, given their others."""
    total = 0.0
    for split in (_by_model, _by_load):
        for learned, scored in _halves(rows, split):
            site = _learned(learned, shares)
            for row in scored:
                after = _corrected(row, site)
                deviation = log_deviation(math.exp(after.below), math.exp(after.above))
                total += math.log(deviation) + (after.error / deviation) ** 2 / 2.0
    return total


def _chosen(rows: Sequence[SiteRow]) -> dict[str, SiteShares]:
    """Return the shares that make the rows of all other sources likeliest, by source."""
    sites = _by_site(rows)
    losses = {
        name: [_loss(of_site, shares) / len(of_site) for shares in _CHOICES]
        for name, of_site in sites.items()
    }
    sums = [sum(of_choice) for of_choice in zip(*losses.values(), strict=True)]
    chosen = {}
    for name, loss in losses.items():
        others = [whole - part for whole, part in zip(sums, loss, strict=True)]
        chosen[name] = _CHOICES[others.index(min(others))]
    chosen[_ALL] = _CHOICES[sums.index(min(sums))]
    return chosen


def _by_site(rows: Sequence[SiteRow]) -> dict[str, list[SiteRow]]:
    sites: dict[str, list[SiteRow]] = {}
    for row in rows:
        sites.setdefault(row.site, []).append(row)
    return sites


def _residuals(
    rows: Sequence[SiteRow], chosen: Mapping[str, SiteShares]
) -> Iterator[tuple[str, ...]]:
    for figure in SiteFigure:
        of_figure = [row for row in rows if row.residual.figure is figure]
        groups = {
            "": of_figure,
            ", never fitted": [row for row in of_figure if not row.is_fitted],
        }
        for words, group in groups.items():
            for title, split in (("other models", _by_model), ("other loads", _by_load)):
                for how in ("equal", "nested"):
                    shares = chosen if how == "nested" else dict.fromkeys(chosen, _EQUAL)
                    before, after = _crossed(group, split, shares)
                    if before:
                        name = f"{figure.name}, {title}, {how}{words}"
                        yield (name, *_cells(before), *_cells(after)[1:])


def _crossed(
    rows: Sequence[SiteRow], split: _Split, chosen: Mapping[str, SiteShares]
) -> tuple[list[Scored], list[Scored]]:
    """Return the scores of all sites' halves before and after."""
    before: list[Scored] = []
    after: list[Scored] = []
    for name, of_site in _by_site(rows).items():
        for learned, scored in _halves(of_site, split):
            site = _learned(learned, chosen[name])
            before += map(_plain, scored)
            after += (_corrected(row, site) for row in scored)
    return before, after


def _cells(scored: Sequence[Scored]) -> tuple[str, ...]:
    errors = [abs(each.error) for each in scored]
    widths = [(each.below + each.above) / 2.0 for each in scored]
    covered = sum(each.is_covered for each in scored) / len(scored)
    return (
        str(len(scored)),
        *(f"x{math.exp(quantile(errors, part)):.3f}" for part in (0.5, 0.9)),
        f"{covered:.0%}",
        f"x{math.exp(quantile(widths, 0.5)):.2f}",
    )
