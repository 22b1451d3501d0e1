"""ServedAdvisor: findings about engines, by the planner's own search with what is measured."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from msgspec.structs import replace

from rightsizer.io.codec import encode
from rightsizer.model.errors import RequirementError
from rightsizer.model.finding import Savings
from rightsizer.model.units import percent_text
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.display import interval_text, number
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.causes import causes_of
from rightsizer.planner.served.engine import (
    Question,
    parallel_keys,
    requirement_of,
)
from rightsizer.planner.served.finding import (
    ServedFinding,
    ServedFindingKind,
    ServedOption,
    candidate_text,
    savings_between,
    served_option,
)
from rightsizer.planner.served.prediction import ServedPrediction
from rightsizer.sizing.parameters import NumberFormat

_CYCLE_SECONDS: Final = 86400.0
"""A day: less does not cover a load's cycle."""
_HOURS: Final = 24
_QUEUED: Final = 0.1
"""Waiting requests of those running, from which an engine is short."""
_PREEMPTED: Final = 0.01
"""Preemptions a request, from which its cache is short."""
_AT_LIMIT: Final = 0.9
_QUALITY: Final = "answers change a little: compare them on data of your own"
_Boards = tuple[str, ...]


class ServedAdvisor:
    """Search for other GPUs and layouts of engines."""

    def __init__(self, planner: Planner, boards: _Boards = ()) -> None:
        """Create it; `boards` are the kinds of GPU to consider, by default all with a price."""
        self.planner = planner
        self.boards = boards
        self._found: dict[str, PlanCandidate | None] = {}

    def findings(self, predictions: Sequence[ServedPrediction]) -> tuple[ServedFinding, ...]:
        """Return all findings, in the order in which to act."""
        found = [finding for each in predictions for finding in self.of(each)]
        found += self._trades(predictions, found)
        return tuple(sorted(found, key=lambda finding: finding.rank))

    def of(self, prediction: ServedPrediction) -> Iterator[ServedFinding]:
        """Yield the findings about one engine."""
        engine = prediction.engine
        if prediction.off:
            yield self._off(prediction)
        shortage = tuple(_shortage(prediction))
        if shortage:
            yield self._short(prediction, shortage)
            return
        if engine.peak_rate <= 0.0:
            return
        why = _withheld(prediction)
        smaller = self._smaller(prediction)
        hourly = self._by_hour(prediction)
        for finding in filter(None, (smaller, hourly)):
            yield replace(finding, abstained=why) if why else finding

    def _cheaper(self, prediction: ServedPrediction, at_most: float = 1.0) -> _Boards:
        """Return the kinds of GPU of which one costs no more than what runs."""
        planner = self.planner
        current = prediction.candidate.dollars_per_hour
        own = prediction.engine.board
        found = []
        for key in self.boards or tuple(planner.catalogue.boards):
            board = planner.catalogue.get(key)
            price = planner.prices.dollars_per_hour(board.key)
            is_seldom = not self.boards and planner.prices.sole_cloud(board.key)
            if board.vendor != own.vendor or price is None or is_seldom:
                continue
            if current is None or price <= at_most * current:
                found.append(board.key)
        return tuple(dict.fromkeys((own.key, *found)))

    def _best(self, question: Question) -> PlanCandidate | None:
        """Return the first candidate of a plan that surely holds; `None` if none does."""
        key = encode(question)
        if key not in self._found:
            try:
                first = self.planner.candidates(requirement_of(question))[0]
            except RequirementError:
                self._found[key] = None
            else:
                self._found[key] = first if first.fits and first.is_sure else None
        return self._found[key]

    def _smaller(self, prediction: ServedPrediction) -> ServedFinding | None:
        """Return what costs less and keeps the level."""
        engine = prediction.engine
        before = prediction.candidate
        asked = engine.at_rate(engine.peak_rate)
        boards = self._cheaper(prediction)
        questions: list[tuple[Question, str]] = [
            ({**asked, "gpus": list(boards)}, ""),
            ({**asked, "gpus": [engine.board.key]}, ""),
        ]
        weights = engine.requirement.precision.weights
        if not weights.is_quantized:
            narrow = {**asked, "precision": str(NumberFormat.FP8), "gpus": [engine.board.key]}
            questions.append((narrow, _QUALITY))
        options: list[ServedOption] = []
        for question, caution in questions:
            after = self._best(question)
            # A change of answers must save more than those without one.
            rival = options[0].candidate if options and caution else before
            if after is None or not self._is_worth(rival, after):
                continue
            text = candidate_text(after)
            change = f"{text}, weights in {NumberFormat.FP8}" if caution else text
            if all(option.change != change for option in options):
                option = served_option(engine, before, after, question, change)
                options.append(replace(option, caution=caution))
        if not options:
            return None
        options.sort(key=lambda option: (bool(option.caution), -option.savings.dollars_per_hour))
        first = options[0]
        level = engine.level or "the rate"
        return ServedFinding(
            ServedFindingKind.TOO_LARGE,
            engine,
            f"{engine.name}: {first.change} in place of {candidate_text(before)} keeps {level} "
            f"with {percent_text(first.probability)}",
            tuple(options),
        )

    def _is_worth(self, before: PlanCandidate, after: PlanCandidate) -> bool:
        """Whether a change saves enough to be made."""
        price = before.dollars_per_hour
        other = after.dollars_per_hour
        if price is None or other is None:
            return after.gpu == before.gpu and after.count < before.count
        return price - other >= self.planner.settings.plan.switch_saving_ratio * price

    def _short(self, prediction: ServedPrediction, shortage: tuple[str, ...]) -> ServedFinding:
        """Return what mends a shortage: a limit, more of the same board, or another one."""
        engine = prediction.engine
        before = prediction.candidate
        summary = f"{engine.name}: short: {'; '.join(shortage)}"
        load = engine.load
        limit = load.maximum_running
        running = (load.requests_running or 0.0) / max(1, load.engines)
        cache = load.kv_cache_used_ratio
        if limit and running >= _AT_LIMIT * limit and (cache is None or cache < _AT_LIMIT):
            flag = f"its limit of {limit} requests at a time is reached"
            room = "" if cache is None else f", with {percent_text(cache)} of its cache in use"
            cause = f"{flag}{room}: raise it first"
            return ServedFinding(
                ServedFindingKind.TOO_SMALL, engine, summary, causes=(cause,), evidence=shortage
            )
        asked = engine.at_rate(engine.peak_rate)
        options: list[ServedOption] = []
        for gpus in ([engine.board.key], list(self._cheaper(prediction, math.inf))):
            question = {**asked, "gpus": gpus}
            after = self._best(question)
            if after is None or (after.gpu, after.layout) == (before.gpu, engine.layout):
                continue
            if all(option.candidate.gpu != after.gpu for option in options):
                options.append(served_option(engine, before, after, question))
        as_it_is = self._best(
            {**asked, "gpus": [engine.board.key], "parallel": parallel_keys(engine.layout)}
        )
        causes: tuple[str, ...] = ()
        if as_it_is is not None:
            causes = ("the layout that runs should hold this load: see why it is slow first",)
            causes += causes_of(prediction, self.planner)
        return ServedFinding(
            ServedFindingKind.TOO_SMALL,
            engine,
            summary,
            tuple(options),
            causes=causes,
            evidence=shortage,
        )

    def _off(self, prediction: ServedPrediction) -> ServedFinding:
        engine = prediction.engine
        texts = [
            f"{figure.what.removesuffix('_ms').upper()} {number(figure.measured)} ms, "
            f"predicted {interval_text(figure.predicted)} ms"
            for figure in prediction.off
            if figure.predicted is not None
        ]
        return ServedFinding(
            ServedFindingKind.OFF,
            engine,
            f"{engine.name}: not as predicted: {'; '.join(texts)}",
            causes=causes_of(prediction, self.planner),
        )

    def _by_hour(self, prediction: ServedPrediction) -> ServedFinding | None:
        """Return the replicas that each hour needs, where fewer than today's do at times."""
        engine = prediction.engine
        hours = engine.load.requests_per_second_by_hour
        replicas = engine.layout.data
        busiest = max((rate or 0.0 for rate in hours), default=0.0)
        if len(hours) < _HOURS or replicas == 1 or not busiest or None in hours:
            return None
        within = engine.peak_rate / busiest
        one = replace(engine.layout, data=engine.layout.expert)

        @cache
        def holds(count: int, rate: float) -> PlanCandidate | None:
            layout = replace(one, data=one.data * count)
            question = {
                **engine.at_rate(rate),
                "gpus": [engine.board.key],
                "parallel": parallel_keys(layout),
            }
            return self._best(question)

        needed = []
        for rate in hours:
            asked = float(f"{max(rate or 0.0, 1e-6) * within:.3g}")
            counts = range(1, replicas + 1)
            needed.append(next((count for count in counts if holds(count, asked)), replicas))
        mean = sum(needed) / len(needed)
        most = max(needed)
        least = self.planner.settings.plan.switch_saving_ratio
        if most - mean < least * replicas:
            return None
        before = prediction.candidate
        rate = float(f"{busiest * within:.3g}")
        at_most = holds(most, rate)
        if at_most is None:
            return None
        question = {
            **engine.at_rate(rate),
            "gpus": [engine.board.key],
            "parallel": parallel_keys(at_most.layout),
        }
        option = served_option(
            engine, before, at_most, question, f"{min(needed)} to {most} replicas"
        )
        share = (replicas - mean) / replicas
        every = savings_between(before, before)
        price = before.hourly_range
        if price is not None:
            gpus = share * before.paid_count
            every = Savings(
                gpus,
                gpus,
                share * price.low,
                share * price.high,
                dollars_per_hour_typical=share * price.value,
            )
        table = ", ".join(f"{hour}h {count}" for hour, count in enumerate(needed))
        return ServedFinding(
            ServedFindingKind.BY_HOUR,
            engine,
            f"{engine.name}: {mean:.3g} of {replicas} replicas hold the load on average, "
            f"{most} in the busiest hour",
            (replace(option, savings=every),),
            evidence=(f"replicas by the hour: {table}",),
        )

    def _trades(
        self, predictions: Iterable[ServedPrediction], found: Sequence[ServedFinding]
    ) -> Iterator[ServedFinding]:
        """Yield pairs of which one is short, where each fits on the GPUs of the other."""
        short = {id(each.engine) for each in found if each.kind is ServedFindingKind.TOO_SMALL}
        all_of = tuple(predictions)
        used: set[int] = set()
        for one in all_of:
            if id(one.engine) not in short:
                continue
            for other in all_of:
                if id(other.engine) in short or id(other.engine) in used or _withheld(other):
                    continue
                if other.engine.board.key == one.engine.board.key or not other.engine.peak_rate:
                    continue
                here = self._on_gpus_of(one, other)
                there = self._on_gpus_of(other, one)
                if here is None or there is None:
                    continue
                used.add(id(other.engine))
                yield ServedFinding(
                    ServedFindingKind.TRADE,
                    one.engine,
                    f"{one.engine.name} and {other.engine.name} could trade places: the first "
                    f"fits {here.change} with {percent_text(here.probability)}, the second "
                    f"{there.change} with {percent_text(there.probability)}",
                    (here, there),
                )
                break

    def _on_gpus_of(self, one: ServedPrediction, other: ServedPrediction) -> ServedOption | None:
        """Return how an engine runs on the GPUs of another one; `None` if it does not fit."""
        engine = one.engine
        board = other.engine.board.key
        question = {**engine.at_rate(engine.peak_rate), "gpus": [board]}
        after = self._best(question)
        if after is None or after.count > other.engine.layout.gpus:
            return None
        option = served_option(engine, one.candidate, after, question)
        return replace(option, savings=Savings(0.0, 0.0, reason="the same GPUs are paid"))


