"""nvidia-smi's values of each GPU, by the agent's metrics, and the differences."""

import csv
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

__all__ = ["FIELDS", "Field", "Readings", "SmiAbsent", "differences", "nvidia_smi", "readings_of"]

_SECONDS: Final = 30.0


class SmiAbsent(Exception):  # noqa: N818 - a state of the machine, not a fault.
    """No NVIDIA driver is available; the message has the symptom."""


class Field(Struct, frozen=True):
    """One field of `nvidia-smi --query-gpu`, and the metric that must agree."""

    query: str
    metric: str
    scale: float
    """To the metric's unit."""
    tolerance: float
    """In the metric's unit: change between two readings beyond their own."""


FIELDS: Final = (
    Field("memory.total", "rightsizer_memory_total_bytes", 2**20, 2**20),
    Field("memory.used", "rightsizer_memory_used_bytes", 2**20, 64 * 2**20),
    Field("utilization.gpu", "rightsizer_gpu_busy_ratio", 0.01, 0.15),
    Field("power.draw", "rightsizer_power_watts", 1.0, 30.0),
    Field("power.limit", "rightsizer_power_limit_watts", 1.0, 0.5),
    Field("temperature.gpu", "rightsizer_temperature_celsius", 1.0, 3.0),
    Field("clocks.sm", "rightsizer_sm_clock_hertz", 1e6, 150e6),
    Field("clocks.mem", "rightsizer_memory_clock_hertz", 1e6, 50e6),
    Field("pcie.link.gen.current", "rightsizer_pcie_link_generation", 1.0, 0.0),
    Field("pcie.link.width.current", "rightsizer_pcie_link_width", 1.0, 0.0),
    Field("utilization.encoder", "rightsizer_encoder_ratio", 0.01, 0.1),
    Field("utilization.decoder", "rightsizer_decoder_ratio", 0.01, 0.1),
)

Readings = Mapping[str, Mapping[str, float]]
"""By UUID and metric; values unknown to nvidia-smi are missing."""


def nvidia_smi() -> Readings:
    """One look by nvidia-smi.

    Raises:
        SmiAbsent: it is not here, or the driver does not answer it.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        raise SmiAbsent("nvidia-smi is not here")
    names = ",".join(("uuid", *(field.query for field in FIELDS)))
    done = subprocess.run(
        [program, f"--query-gpu={names}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SmiAbsent(f"nvidia-smi ended with {done.returncode}: {done.stdout.strip()[:120]}")
    return readings_of(done.stdout)


def readings_of(text: str) -> Readings:
    """Parsed lines of nvidia-smi; `[N/A]` and the like are no number."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return {uuid: dict(_numbers(cells)) for uuid, *cells in rows}


def _numbers(cells: Sequence[str]) -> Iterator[tuple[str, float]]:
    for field, cell in zip(FIELDS, cells, strict=True):
        try:
            yield field.metric, field.scale * float(cell)
        except ValueError:
            continue


def differences(before: Readings, agent: Readings, after: Readings) -> list[str]:
    """Agent values outside of nvidia-smi's readings before and after.

    A GPU that only one of them has is a difference, and so is a number that the agent lacks.
    """
    found = [f"{uuid}: only one of them has it" for uuid in before.keys() ^ agent.keys()]
    for uuid in before.keys() & agent.keys() & after.keys():
        for field in FIELDS:
            ends = [
                each[uuid][field.metric] for each in (before, after) if field.metric in each[uuid]
            ]
            said = agent[uuid].get(field.metric)
            if not ends:
                continue
            low = min(ends) - field.tolerance
            high = max(ends) + field.tolerance
            if said is None or not low <= said <= high:
                found.append(f"{uuid}: {field.metric} {said}, nvidia-smi {low:g} to {high:g}")
    return sorted(found)
