"""Rules that raised: logged, counted, and no reason for the others to be silent."""

from collections import Counter

import structlog

__all__ = ["RuleFaults"]


class RuleFaults:
    """Takes note of rules that raise; their number is bounded by that of the rules."""

    def __init__(self) -> None:
        self._log = structlog.get_logger(component="recommender")
        self.counts: Counter[str] = Counter()
        """By rule, since the start."""

    def note(self, rule: str, workload: str, error: Exception) -> None:
        """Log one with its trace, and count it."""
        self.counts[rule] += 1
        self._log.error("rule_failed", rule=rule, workload=workload, exc_info=error)