def _withheld(prediction: ServedPrediction) -> str:
    """Return why less is not advised; empty if it may be."""
    engine = prediction.engine
    if not engine.is_model_known:
        return "the model is not known: state it with --model"
    if prediction.off:
        return "the engine is not as predicted: find out why first"
    if engine.load.window_seconds < _CYCLE_SECONDS:
        return "measured for less than a day, which is a load's cycle"
    if not engine.level:
        return "no service level is stated, and none is measured: give --ttft and --tpot"
    if engine.load.prompt_tokens is None or engine.load.output_tokens is None:
        return "the tokens of a request are not exported"
    return ""


def _shortage(prediction: ServedPrediction) -> Iterator[str]:
    """Yield what shows that an engine is too small for its load."""
    engine = prediction.engine
    load = engine.load
    waiting = load.requests_waiting or 0.0
    if waiting >= max(1.0, _QUEUED * (load.requests_running or 0.0)):
        yield f"{number(waiting)} requests wait on average"
    preempted = load.preemptions_per_second or 0.0
    if preempted > _PREEMPTED * engine.rate and preempted > 0.0:
        yield f"{number(preempted)} preemptions/s: the cache is full"
    if not engine.is_level_stated:
        return
    asked = engine.requirement.load
    figures = (
        ("TTFT", load.time_to_first_token, asked.ttft_ms, asked.ttft_percentile),
        ("TPOT", load.time_per_output_token, asked.tpot_ms, asked.tpot_percentile),
    )
    for name, latency, most, percentile in figures:
        if latency is None or most is None:
            continue
        is_tail = percentile is not None and latency.p95_seconds is not None
        took = latency.p95_seconds if is_tail else latency.mean_seconds
        if took is not None and 1e3 * took > most:
            part = " p95" if is_tail else ""
            yield f"{name}{part} of {number(1e3 * took)} ms, above {number(most)} ms"
