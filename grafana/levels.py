"""Which settings of the agents a query needs, and panels that say so."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import DEFAULT_COLLECTORS, Level

__all__ = ["level_needed", "recorded_rules", "setting_needed", "with_setting"]

_RULES: Final = Path(__file__).parents[1] / "config" / "prometheus" / "rules.yaml"
_NAMES: Final = re.compile(r"[a-z_]+:[a-z0-9_:]+|\brightsizer_[a-z0-9_]+")


def level_needed(expression: str) -> Level:
    """The least level at which all that an expression asks for is exported.

    What a collector exports that is off by default, it exports at every level.
    """
    levels = [Level.ESSENTIAL]
    for name in _NAMES.findall(expression):
        metric = METRICS.get(name.removesuffix("_bucket"))
        if name in recorded_rules():
            levels.append(level_needed(recorded_rules()[name]))
        elif metric is not None and metric.collector in DEFAULT_COLLECTORS:
            levels.append(metric.level)
    return max(levels, key=lambda level: level.rank)


def setting_needed(expressions: Iterable[str]) -> str:
    """The setting without which agents answer none of these; empty if the defaults answer one."""
    return min(map(_setting, expressions), default="")


def with_setting(panel: dict[str, Any]) -> dict[str, Any]:
    """A panel, or any other part of a board, that tells what none of its queries can go without."""
    asked = [each["expr"] for each in panel.get("targets", ()) if isinstance(each.get("expr"), str)]
    if not (setting := setting_needed(asked)):
        return panel
    described = f"{panel.get('description', '')} Needs `{setting}` on the agents.".strip()
    return panel | {"description": described}


def _setting(expression: str) -> str:
    found = (METRICS.get(name.removesuffix("_bucket")) for name in _NAMES.findall(expression))
    collectors = {metric.collector for metric in found if metric is not None}
    if rare := sorted(collectors - DEFAULT_COLLECTORS):
        return f"web.metrics.collectors.{rare[0]}: true"
    level = level_needed(expression)
    return f"web.metrics.level: {level}" if level.rank > Level.STANDARD.rank else ""


@cache
def recorded_rules() -> dict[str, str]:
    """The expressions of config/prometheus/rules.yaml, by what they record."""
    groups = load_yaml(_RULES.read_text("utf-8"), _RULES.name).data["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}
