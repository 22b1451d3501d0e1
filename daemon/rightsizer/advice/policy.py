"""Settings of the recommender, and policies: classes, allocators, thresholds and exclusions."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.market import MarketSettings
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Exclusion, Judgement, Rule
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.values import (
    CONSTANT,
    Allocator,
    Case,
    Nanoseconds,
    Snapshot,
    Spec,
    Workload,
    WorkloadClass,
    declared_fields,
    parse_duration,
    settings_class,
)


def overridden(settings: Any, changes: Any) -> Any:
    """Apply an operator's changes to a rule's settings.

    Raises:
        ValueError: the settings are invalid.
    """
    given = {field: getattr(changes, field) for field in changes.__struct_fields__}
    overrides = {
        name: overridden(getattr(settings, name), change) if isinstance(change, Struct) else change
        for name, change in given.items()
        if change is not None
    }
    return replace(settings, **overrides) if overrides else settings


@cache
def _left_open(settings: Any) -> Any:
    """Make a class with the same fields and bounds, all optional."""
    parts: list[tuple[str, Any, Any]] = []
    for declared in declared_fields(settings):
        if declared.is_group:
            inner = _left_open(declared.hint)
            parts.append((declared.name, inner, inner()))
        else:
            parts.append((declared.name, Annotated[declared.hint | None, declared.spec], None))
    # The base's docstring describes what is inherited.
    base: Any = settings.__base__
    base = base if base is Struct else _left_open(base)
    open_class: Any = settings_class(
        settings.__name__, __name__, settings.__doc__ or "", parts, base
    )

    def made_again(self: Any) -> tuple[Any, ...]:
        # Enables pickling for worker processes, since no module holds the class by name.
        return _with_values, (
            settings,
            tuple(getattr(self, field) for field in self.__struct_fields__),
        )

    open_class.__reduce__ = made_again
    return open_class


def _with_values(settings: Any, values: tuple[object, ...]) -> object:
    return _left_open(settings)(*values)


_OF_RULES: Final[list[tuple[str, Any]]] = [(rule.name, type(rule.settings)) for rule in RULES]
_OPEN: Final = {name: _left_open(of) for name, of in _OF_RULES}
ThresholdTree: Any = settings_class(
    "ThresholdTree",
    __name__,
    "Thresholds by rule, for the matching workloads.",
    ((name, kind, kind()) for name, kind in _OPEN.items()),
)
"""Settings that a policy may change, by rule; `None` for unchanged ones."""


class NodeSettings(Struct, frozen=True):
    """Facts about this machine.

    Attributes:
        pool: Pool that the machine belongs to; policies can match it.
    """

    pool: str = ""


class PolicyMatch(Struct, frozen=True):
    """Workloads that a policy applies to; all given patterns must match.

    Attributes:
        owner: Shell pattern of the workload's name.
        namespace: Shell pattern of the workload's namespace.
        pool: Shell pattern of the machine's `node.pool`.
        gpu: Shell pattern of the uuid of a GPU that the workload holds.
    """

    owner: str = "*"
    namespace: str = "*"
    pool: str = "*"
    gpu: str = "*"

    def fits(self, workload: Workload | None, uuids: Iterable[str]) -> bool:
        """Whether it matches a workload, or free GPUs; `policies_of_pool` matches the pool."""
        name, namespace = ("", "") if workload is None else (workload.name, workload.namespace)
        return (
            fnmatchcase(name, self.owner)
            and fnmatchcase(namespace, self.namespace)
            and fnmatchcase("", self.pool)
            and any(fnmatchcase(uuid, self.gpu) for uuid in uuids)
        )


_LEVEL: Final = re.compile(r"(?:p\d+(?:\.\d+)?=)?(?P<time>\S+)")


def _level(value: Any) -> Any:
    """Check a time of a service level."""
    parts = _LEVEL.fullmatch(value) if isinstance(value, str) and value else None
    try:
        is_time = not value or (parts is not None and parse_duration(parts["time"]) > 0.0)
    except ValueError:
        is_time = False
    if not is_time:
        raise ValueError(f"is no time (got '{value}'); write it like 50ms or p95=1s")
    return value


class Policy(Struct, frozen=True):
    """Class, allocator, model, level, thresholds and exclusions of the matching workloads.

    Attributes:
        class_: Class of the workload.
        allocator: Memory allocation behavior of the workload's framework.
        model: Model that the workload serves, where its engine names an alias: a name of the
            hub, or a path.
        ttft: Longest time to the first token of what it serves, such as `1s`, or `p95=1s`.
        tpot: Longest time between its tokens, such as `50ms`.
        ignore: Findings that open no recommendation, each with a reason and an optional end.
    """

    match: PolicyMatch = PolicyMatch()
    class_: WorkloadClass = WorkloadClass.UNKNOWN
    allocator: Allocator = Allocator.UNKNOWN
    model: str = ""
    ttft: Annotated[str, Spec(parse=_level)] = ""
    tpot: Annotated[str, Spec(parse=_level)] = ""
    thresholds: ThresholdTree = ThresholdTree()
    ignore: tuple[Exclusion, ...] = ()

    def __post_init__(self) -> None:
        for rule in RULES:
            try:
                overridden(rule.settings, getattr(self.thresholds, rule.name))
            except ValueError as error:
                raise ValueError(f"thresholds.{rule.name}: {error}") from None


def policies_of_pool(policies: Iterable[Policy], *names: str) -> tuple[Policy, ...]:
    """Policies that match a node's pool by one of its names, for use on that node."""
    return tuple(
        replace(policy, match=replace(policy.match, pool="*"))
        for policy in policies
        if any(fnmatchcase(name, policy.match.pool) for name in names)
    )


