"""Overviews of `docs/rules.md` and `docs/fleet-rules.md`, between their marks."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.config.shape import ShapeEntry, shape_of
from rightsizer.config.spelling import plain
from rightsizer.fleet.rules.rule import FleetRule
from rightsizer.model.units import format_duration
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind
from rightsizer.profiler.rules.registry import PROFILE_RULES
from rightsizer.profiler.rules.rule import ProfileRule

OVERVIEW: Final = "overview"
PROFILE_OVERVIEW: Final = "profile_overview"
_MARKED: Final = re.compile(
    r"(<!-- begin (?P<name>\w+) -->\n).*?(<!-- end -->)",
    flags=re.DOTALL,
)
_AnyRule = Rule[Any] | FleetRule[Any]
_Judging = _AnyRule | ProfileRule[Any]
_THRESHOLD: Final = "on_ratio"


def filled(page: str, texts: Mapping[str, str]) -> str:
    """The page with every marked stretch written again.

    Raises:
        KeyError: it has a mark that nothing is made for.
    """
    return _MARKED.sub(lambda found: f"{found[1]}{texts[found['name']]}{found[3]}", page)


def tables(rules: Sequence[_AnyRule] = RULES) -> Mapping[str, str]:
    """The overview of rules: what each asks, from which share, over which spans.

    Args:
        rules: Those of a node, or of an estate.
    """
    return {OVERVIEW: _table(_overview(rules))}


def profile_tables(rules: Sequence[ProfileRule[Any]] = PROFILE_RULES) -> Mapping[str, str]:
    """The same of the rules over profiles, which have no spans of time."""
    rows = (
        (f"[`{rule.name}`](#{rule.name})", _question(rule), _thresholds(rule)) for rule in rules
    )
    return {PROFILE_OVERVIEW: _table(chain((("rule", "question", "from"),), rows))}


def _question(rule: _Judging) -> str:
    return (rule.judge_with.__doc__ or "").partition("\n")[0].rstrip(".")


def _overview(rules: Sequence[_AnyRule]) -> Iterator[tuple[str, ...]]:
    yield ("rule", "question", "from", "long span", "short span", "closes after")
    for rule in rules:
        yield (
            f"[`{rule.name}`](#{rule.name})",
            _question(rule),
            _thresholds(rule),
            _time(rule, lambda conduct: conduct.long_seconds),
            _time(rule, lambda conduct: conduct.short_seconds),
            _time(rule, lambda conduct: conduct.close_after_seconds),
        )


def _time(rule: _AnyRule, part: Callable[[OpeningPolicy], float]) -> str:
    """A time of a rule's conduct; from the least to the most where the class decides."""
    times = sorted(set(map(part, _opening_policies(rule))))
    return " to ".join(dict.fromkeys(map(format_duration, (times[0], times[-1]))))


def _opening_policies(rule: _AnyRule) -> list[OpeningPolicy]:
    if isinstance(rule, FleetRule):
        return [rule.conduct()]
    return [rule.conduct(_workload(workload_class)) for workload_class in WorkloadClass]


def _workload(workload_class: WorkloadClass) -> Workload:
    return Workload("any", WorkloadKind.OTHER, "any", workload_class)


def _thresholds(rule: _Judging) -> str:
    """Those from which it reports, named where they are several."""
    entries = shape_of(type(rule.settings)).entries
    shape_entries = [entry for entry in entries if entry.key.endswith(_THRESHOLD)]
    values = [f"`{entry.key}` {_written(entry)}" for entry in shape_entries]
    return ", ".join(values) if len(shape_entries) > 1 else _written(shape_entries[0])


def _written(entry: ShapeEntry) -> str:
    value = plain(entry.default, entry.shape)
    return value if isinstance(value, str) else json.dumps(value)


def _table(rows: Iterator[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---")
