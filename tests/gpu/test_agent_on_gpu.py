"""The agent on this machine's GPUs, beside nvidia-smi; skipped where there is no driver."""

import importlib.util
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from nvidia_smi import FIELDS, Readings, SmiAbsent, differences, nvidia_smi

pytestmark = pytest.mark.gpu

_PRODUCTS = """
import torch
one = torch.randn(4096, 4096, device="cuda").bfloat16()
print("ready", flush=True)
while True:
    for _ in range(100):
        one @ one
    torch.cuda.synchronize()
"""
LOOKS = 5
WARM_SECONDS = 5.0


@pytest.fixture(scope="module", autouse=True)
def smi() -> Readings:
    """What nvidia-smi says now."""
    try:
        return nvidia_smi()
    except SmiAbsent as reason:
        pytest.skip(f"no GPU of NVIDIA's: {reason}")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on the real driver that has seen each GPU a few times."""
    folder = tmp_path_factory.mktemp("agent")
    flags = ("--web.listen-address", "127.0.0.1:0", "--history.path", str(folder / "history.db"))
    with agent_process(folder, *flags) as running:
        eventually(lambda: running.metric("rightsizer_samples_total") >= WARM_SECONDS)
        yield running


def readings(agent: AgentProcess) -> Readings:
    """The agent's numbers of whole GPUs, by those metrics that nvidia-smi has too."""
    names = {field.metric for field in FIELDS}
    found: dict[str, dict[str, float]] = {}
    mig = {
        dict(labels)["uuid"]
        for (name, labels), _ in agent.metrics().items()
        if name == "rightsizer_device_info" and dict(labels)["mig_profile"]
    }
    for (name, labels), value in agent.metrics().items():
        uuid = dict(labels).get("uuid", "")
        if uuid and uuid not in mig and (name in names or name == "rightsizer_device_up"):
            found.setdefault(uuid, {})[name] = value
    return found


@pytest.fixture(params=["idle", "matrix products"])
def load(request: pytest.FixtureRequest) -> Iterator[str]:
    """What the first GPU does; products of matrices where PyTorch is installed."""
    if request.param == "idle":
        yield request.param
        return
    if not importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is not installed: no load")
    with subprocess.Popen([sys.executable, "-c", _PRODUCTS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield request.param
        process.kill()


@pytest.mark.usefixtures("load")
def test_it_agrees_with_nvidia_smi(agent: AgentProcess) -> None:
    """In most looks every number lies within what nvidia-smi saw just before and after it."""
    differing: Counter[str] = Counter()
    for _ in range(LOOKS):
        before = nvidia_smi()
        time.sleep(1.5)  # A reading of its own lies in between.
        between = readings(agent)
        differing.update(
            {difference.split(" ")[1] for difference in differences(before, between, nvidia_smi())}
        )
    assert [metric for metric, times in differing.items() if times > LOOKS // 2] == []


def test_each_gpu_is_there_once_and_up(agent: AgentProcess, smi: Readings) -> None:
    """By the uuid that nvidia-smi prints."""
    found = readings(agent)
    assert found.keys() == smi.keys()
    assert all(values["rightsizer_device_up"] == 1.0 for values in found.values())


def test_every_second_has_a_state(agent: AgentProcess, smi: Readings) -> None:
    """States of a GPU sum to the time that it was watched."""
    before = agent.metrics()
    time.sleep(10)
    after = agent.metrics()
    name = "rightsizer_state_seconds_total"
    for uuid in smi:
        grown = sum(
            value - before.get(key, 0.0)
            for key, value in after.items()
            if key[0] == name and dict(key[1])["uuid"] == uuid
        )
        assert grown == pytest.approx(10, abs=2)


def test_doctor_finds_the_driver(agent: AgentProcess) -> None:
    """It names the driver's version, which the agent exports."""
    (info,) = (dict(key[1]) for key in agent.metrics() if key[0] == "rightsizer_driver_info")
    assert info["driver_version"] in run_rightsizer("doctor").stdout
