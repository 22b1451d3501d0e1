"""ServedAdvisor: findings about engines, by the planner's own search with what is measured."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from rightsizer.io.codec import encode
from rightsizer.model.errors import RequirementError
from rightsizer.model.finding import Savings
from rightsizer.planner.biller import PlanPrices
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.display import interval_text, number, percent
from rightsizer.planner.planner import Planner, boards_of
from rightsizer.planner.served.causes import causes_of
from rightsizer.planner.served.engine import (
    LEVELS,
    Question,
    ServedEngine,
    parallel_keys,
    requirement_of,
)
from rightsizer.planner.served.engine_settings import reached_limit, setting_gains
from rightsizer.planner.served.finding import (
    ServedFinding,
    ServedFindingKind,
    ServedOption,
    candidate_text,
    served_option,
)
from rightsizer.planner.served.prediction import ServedPrediction, sharers_of
from rightsizer.sizing.parameters import NumberFormat

_CYCLE_SECONDS: Final = 86400.0
"""A day: less does not cover a load's cycle."""
_HOURS: Final = 24
_QUEUED: Final = 0.1
"""Waiting requests of those running, from which an engine is short."""
_PREEMPTED: Final = 0.01
"""Preemptions a request, from which its cache is short."""
_QUALITY: Final = "answers change a little: compare them on data of your own"
_LEAST_RATE: Final = 1e-3
"""Requests a second of an hour without any."""
_DEAREST: Final = 4.0
"""Times what an engine costs, beyond which nothing is searched to mend it."""
_Boards = tuple[str, ...]
_Choice = tuple[PlanCandidate, Question]


