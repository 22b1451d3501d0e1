"""Simulated day of a scenario with a seed: the snapshot and the truth of each tick."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from evaluation.host_signals import with_host_signals
from evaluation.profiled import with_dcgm
from evaluation.variation import varied
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, nanoseconds
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_LAG_SECONDS: Final = (0.5, 3.0)

Truth = tuple[State, frozenset[Condition]]


class SimulatedTick(Struct, frozen=True):
    """One tick."""

    snapshot: Snapshot
    late: Snapshot
    """The same a little earlier, which is what lagging counters still show."""
    truths: Mapping[str, Truth]
    """Of the devices that have a state, by uuid."""


def simulated_ticks(
    path: Path, seed: int, tick_seconds: float, *, is_varied: bool = True
) -> Iterator[SimulatedTick]:
    """A day of a scenario.

    Raises:
        ScenarioError: the file is no scenario; the message names the place.
    """
    catalogue = built_in()
    written = load_scenario(str(path), catalogue)
    scenario = varied(written, seed) if is_varied else replace(written, seed=seed)
    tick = nanoseconds(tick_seconds)
    random = Random(f"stage {scenario.name} {seed}")
    lag = nanoseconds(random.uniform(*_LAG_SECONDS))
    # Phases begin on whole minutes; readings do not wait for them.
    start = DEFAULT_START + random.randrange(tick)
    now, before = (
        SimulatedSource(scenario, catalogue, start=begin, interval=tick, duration=_DAY)
        for begin in (start, start - lag)
    )
    for seen, late in zip(iter(now.read, None), iter(before.read, None), strict=True):
        snapshot = with_host_signals(with_dcgm(seen, now.node), now.node)
        truths = {
            device.uuid: now.node.truth(device.uuid, snapshot.time)
            for device in snapshot.devices
            if not device.has_mig_instances
        }
        yield SimulatedTick(snapshot, with_dcgm(late, before.node), truths)
