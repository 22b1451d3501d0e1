"""Advice of a day against the advice due by the simulator's truth.

Every scenario is lived through on each tier of telemetry, and disturbed. What is expected is
worked out from the truth of each tick, or labeled where no tick tells.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final

from evaluation.advice.reliability import HEADINGS as RELIABILITY_HEADINGS
from evaluation.advice.reliability import KIND_HEADINGS, Reliability
from evaluation.advice.scores import HEADINGS
from evaluation.advice.stream import AdviceStream, Outcome
from evaluation.advice.truth import Timeline
from evaluation.host_signals import with_host_signals
from evaluation.options import Options
from evaluation.processes import in_processes
from evaluation.profiled import with_dcgm
from evaluation.simulated_day import Truth
from evaluation.states.disturbance import Disturbance, without_power, without_profiling
from evaluation.variation import varied
from measured import as_rows, table, with_rows
from rightsizer.advice.rules import RULES
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_PAST_DAYS: Final = 7
_PAST_TICK: Final = 600 * NANOSECONDS_PER_SECOND
_RUN_EVERY: Final = 1800 * NANOSECONDS_PER_SECOND
_LAG_SECONDS: Final = (0.5, 3.0)
_OFF_RATIO: Final = 0.1
"""Calibration error from which a rule on a tier is listed."""
_LEFT_OUT: Final = frozenset({"faulty-node", "shared-node"})
"""No nodes to advise on: one has faults every ten minutes, the other a day without any change."""
Stream = tuple[Tier, bool]
"""Its telemetry, and whether that is disturbed."""
_MAIN: Final[Stream] = (Tier.PROFILING, False)
_STREAMS: Final[tuple[Stream, ...]] = (
    _MAIN,
    (Tier.POWER, False),
    (Tier.BASIC, False),
    (Tier.PROFILING, True),
)
_REDUCTIONS: Final = {Tier.POWER: without_profiling, Tier.BASIC: without_power}
_HOW: Final = """\
A day of each scenario after a week of history. A recommendation is expected while the truth passes
the rule's threshold over its spans; within a tenth of the threshold nothing counts as a mistake.
For sizes, sharing and forecasts a label says what is right. Found after: median time from when it
was due. Silent rightly: share of abstentions where the tier cannot tell. Answers rightly: share of
answers where it can. A flap is an opening within two hours of a closing.
"""


def evaluate(options: Options) -> Iterator[str]:
    """Scores by tier and by rule, mistakes, and how well confidences are calibrated."""
    # Each is lived through four times, so that one seed takes as long as four.
    runs = [(path, options.first_seed) for path in _paths(options)]
    total: dict[Stream, Outcome] = {stream: Outcome() for stream in _STREAMS}
    for part in in_processes(partial(_live, tick_seconds=options.tick_seconds), runs):
        for stream, outcome in part.items():
            total[stream].merge(outcome)
    yield _HOW
    lines = (total[stream].scores.row(_name(stream)) for stream in _STREAMS)
    yield table(lines, ("telemetry", *HEADINGS[1:])) + "\n"
    by_rule = table(_by_rule(total), ("rule", *map(_name, _STREAMS)))
    yield as_rows(f"#### Found, of those expected, by rule\n\n{by_rule}\n")
    for stream in _STREAMS:
        mistakes = [
            mistake for mistake in total[stream].scores.mistakes() if not mistake.endswith("none.")
        ]
        yield from (f"- {_name(stream)}: {mistake}" for mistake in mistakes)
    yield ""
    yield from _calibration(total)


def _by_rule(total: Mapping[Stream, Outcome]) -> Iterator[tuple[str, ...]]:
    """Findings by rule on each kind of telemetry; silent rules are left out."""
    for rule in (*(rule.name for rule in RULES), "labeled"):
        cells = [_found(next(total[stream].scores.rows([rule]))) for stream in _STREAMS]
        if any(cells):
            yield rule, *cells


def _found(row: Sequence[str]) -> str:
    """Found and expected; openings where none was expected for sure; false openings."""
    _, expected, found, _, openings, false, *_ = row
    if expected == openings == "0":
        return ""
    told = f"{openings} opened" if expected == "0" else f"{found} of {expected}"
    return told if false == "0" else f"{told}, {false} false"


def live(
    path: str,
    seed: int,
    tick_seconds: float,
    *,
    kinds: Sequence[Stream] = _STREAMS,
    past_days: int = _PAST_DAYS,
) -> dict[Stream, Outcome]:
    """A day of a scenario, on each kind of telemetry.

    Args:
        path: The scenario's file, or a packaged one's name.
        seed: For its noise, its variation and its disturbance.
        tick_seconds: Simulated time between two readings.
        kinds: Of telemetry; the undisturbed one with all counters is always among them.
        past_days: Of history where telemetry is whole; sizes are judged by a week.

    Raises:
        ScenarioError: the file is no scenario.
    """
    scenario = varied(load_scenario(path, built_in()), seed)
    timeline = Timeline()
    past = DEFAULT_START - past_days * _DAY
    streams = {
        stream: AdviceStream(
            scenario.name,
            timeline,
            past if stream == _MAIN else DEFAULT_START,
            has_history=stream == _MAIN,
        )
        for stream in kinds
    }
    for snapshot, node in _snapshots(scenario, past, _PAST_TICK, past_days * _DAY):
        _tell(timeline, snapshot, node)
        streams[_MAIN].read(snapshot)
    streams[_MAIN].judge(DEFAULT_START)
    _day(scenario, nanoseconds(tick_seconds), timeline, streams)
    for each in streams.values():
        each.finish()
    return {stream: each.outcome for stream, each in streams.items()}


def _live(run: tuple[str, int], tick_seconds: float) -> dict[Stream, Outcome]:
    return live(*run, tick_seconds)


def _day(
    scenario: SimulatedScenario,
    tick: Nanoseconds,
    timeline: Timeline,
    streams: Mapping[Stream, AdviceStream],
) -> None:
    random = Random(f"findings {scenario.name} {scenario.seed}")
    disturbance = Disturbance(f"findings {scenario.name} {scenario.seed}")
    # Phases begin on whole minutes; readings do not wait for them.
    start = DEFAULT_START + random.randrange(tick)
    lag = nanoseconds(random.uniform(*_LAG_SECONDS))
    late = _snapshots(scenario, start - lag, tick, _DAY)
    due = start + _RUN_EVERY
    for snapshot, node in _snapshots(scenario, start, tick, _DAY):
        _tell(timeline, snapshot, node)
        rough = disturbance.disturbed(snapshot, next(late)[0])
        for (tier, is_disturbed), stream in streams.items():
            seen = rough if is_disturbed else snapshot
            stream.read(_REDUCTIONS[tier](seen) if tier in _REDUCTIONS else seen)
        if snapshot.wall_time >= due:
            due += _RUN_EVERY
            for stream in streams.values():
                stream.judge(snapshot.wall_time)


def _snapshots(
    scenario: SimulatedScenario, start: Nanoseconds, tick: Nanoseconds, span: Nanoseconds
) -> Iterator[tuple[Snapshot, SimulatedNode]]:
    source = SimulatedSource(scenario, built_in(), start=start, interval=tick, duration=span)
    for seen in iter(source.read, None):
        yield with_host_signals(with_dcgm(seen, source.node), source.node), source.node


def _tell(timeline: Timeline, snapshot: Snapshot, node: SimulatedNode) -> None:
    truths = {
        device.uuid: _as_advised(node.truth(device.uuid, snapshot.wall_time), device.uuid, node)
        for device in snapshot.devices
        if not device.has_mig_instances
    }
    holders = {
        uuid: max(held, key=lambda each: each.share_ratio).workload
        for uuid, held in snapshot.holdings.items()
        if held
    }
    timeline.add(snapshot.wall_time, truths, holders)


def _as_advised(truth: Truth, uuid: str, node: SimulatedNode) -> Truth:
    """The truth less what is no trouble: a board at the limit that it came with is well used."""
    state, conditions = truth
    if node.unit(uuid).slot.power_limit_watts is None:
        conditions -= {Condition.POWER_THROTTLED}
    return state, conditions


def _paths(options: Options) -> list[str]:
    packaged = [name for name in packaged_scenarios() if name not in _LEFT_OUT]
    return [*packaged, *(str(path) for path in sorted(options.scenarios.glob("*.yaml")))]


def _name(stream: Stream) -> str:
    tier, is_disturbed = stream
    return f"{tier}, disturbed" if is_disturbed else str(tier)


def _calibration(total: Mapping[Stream, Outcome]) -> Iterator[str]:
    openings = Reliability()
    complaints = Reliability()
    for outcome in total.values():
        openings.merge(outcome.openings)
        complaints.merge(outcome.complaints)
    for title, found in (("opened", openings), ("of every run", complaints)):
        heading = f"#### Confidence of findings {title}, all telemetry\n"
        score = f"\nBrier score {found.brier_score:.3f}, calibration error {_ece(found)}.\n"
        by_confidence = as_rows(table(found.rows(), RELIABILITY_HEADINGS) + "\n")
        text = f"{heading}\n{by_confidence}\n{score}"
        yield text if found is openings else as_rows(with_rows(text))
    off = [row for row in complaints.kind_rows() if float(row[-1]) >= _OFF_RATIO or row[0] == "all"]
    kinds = table(off, ("rule and tier", *KIND_HEADINGS))
    yield as_rows(
        f"Rules and tiers with a calibration error of {_OFF_RATIO} and more:\n\n{kinds}\n"
    )


def _ece(found: Reliability) -> str:
    return f"{found.calibration_error:.3f}"