class ServedAdvisor:
    """Search for other GPUs and layouts of engines."""

    def __init__(self, planner: Planner, boards: _Boards = ()) -> None:
        """Create it; `boards` are the kinds of GPU to consider, by default all with a price.

        They may be slices of one.
        """
        self.planner = planner
        self.boards = boards
        self._found: dict[bytes, PlanCandidate | None] = {}

    def findings(self, predictions: Sequence[ServedPrediction]) -> tuple[ServedFinding, ...]:
        """Return all findings, in the order in which to act."""
        sharers = sharers_of(predictions)
        served_findings = [
            _apart(finding, sharers[place])
            for place, prediction in enumerate(predictions)
            for finding in self.of(prediction)
        ]
        alone = [
            prediction for prediction, names in zip(predictions, sharers, strict=True) if not names
        ]
        served_findings += self._trades(alone, served_findings)
        return tuple(sorted(served_findings, key=lambda finding: finding.rank))

    def of(self, prediction: ServedPrediction) -> Iterator[ServedFinding]:
        """Yield the findings about one engine."""
        engine = prediction.engine
        if prediction.off and engine.is_model_known:
            yield self._off(prediction)
        shortage = tuple(_shortage(prediction))
        if shortage:
            yield self._short(prediction, shortage)
            return
        if engine.peak_rate <= 0.0:
            return
        if gains := tuple(setting_gains(prediction, self.planner)):
            text = f"{engine.name}: settings by which its load gains"
            yield ServedFinding(ServedFindingKind.SETTINGS, engine, text, evidence=gains)
        why = _withheld(prediction)
        smaller = self._smaller(prediction)
        hourly = self._by_hour(prediction)
        for finding in filter(None, (smaller, hourly)):
            yield replace(finding, abstained=why) if why else finding

    def _best(self, question: Question, gpu_maximum: int | None = None) -> PlanCandidate | None:
        """Return the first candidate of a plan that surely holds; `None` if none does.

        `gpu_maximum` limits its GPUs, which shortens the search.
        """
        key = encode((question, gpu_maximum))
        if key not in self._found:
            planner = self.planner
            if gpu_maximum is not None:
                plan = replace(planner.settings.plan, gpu_maximum=gpu_maximum)
                planner = replace(planner, settings=replace(planner.settings, plan=plan))
            try:
                first = planner.candidates(requirement_of(question))[0]
            except RequirementError:
                self._found[key] = None
            else:
                self._found[key] = first if first.holds else None
        return self._found[key]

    def _with_longest(self, engine: ServedEngine, question: Question) -> PlanCandidate | None:
        """Return the best candidate, if it surely holds one of the longest requests too.

        That must fit, and alone keep each level that is of a percentile.
        """
        after = self._best(question)
        if after is None or engine.longest is None:
            return after
        alone = {key: value for key, value in question.items() if key not in {"rps", *LEVELS}}
        alone |= {key: value for key in LEVELS if "=" in (value := str(question.get(key, "")))}
        tokens = (max(1.0, count) for count in engine.longest)
        alone |= dict(zip(("in", "out"), tokens, strict=True))
        one = replace(after.layout, data=after.layout.expert)
        alone |= {"concurrency": 1.0, "gpus": [after.gpu], "parallel": parallel_keys(one)}
        return None if self._best(alone) is None else after

    def _cheapest(self, engine: ServedEngine, asked: Question, dollars: float) -> _Choice | None:
        """Return what holds a load below a price, and its question; `None` if nothing does.

        Dear kinds first: few of them are enough, and then bound the number of the others.
        """
        choice: _Choice | None = None
        for price, key in sorted(self._prices(engine), reverse=True):
            gpu_maximum = min(
                self.planner.settings.plan.gpu_maximum, math.ceil(dollars / price) - 1
            )
            question = {**asked, "gpus": [key]}
            # In full what the short search finds: the answer is that of a plan.
            if gpu_maximum < 1 or self._best(question, gpu_maximum) is None:
                continue
            after = self._with_longest(engine, question)
            cost = after and after.dollars_per_hour
            if after is not None and cost and cost < dollars:
                choice = (after, question)
                dollars = cost
        return choice

    def _prices(self, engine: ServedEngine) -> Iterator[tuple[float, str]]:
        """Yield the price of one GPU of each kind to consider, and its key."""
        prices = PlanPrices(self.planner.catalogue, self.planner.prices)
        served_board = engine.board
        for board in boards_of(self.boards, prices.catalogue):
            price = prices.dollars_per_hour(board)
            is_open = board.vendor == served_board.vendor and not prices.prices.sole_cloud(
                board.key
            )
            # Boards for desktops do not reach each other, and are not for data centers.
            is_open = is_open and board.reaches_peers >= served_board.reaches_peers
            if price and (self.boards or is_open):
                yield price, board.key

    def _smaller(self, prediction: ServedPrediction) -> ServedFinding | None:
        """Return what costs less and keeps the level."""
        engine = prediction.engine
        before = prediction.candidate
        asked = engine.at_rate(engine.peak_rate)
        same_board: Question = {**asked, "gpus": [engine.board.key]}
        choices = [(self._with_longest(engine, same_board), same_board, "")]
        if before.dollars_per_hour is not None:
            cheapest = self._cheapest(engine, asked, before.dollars_per_hour)
            if cheapest is not None:
                choices.append((*cheapest, ""))
        if not engine.requirement.precision.weights.is_quantized:
            narrow = {**same_board, "precision": str(NumberFormat.FP8)}
            choices.append((self._with_longest(engine, narrow), narrow, _QUALITY))
        options: list[ServedOption] = []
        for after, question, caution in choices:
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
            ServedFindingKind.WIDE if first.caution else ServedFindingKind.TOO_LARGE,
            engine,
            f"{engine.name}: {first.change} in place of {candidate_text(before)} keeps {level} "
            f"with {percent(first.probability)}",
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
        gains = tuple(setting_gains(prediction, self.planner))
        causes: tuple[str, ...] = gains
        if limit := reached_limit(prediction):
            causes = (limit, *gains)
        if limit and prediction.holds_peak:
            return ServedFinding(
                ServedFindingKind.TOO_SMALL, engine, summary, causes=causes, evidence=shortage
            )
        asked = engine.at_rate(engine.peak_rate)
        same_board: Question = {**asked, "gpus": [engine.board.key]}
        choices = [(self._with_longest(engine, same_board), same_board)]
        paid = before.dollars_per_hour
        if paid is not None:
            cheapest = self._cheapest(engine, asked, _DEAREST * paid)
            choices += [cheapest] if cheapest is not None else []
        options = [
            served_option(engine, before, after, question)
            for after, question in choices
            if after is not None and (after.gpu, after.layout) != (before.gpu, engine.layout)
        ]
        if len(options) > 1 and options[0].candidate.gpu == options[1].candidate.gpu:
            del options[1]
        options.sort(key=lambda option: -option.savings.dollars_per_hour)
        as_it_is = self._best({**same_board, "parallel": parallel_keys(engine.layout)})
        if as_it_is is not None:
            causes += ("the layout that runs should hold this load: see why it is slow first",)
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
        replicas = engine.layout.data
        needed = self._replicas_by_hour(engine)
        if not needed:
            return None
        mean = sum(needed) / len(needed)
        busiest_replicas = max(needed)
        if busiest_replicas - mean < self.planner.settings.plan.switch_saving_ratio * replicas:
            return None
        question = self._replicated(engine, busiest_replicas, engine.peak_rate)
        at_most = self._best(question)
        if at_most is None:
            return None
        before = prediction.candidate
        change = f"{min(needed)} to {busiest_replicas} replicas"
        option = served_option(engine, before, at_most, question, change)
        savings = _share_of_price(before, (replicas - mean) / replicas)
        table = ", ".join(f"{hour}h {count}" for hour, count in enumerate(needed))
        return ServedFinding(
            ServedFindingKind.BY_HOUR,
            engine,
            f"{engine.name}: {mean:.3g} of {replicas} replicas hold the load on average, "
            f"{busiest_replicas} in the busiest hour",
            (replace(option, savings=savings),),
            evidence=(f"replicas by the hour: {table}",),
        )

    def _replicas_by_hour(self, engine: ServedEngine) -> tuple[int, ...]:
        """Return the fewest replicas that hold each hour's busiest time; empty if unknown."""
        hours = [rate for rate in engine.load.requests_per_second_by_hour if rate is not None]
        replicas = engine.layout.data
        busiest = max(hours, default=0.0)
        if len(hours) < _HOURS or replicas == 1 or not busiest:
            return ()
        within = engine.peak_rate / busiest
        counts = range(1, replicas + 1)

        def fewest(rate: float) -> int:
            asked = _rounded(max(_LEAST_RATE, rate * within))
            questions = ((count, self._replicated(engine, count, asked)) for count in counts)
            enough = (count for count, question in questions if self._best(question))
            return next(enough, replicas)

        return tuple(map(fewest, hours))

    def _replicated(self, engine: ServedEngine, count: int, rate: float) -> Question:
        """Return the question of a number of replicas of the layout that runs."""
        layout = replace(engine.layout, data=engine.layout.expert * count)
        return {
            **engine.at_rate(rate),
            "gpus": [engine.board.key],
            "parallel": parallel_keys(layout),
        }

    def _trades(
        self, predictions: Iterable[ServedPrediction], findings: Sequence[ServedFinding]
    ) -> Iterator[ServedFinding]:
        """Yield pairs of which one is short, where each fits on the GPUs of the other."""
        short = {
            id(finding.engine)
            for finding in findings
            if finding.kind is ServedFindingKind.TOO_SMALL
        }
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
                    f"fits {here.change} with {percent(here.probability)}, the second "
                    f"{there.change} with {percent(there.probability)}",
                    (here, there),
                )
                break

    def _on_gpus_of(self, one: ServedPrediction, other: ServedPrediction) -> ServedOption | None:
        """Return how an engine runs on the GPUs of another one; `None` if it does not fit."""
        engine = one.engine
        board = other.engine.board.key
        question = {**engine.at_rate(engine.peak_rate), "gpus": [board]}
        after = self._with_longest(engine, question)
        if after is None or after.count > other.engine.layout.gpus:
            return None
        option = served_option(engine, one.candidate, after, question)
        return replace(option, savings=Savings(0.0, 0.0, reason="the same GPUs are paid"))


