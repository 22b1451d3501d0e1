"""What is taken for a board that nobody has measured, from what is known of its like."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from rightsizer.catalogue.board import AllReduce, Precision

KINDS: Final = ("gemm", "weight_read", "decode_attention")
"""The parts of an efficiency."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """Efficiencies of boards alike."""

    ratios: Mapping[str, Mapping[Precision, float]]
    full_speed_watts_per_tera: float | None
    source: str

    def power_cap_ratio(self, power_watts: float, peak_per_second: float | None) -> float:
        """What a power limit leaves of the dense 16-bit peak: clocks go with its root."""
        if self.full_speed_watts_per_tera is None or peak_per_second is None:
            return 1.0
        needed = self.full_speed_watts_per_tera * peak_per_second / 1e12
        return min(1.0, math.sqrt(power_watts / needed))


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The tables of the catalogue's file."""

    efficiency: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    all_reduce: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The tables under `assumptions`."""
        return cls(data["efficiency"], data["all_reduce"])

    def efficiency_of(self, key: str, architecture: str, capability: str) -> Assumed:
        """What is taken for a board; the most particular table wins, figure by figure."""
        ratios: dict[str, dict[Precision, float]] = {kind: {} for kind in KINDS}
        watts, source = None, ""
        for name in ("default", architecture, f"{architecture} {capability}", key):
            table = self.efficiency.get(name, {})
            for kind in KINDS:
                for precision, ratio in table.get(kind, {}).items():
                    ratios[kind][Precision(precision)] = ratio
            watts = table.get("full_speed_watts_per_tera", watts)
            source = table.get("source", source)
        return Assumed(ratios, watts, source)

    def all_reduce_of(self, way: str, bytes_per_second: float) -> Iterator[tuple[int, AllReduce]]:
        """What sums over a way between GPUs cost, by the number of GPUs."""
        for count, cell in self.all_reduce.get(way, {}).items():
            if isinstance(count, int):
                share, microseconds = cell
                yield count, AllReduce(share * bytes_per_second, microseconds / 1e6)

    def all_reduce_source(self, way: str) -> str:
        """Where those figures come from."""
        return str(self.all_reduce.get(way, {}).get("source", ""))
