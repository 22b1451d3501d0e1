"""One file a rule: its settings and one function. A new rule is one more line here."""

from typing import Any, Final

from rightsizer.advice.rules import hidden_stall, idle, near_out_of_memory, overprovisioned
from rightsizer.advice.rules.rule import Rule

__all__ = ["RULES"]

RULES: Final[tuple[Rule[Any], ...]] = (
    idle.RULE,
    hidden_stall.RULE,
    overprovisioned.RULE,
    near_out_of_memory.RULE,
)
