"""Jobs that are inferred of logs without owners, against who held the GPUs."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

from msgspec import Struct

from evaluation.options import Options
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.device import Device
from rightsizer.model.units import nanoseconds
from rightsizer.recordings.inferred_jobs import inferred_jobs
from rightsizer.recordings.row import RecordingRow
from rightsizer.recordings.survey import LoadSeriesBuilder
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_SPANS: Final = (
    ("30 min at 1 s, at noon", 12.0, 0.5, 1.0),
    ("90 min at 5 s, from 07:54", 7.9, 1.5, 5.0),
    ("2 h at 15 s, from 08:00", 8.0, 2.0, 15.0),
    ("10 h at 30 s, from 04:00", 4.0, 10.0, 30.0),
)
"""Name, hour of the first day, hours, seconds between readings."""


class PairScore(Struct, frozen=True):
    """Scores of pairs of GPUs inferred to be of one job."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: "PairScore") -> "PairScore":
        """Add the scores of both."""
        return PairScore(
            self.right + other.right, self.wrong + other.wrong, self.missed + other.missed
        )


def evaluate(options: Options) -> Iterator[str]:
    """A row for each span, over all labeled scenarios."""
    yield (
        "Pairs of GPUs of one job in logs without owners. Missed pairs work so steadily that they "
        "look like their neighbors.\n"
    )
    yield "| log | pairs said | right | of all pairs |"
    yield "|---|---|---|---|"
    for name, hour, hours, seconds in _SPANS:
        found = scored(sorted(options.scenarios.glob("*.yaml")), hour, hours, seconds)
        said = found.right + found.wrong
        there = found.right + found.missed
        right = f"{found.right / said:.0%}" if said else "none said"
        yield f"| {name} | {said} | {right} | {found.right / max(1, there):.0%} |"
    yield ""


def scored(scenarios: Iterable[Path], hour: float, hours: float, seconds: float) -> PairScore:
    """The sum over scenarios."""
    total = PairScore()
    for scenario in scenarios:
        total += _score(scenario, hour, hours, seconds)
    return total


def _score(scenario: Path, hour: float, hours: float, seconds: float) -> PairScore:
    source = SimulatedSource(
        load_scenario(str(scenario), built_in()),
        built_in(),
        start=DEFAULT_START + nanoseconds(3600 * hour),
        interval=nanoseconds(seconds),
        duration=nanoseconds(3600 * hours),
    )
    loads = LoadSeriesBuilder()
    held: dict[str, set[str]] = {}
    devices: dict[str, Device] = {}
    while (snapshot := source.read()) is not None:
        devices |= {device.uuid: device for device in snapshot.devices}
        for uuid, reading in snapshot.readings.items():
            loads.add(RecordingRow(snapshot.wall_time, uuid, reading.values))
        for uuid, holdings in snapshot.holdings.items():
            held.setdefault(uuid, set()).update(holding.workload.key for holding in holdings)
    jobs = inferred_jobs(loads.series(nanoseconds(seconds)), list(devices.values()))
    said = {
        frozenset(pair)
        for job in jobs
        for pair in combinations([gpu.uuid for gpu in job.devices], 2)
    }
    whole = [
        uuid for uuid, device in devices.items() if not (device.mig or device.has_mig_instances)
    ]
    true = {
        frozenset(pair)
        for pair in combinations(whole, 2)
        if held.get(pair[0], set()) & held.get(pair[1], set())
    }
    return PairScore(len(said & true), len(said - true), len(true - said))
