"""Two hundred agents killed with -9 under load: lost time, and consistency of sums."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.options import Options
from killed_agents import FLUSH_SECONDS, Killed, kill_agents
from measured import Figure

_KILLS: Final = 200
_AT_ONCE: Final = 20
_JITTER_SECONDS: Final = 0.1
"""Half a sampling interval."""


def measure(_: Options) -> Iterator[Figure]:
    """Half of them in the middle of a write, the others at any moment."""
    killed: list[Killed] = []
    for batch in range(_KILLS // _AT_ONCE):
        with tempfile.TemporaryDirectory() as name:
            killed += kill_agents(Path(name), _AT_ONCE, seed=batch)
    broken = [each for each in killed if each.verdict != "ok" or each.was_set_aside]
    incomplete = [each for each in killed if not each.is_complete]
    unbalanced = [
        each
        for each in killed
        if max(each.unbalanced_seconds, each.apart_seconds) > _JITTER_SECONDS
    ]
    missing = sorted(each.missing_seconds for each in killed)
    yield Figure("agents killed", len(killed))
    yield Figure("histories that did not open or are not whole", len(broken), "", 0.0)
    yield Figure("histories without something that was flushed", len(incomplete), "", 0.0)
    yield Figure("histories whose states do not sum to wall time", len(unbalanced), "", 0.0)
    note = f"a flush every {FLUSH_SECONDS:g} s, a reading every 0.2 s, {_AT_ONCE} agents at once"
    yield Figure("time missing before the kill, median", missing[len(missing) // 2], "s", note=note)
    yield Figure("time missing before the kill, at most", missing[-1], "s")
