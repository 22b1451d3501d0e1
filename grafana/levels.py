"""Which of `web.metrics.level` a query needs, and panels that say so."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import DEFAULT_COLLECTORS, Level

__all__ = ["level_needed", "with_level"]

_RULES: Final = Path(__file__).parents[1] / "config" / "prometheus" / "rules.yaml"
_NAMES: Final = re.compile(r"[a-z_]+:[a-z0-9_:]+|\brightsizer_[a-z0-9_]+")


def level_needed(expression: str) -> Level:
    """The least level at which all that an expression asks for is exported.

    What a collector exports that is off by default, it exports at every level.
    """
    levels = [Level.ESSENTIAL]
    for name in _NAMES.findall(expression):
        metric = METRICS.get(name.removesuffix("_bucket"))
        if name in _recorded():
            levels.append(level_needed(_recorded()[name]))
        elif metric is not None and metric.collector in DEFAULT_COLLECTORS:
            levels.append(metric.level)
    return max(levels, key=lambda level: level.rank)


def with_level(panel: dict[str, Any]) -> dict[str, Any]:
    """A panel, or any other part of a board, that tells what none of its queries can go without.

    Agents that export less leave it empty, which would look like a fault.
    """
    asked = [each["expr"] for each in panel.get("targets", ()) if isinstance(each.get("expr"), str)]
    least = min(map(level_needed, asked), key=lambda level: level.rank, default=Level.ESSENTIAL)
    if least is not Level.FULL:
        return panel
    told = f"Needs `web.metrics.level: {least}` on the agents."
    described = " ".join(filter(None, (panel.get("description", ""), told)))
    fields = panel["fieldConfig"]
    empty = f"{fields['defaults']['noValue']}, or web.metrics.level is below {least}"
    defaults = fields["defaults"] | {"noValue": empty}
    return panel | {"description": described, "fieldConfig": fields | {"defaults": defaults}}


@cache
def _recorded() -> dict[str, str]:
    groups = load_yaml(_RULES.read_text("utf-8"), _RULES.name).data["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}