def _apart(finding: ServedFinding, sharers: Sequence[str]) -> ServedFinding:
    """Withhold a finding about an engine whose GPUs others use too."""
    if not sharers:
        return finding
    return replace(finding, abstained=f"shares its GPUs with {', '.join(sharers)}")


def _rounded(rate: float) -> float:
    """Round a rate up, so that alike hours are one question."""
    step = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return float(f"{math.ceil(rate / step) * step:.3g}")


def _share_of_price(candidate: PlanCandidate, share: float) -> Savings:
    """Return the savings of a share of what runs."""
    gpus = share * candidate.paid_count
    price = candidate.hourly_range
    if price is None:
        return Savings(gpus, gpus, reason="no price is known")
    saved = price.scaled(share)
    return Savings(gpus, gpus, saved.low, saved.high, dollars_per_hour_typical=saved.value)


def _withheld(prediction: ServedPrediction) -> str:
    """Return why less is not advised; empty if it may be."""
    engine = prediction.engine
    if not engine.is_model_known:
        return "the model is not known: state it (--model, or in a policy)"
    if prediction.off:
        return "the engine is not as predicted: find out why first"
    if engine.load.window_seconds < _CYCLE_SECONDS:
        return "measured for less than a day, which is a load's cycle"
    if not engine.level:
        return "no service level is measured: state one (--ttft and --tpot, or in a policy)"
    if engine.load.prompt_tokens is None or engine.load.output_tokens is None:
        return "the tokens of a request are not exported"
    return ""


def _shortage(prediction: ServedPrediction) -> Iterator[str]:
    """Yield what shows that an engine is too small for its load."""
    engine = prediction.engine
    load = engine.load
    waiting = load.requests_waiting or 0.0
    if waiting >= max(1.0, _QUEUED * (load.requests_running or 0.0)):
        count = number(waiting)
        yield f"{count} request{' waits' if count == '1' else 's wait'} on average"
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
    for name, latency, limit_ms, percentile in figures:
        if latency is None or limit_ms is None:
            continue
        is_tail = percentile is not None and latency.p95_seconds is not None
        took = latency.p95_seconds if is_tail else latency.mean_seconds
        if took is not None and 1e3 * took > limit_ms:
            part = " p95" if is_tail else ""
            yield f"{name}{part} of {number(1e3 * took)} ms, above {number(limit_ms)} ms"
