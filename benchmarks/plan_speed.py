"""CPU of planning over the whole catalogue, in a process that has imported everything."""

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from benchmarks.options import Options
from measured import Figure, quantile
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.planner import Planner
from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.requirement import ModelTask, Requirement, Training

_RUNS: Final = 9
_MOST_MILLISECONDS: Final = 300.0
_LARGE: Final = completed_shape(
    TransformerDescription(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256)
)
_REQUIREMENTS: Final[Mapping[str, Requirement]] = MappingProxyType(
    {
        "serving 70 B, all that memory allows": Requirement(_LARGE),
        "serving 70 B, with a rate and latencies asked for": Requirement(
            _LARGE,
            load=RequestLoad(2000, 300, units_per_second=5000.0, ttft_ms=2000.0, tpot_ms=50.0),
        ),
        "training 70 B, sharded": Requirement(
            _LARGE, ModelTask.TRAINING, training=Training(sequence=4096, tokens=1e9, zero_stage=3)
        ),
    }
)


def measure(_: Options) -> Iterator[Figure]:
    """Medians; the first also with reading the catalogue and the prices."""
    started = time.process_time()
    planner = Planner(built_in(), built_in_prices())
    reading = 1e3 * (time.process_time() - started)
    boards = f"{len(planner.catalogue.boards)} boards"
    yield Figure("reading catalogue and prices", reading, "ms", note=boards)
    for name, requirement in _REQUIREMENTS.items():
        took = 1e3 * quantile((_seconds(planner, requirement) for _ in range(_RUNS)), 0.5)
        yield Figure(f"a plan: {name}", took, "ms", _MOST_MILLISECONDS, boards)


def _seconds(planner: Planner, requirement: Requirement) -> float:
    """CPU time, which other processes lengthen less."""
    started = time.process_time()
    planner.plan(requirement)
    return time.process_time() - started
