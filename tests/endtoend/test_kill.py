"""Agents killed with -9 under load: their data on disk is consistent."""

from pathlib import Path
from typing import Final

from killed_agents import kill_agents

KILLS: Final = 8
JITTER_SECONDS: Final = 0.1
"""Half a sampling interval: the wall and the monotonic clock are not read at once."""


def test_a_kill_costs_no_more_than_what_was_not_flushed_yet(tmp_path: Path) -> None:
    """At any moment, half of them during a write: it opens, and the sums agree."""
    killed = kill_agents(tmp_path, KILLS, seed=20)

    assert len(killed) == KILLS
    assert [each.verdict for each in killed] == ["ok"] * KILLS
    assert not [each for each in killed if each.was_set_aside]
    assert not [each for each in killed if not each.is_complete]
    assert not [each for each in killed if each.unbalanced_seconds > JITTER_SECONDS]
    assert not [each for each in killed if each.apart_seconds > JITTER_SECONDS]