def apply_policies(snapshot: Snapshot, policies: Sequence[Policy]) -> Snapshot:
    """Apply the first matching policy to each holder of a snapshot."""
    if not policies or not snapshot.holdings:
        return snapshot
    holdings = {
        uuid: tuple(
            replace(held, workload=with_policy(held.workload, uuid, policies)) for held in some
        )
        for uuid, some in snapshot.holdings.items()
    }
    return replace(snapshot, holdings=holdings)


class PolicySet:
    """Applies policies to rules and judgements; the first match of a workload decides."""

    def __init__(self, policies: Sequence[Policy] = ()) -> None:
        self._policies = tuple(policies)
        self._tuned: dict[tuple[str, int], Rule[Any]] = {}

    def with_thresholds(self, rule: Rule[Any], case: Case) -> Rule[Any]:
        """Rule with the thresholds of a workload's policy."""
        if not self._policies:
            return rule
        place = self._place(case.workload, [device.uuid for device in case.devices])
        if place is None:
            return rule
        changes = getattr(self._policies[place].thresholds, rule.name, None)
        if changes is None or all(
            getattr(changes, field) is None for field in changes.__struct_fields__
        ):
            return rule
        if (key := (rule.name, place)) not in self._tuned:
            self._tuned[key] = rule.with_settings(overridden(rule.settings, changes))
        return self._tuned[key]

    def suppressed(
        self, judgements: Iterable[Judgement], now: Nanoseconds
    ) -> tuple[Judgement, ...]:
        """Mark judgements that policies exclude from becoming advice."""
        marked = []
        for judgement in judgements:
            place = self._place(judgement.workload, judgement.finding.devices)
            ignored = () if place is None else self._policies[place].ignore
            marked.append(judgement.with_exclusions(ignored, now) if ignored else judgement)
        return tuple(marked)

    def _place(self, workload: Workload | None, uuids: Sequence[str]) -> int | None:
        matches = (policy.match.fits(workload, uuids) for policy in self._policies)
        return next((place for place, fits in enumerate(matches) if fits), None)


def with_policy(workload: Workload, uuid: str, policies: Sequence[Policy]) -> Workload:
    """Workload with the first policy that matches it on a device applied."""
    policy = next(
        (candidate for candidate in policies if candidate.match.fits(workload, (uuid,))), None
    )
    if policy is not None and policy.class_ is not WorkloadClass.UNKNOWN:
        workload = replace(workload, workload_class=policy.class_)
    if policy is not None and policy.allocator is not Allocator.UNKNOWN:
        workload = replace(workload, allocator=policy.allocator)
    if policy is not None:
        names = ("model", "ttft", "tpot")
        stated = {name: value for name in names if (value := getattr(policy, name))}
        workload = replace(workload, **stated) if stated else workload
    return workload


RuleTree: Any = settings_class(
    "RuleTree", __name__, "Node rules, by name.", ((name, of, of()) for name, of in _OF_RULES)
)
"""Settings of each rule under its name, so that a rule is registered in one place."""


class RecommenderSettings(Struct, frozen=True):
    """Schedule, rules and thresholds of the recommender.

    Attributes:
        interval: Time between runs of the recommender.
            Source: the shortest span that a rule looks at
        readings_per_run: Minimum readings between runs, for recordings with widely spaced ones.
            Source: fewer change no share of an hour
        longest_interval: Maximum time between runs, however far apart readings are.
            Source: what most rules must be quiet for to close
        jitter: Maximum random delay of a run, so that agents do not run at once.
    """

    interval: Annotated[float, Spec(unit="seconds", within=(10.0, 86400.0))] = 600.0
    readings_per_run: Annotated[int, Spec(within=(1, 1000)), CONSTANT] = 6
    longest_interval: Annotated[float, Spec(unit="seconds", within=(10.0, 86400.0)), CONSTANT] = (
        1800.0
    )
    jitter: Annotated[float, Spec(unit="seconds", within=(0.0, 3600.0))] = 30.0
    rules: RuleTree = RuleTree()
    market: MarketSettings = MarketSettings()
    ledger: LedgerSettings = LedgerSettings()
