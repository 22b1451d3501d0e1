"""An agent on a board whose driver does not count energy."""

from itertools import pairwise
from pathlib import Path
from typing import Final

from agent_process import agent_process, eventually

SCENARIO: Final = """
name: no-energy-counter
boards: [{board: P100-PCIE-16GB, count: 1}]
workloads:
  - name: train
    gpus: [0]
    memory_gib: 9
    phases: [{activity: single_precision_training, state: productive}]
faults:
  - kind: answer
    gpus: [0]
    after: 0s
    function: nvmlDeviceGetTotalEnergyConsumption
    code: not_supported
"""


def test_energy_grows_by_power_over_time(tmp_path: Path) -> None:
    """mlco2/codecarbon#1316: its energy stayed 0 at 150 W and more."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    flags = ("--simulated.scenario", str(scenario), "--history.path", "")
    samples: dict[float, tuple[float, float]] = {}
    with agent_process(tmp_path, *flags) as agent:

        def has_samples() -> bool:
            page = {name: value for (name, _), value in agent.metrics().items()}
            if (energy := page.get("rightsizer_energy_joules_total")) is not None:
                time = page["rightsizer_device_last_sample_timestamp_seconds"]
                samples[time] = energy, page["rightsizer_power_watts"]
            return len(samples) >= 6

        assert eventually(has_samples)
    assert all(watts > 100.0 for _, watts in samples.values())
    for (start, (before, earlier)), (end, (after, later)) in pairwise(sorted(samples.items())):
        low, high = sorted((earlier, later))
        assert low * (end - start) * 0.9 <= after - before <= high * (end - start) * 1.1
