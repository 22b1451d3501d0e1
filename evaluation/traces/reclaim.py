"""When each rule would take an idle pod away, and whether that was right."""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from evaluation.traces.fleet_trace import Pod
from rightsizer.advice.engine import judge_all
from rightsizer.advice.rules import idle
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.model.device import Device
from rightsizer.model.finding import Case
from rightsizer.model.state import IDLE_STATES, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.model.window import Window
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
SOON: Final = 30 * MINUTE
"""Work that resumes within this time makes taking a pod away a mistake."""
_SHIPPED: Final = idle.RULE.settings
_MINIMUM_CONFIDENCE: Final = idle.conduct(None, _SHIPPED).minimum_confidence_ratio
_LEAST_IDLE: Final = 0.4
"""Below, half an hour of which the rest was idle is not nine tenths idle."""
_KEPT_CELLS: Final = 24
"""Five-minute windows in the longest patience of any class."""


@dataclass(slots=True)
class Tally:
    """Outcomes of a rule's actions."""

    actions: int = 0
    right: int = 0
    """The pod stayed idle for half an hour more."""
    wrong: int = 0
    elsewhere_busy: int = 0
    """Others of the fleet were at work at that moment."""
    reclaimed: Nanoseconds = 0

    @property
    def precision(self) -> float | None:
        """Share of right actions among those with a known outcome."""
        known = self.right + self.wrong
        return self.right / known if known else None

    def add(self, pod: Pod, times: Iterable[Nanoseconds], armed: Nanoseconds) -> list[Nanoseconds]:
        """Act when a rule first fires; again after the pod resumed.

        Args:
            pod: Whose rows tell what came next.
            times: When the rule holds, ascending.
            armed: How long after a resumption, or its first row, a pod is new to the rule.
        """
        acted = []
        is_busy = pod.are_busy
        last = len(pod.times)
        ready = pod.times[0] + armed
        for time in times:
            if time < ready:
                continue
            at = bisect_right(pod.times, time)
            after = next((place for place in range(at, last) if is_busy[place]), None)
            self._judge(time, pod.times[-1], None if after is None else pod.times[after])
            acted.append(time)
            if after is None:
                break
            ready = pod.times[after] + armed
        return acted

    def _judge(self, time: Nanoseconds, end: Nanoseconds, resumed: Nanoseconds | None) -> None:
        self.actions += 1
        self.reclaimed += (end if resumed is None else resumed) - time
        if resumed is not None and resumed - time <= SOON:
            self.wrong += 1
        elif (end if resumed is None else resumed) - time >= SOON:
            self.right += 1


def quiet_times(pod: Pod, below: float, window: Nanoseconds, gap: Nanoseconds) -> Iterator[int]:
    """When every row of a window was below a busy share, with no gap longer than that."""
    since: Nanoseconds | None = None
    last = pod.times[0]
    for time, duty in zip(pod.times, pod.duties, strict=True):
        if time - last > gap or duty >= below:
            since = None
        if duty < below:
            since = time if since is None else since
            if time - since >= window:
                yield time
        last = time


class Kind(Struct, frozen=True):
    """A class of workloads, and how much of its patience must be idle for it."""

    workload_class: WorkloadClass
    on_ratio: float = _SHIPPED.on_ratio

    @property
    def patience(self) -> Nanoseconds:
        """Idle time that the product allows such a workload."""
        return nanoseconds(idle.conduct(_workload("", self.workload_class), _SHIPPED).long_seconds)

    def rule(self) -> Rule[idle.IdleSettings]:
        """The product's rule, so set, whatever its confidence."""
        return replace(
            idle.RULE,
            opening_policy_with=_unsure,
            settings=replace(_SHIPPED, on_ratio=self.on_ratio),
        )


class WatchedIdleness:
    """The product's rule `idle` at every five minutes, for pods of some classes.

    What it lacks confidence for is taken too, for that may change with the telemetry.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Nothing is seen yet."""
        self.times: dict[tuple[Kind, str], list[Nanoseconds]] = {}
        """When the rule holds over its long span and its short one, by kind and pod."""
        self.sure: Counter[Kind] = Counter()
        """How many of these verdicts the product is confident enough of to open advice."""
        self._kinds = tuple((kind, kind.rule()) for kind in kinds)
        self._cells: dict[str, deque[Window]] = {}

    def of(self, kind: Kind, pod: Pod) -> Sequence[Nanoseconds]:
        """When the rule holds for a pod."""
        return self.times.get((kind, pod.name), ())

    def add(self, window: Window) -> None:
        """Take a closed window, and judge what is known by now."""
        cells = self._cells.setdefault(window.uuid, deque(maxlen=_KEPT_CELLS))
        cells.append(replace(window, demands={}))
        if window.share(*IDLE_STATES) < _LEAST_IDLE:
            return
        for kind, rule in self._kinds:
            (judged,) = judge_all(partial(_cases, cells, kind.workload_class), (rule,))
            if judged.may_open:
                self.times.setdefault((kind, window.uuid), []).append(window.end)
                self.sure[kind] += judged.finding.confidence >= _MINIMUM_CONFIDENCE


def _unsure(workload: Workload | None, settings: idle.IdleSettings) -> OpeningPolicy:
    return replace(idle.conduct(workload, settings), minimum_confidence_ratio=0.0)


def _workload(name: str, workload_class: WorkloadClass) -> Workload:
    return Workload(f"recorded/{name}", WorkloadKind.RECORDED, name, workload_class)


def _cases(
    cells: Sequence[Window], workload_class: WorkloadClass, span: Nanoseconds | None
) -> tuple[Case, ...]:
    newest = cells[-1]
    states = Counter[State]()
    tiers = Counter[Tier]()
    taken = [cell for cell in cells if cell.start >= newest.end - (span or 0)]
    for cell in taken:
        states.update(cell.states)
        tiers.update(cell.tiers)
    start = min((cell.start for cell in taken), default=newest.end)
    whole = Window(newest.uuid, start, newest.end, dict(states), tiers=dict(tiers))
    case = Case(
        key=newest.uuid,
        workload=_workload(newest.uuid, workload_class),
        devices=(Device(newest.uuid, 0),),
        windows=(whole,),
        provisioning=(),
    )
    return (case,)
