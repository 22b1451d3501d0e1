"""A real agent over a temporarily slow driver, as seen by its scraper."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from agent_process import AgentProcess, agent_process, eventually

SUPPORT: Final = Path(__file__).parents[1] / "support"
CONFIG: Final = """
sampling: {interval: 200ms}
sources:
  nvml: {deadline: 160ms}
  simulated: {scenario: eight-gpu-node}
history: {path: ''}
web: {listen_addresses: ['127.0.0.1:0']}
"""


def tell(file: Path, **latencies: Any) -> None:
    """Set the driver's delay; the file is never half written."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(latencies))
    fresh.replace(file)


def slow_gpus(agent: AgentProcess) -> float:
    """The number of GPUs reported as slow."""
    return agent.metric("rightsizer_device_slow")


def test_a_slow_driver_is_read_at_the_pace_that_it_allows(tmp_path: Path) -> None:
    """No GPU is down at any scrape, no time is unknown, and deferred readings are reported.

    Once the driver is fast again, everything is read as before.
    """
    file = tmp_path / "latency.json"
    tell(file)
    command = (sys.executable, str(SUPPORT / "slow_agent.py"), str(file))
    with agent_process(tmp_path, command=command, config=CONFIG) as agent:
        eventually(lambda: agent.metric("rightsizer_device_up") == 8)
        eventually(lambda: agent.metric("rightsizer_state_seconds_total") > 8)
        tell(file, seconds=0.03)
        eventually(lambda: slow_gpus(agent) == 8)
        up = []
        unknown = agent.metric("rightsizer_state_seconds_total", state="unknown")
        before = agent.metric("rightsizer_state_seconds_total")
        for _ in range(20):
            up.append(agent.metric("rightsizer_device_up"))
            assert agent.get("/-/healthy")[0] == 200
            time.sleep(0.1)
        postponed = agent.metric("rightsizer_collector_postponed_devices")
        after = agent.metric("rightsizer_state_seconds_total")
        later = agent.metric("rightsizer_state_seconds_total", state="unknown")
        shown = len([name for name, _ in agent.metrics() if name == "rightsizer_power_watts"])
        tell(file)
        status = agent.end()

    assert set(up) == {8}
    assert shown == 8
    assert after > before
    assert later == unknown
    assert postponed > 0
    assert status == 0


def test_a_gpu_that_hangs_is_down_alone_and_comes_back(tmp_path: Path) -> None:
    """It goes down once and returns once; the others are unaffected.

    They have a second, and eight before they count as hung, since the machine may be busy.
    """
    file = tmp_path / "latency.json"
    tell(file)
    config = CONFIG.replace("200ms", "1200ms").replace("160ms", "1s, hung_after: 8s")
    command = (sys.executable, str(SUPPORT / "slow_agent.py"), str(file))
    with agent_process(tmp_path, command=command, config=config) as agent:
        eventually(lambda: agent.metric("rightsizer_device_up") == 8)
        tell(file, gpus={"2": None})
        eventually(lambda: agent.metric("rightsizer_device_up") == 7)
        reasons = agent.metric("rightsizer_device_down_info", reason="timed_out")
        seen = []
        for _ in range(10):
            seen.append(agent.metric("rightsizer_device_up"))
            time.sleep(0.1)
        tell(file)
        eventually(lambda: agent.metric("rightsizer_device_up") == 8)
        status = agent.end()
        lines = {name: agent.events(name) for name in ("device_down", "device_up")}

    assert set(seen) == {7}
    assert {name: [line["gpu"] for line in found] for name, found in lines.items()} == {
        "device_down": ["GPU 2"],
        "device_up": ["GPU 2"],
    }
    assert reasons == 1
    assert status == 0
