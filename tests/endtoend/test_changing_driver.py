"""An agent over a compiled driver library whose boards and answers change under it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from agent_process import RIGHTSIZER, AgentProcess, agent_process, eventually

SOURCE: Final = Path(__file__).with_name("changing_nvml.c")
CONFIG: Final = """
sampling: {interval: 200ms}
sources: {nvml: {enumeration_interval: 1s}}
"""
CONSTANTS: Final = "sources: {nvml: {retry_first: 100ms, retry_longest: 1s}}"
PROCESS: Final = f"process 0 {os.getpid()} 2e9"


@pytest.fixture(scope="module", params=[(), ("-DFORMER",)], ids=["present", "former"])
def library_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the library, also as a driver before R510 has it."""
    folder = tmp_path_factory.mktemp("driver")
    compile_library(folder / "libnvidia-ml.so.1", *request.param)
    return folder


def compile_library(target: Path, *flags: str) -> None:
    """Compile the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a driver library with")
    subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", target, SOURCE], check=True)


class Node(Struct, frozen=True):
    """An agent, and the file that its driver answers from."""

    agent: AgentProcess
    answers: Path

    def change(self, *lines: str) -> None:
        """Replace the answers at once."""
        change(self.answers, *lines)

    def up(self) -> dict[str, float]:
        """Whether each listed GPU is up, by uuid."""
        return {
            dict(labels)["uuid"]: value
            for (_, labels), value in self.agent.metrics("rightsizer_device_up").items()
        }

    def trouble(self) -> str:
        """Why no GPU is read."""
        return str(self.agent.json("/api/v1/report")["agent"]["trouble"])

    def device(self, uuid: str) -> Any:
        """A GPU as of the last tick."""
        devices = self.agent.json("/api/v1/report")["devices"]
        return next((found for found in devices if found["uuid"] == uuid), None)

    def events(self, name: str, uuid: str) -> list[Any]:
        """What was logged of a GPU; on a busy machine another one may be late meanwhile."""
        return [event for event in self.agent.events(name) if event["uuid"] == uuid]


def change(answers: Path, *lines: str) -> None:
    """Write the answers of the driver; no reader sees half of them."""
    whole = answers.with_suffix(".new")
    whole.write_text("\n".join(lines) + "\n")
    whole.replace(answers)


@contextmanager
def node(folder: Path, library: Path, *lines: str) -> Iterator[Node]:
    """An agent over a driver with these answers."""
    answers = folder / "answers"
    change(answers, *lines)
    driver = f"LD_LIBRARY_PATH={library}", f"CHANGING_NVML={answers}"
    flags: tuple[str, ...] = ("--web.listen-address", "127.0.0.1:0", "--history.path", "")
    command = ("env", *driver, *RIGHTSIZER, "agent")
    constants = folder / "constants.yaml"
    constants.write_text(CONSTANTS)
    flags += ("--constants", str(constants))
    with agent_process(folder, *flags, command=command, config=CONFIG) as agent:
        found = Node(agent, answers)
        eventually(lambda: agent.metric("rightsizer_samples_total") >= 5)
        yield found


def test_answers_are_read_by_their_layout(library_folder: Path, tmp_path: Path) -> None:
    """Memory and processes have other structures in drivers before R510."""
    with node(tmp_path, library_folder, "gpus 0 1", PROCESS) as found:
        signals = found.device("GPU-0")["signals"]
        assert signals["process_count"] == 1
        assert (signals["memory_used_bytes"], signals["memory_total_bytes"]) == (4 << 30, 16 << 30)
        assert (signals["power_watts"], signals["gpu_busy"]) == (150, 0.6)
        assert found.device("GPU-1")["signals"]["process_count"] == 0


def test_gpu_that_returns_under_another_index_is_itself(
    library_folder: Path, tmp_path: Path
) -> None:
    """Each GPU is listed once all the time; the line of its return has its uuid."""
    with node(tmp_path, library_folder, "gpus 0 1 2") as found:
        before = found.agent.metric("rightsizer_state_seconds_total", uuid="GPU-1")
        found.change("gpus 0 1 2", "fail 1 * 15")
        eventually(lambda: found.up() == {"GPU-0": 1, "GPU-1": 0, "GPU-2": 1})
        found.change("gpus 0 2")
        eventually(lambda: found.device("GPU-2")["index"] == 1)
        assert found.up() == {"GPU-0": 1, "GPU-1": 0, "GPU-2": 1}
        found.change("gpus 2 0 1")
        eventually(lambda: found.device("GPU-1")["index"] == 2 and set(found.up().values()) == {1})
        assert found.up().keys() == {"GPU-0", "GPU-1", "GPU-2"}
        assert found.agent.metric("rightsizer_state_seconds_total", uuid="GPU-1") > before
        up = eventually(lambda: found.events("device_up", "GPU-1"))
        down = found.events("device_down", "GPU-1")
    assert ([event["reason"] for event in down], len(up)) == (["lost"], 1)


def test_driver_that_is_replaced_under_the_agent_comes_back(
    library_folder: Path, tmp_path: Path
) -> None:
    """Until the module matches, all GPUs are down with the remedy, told once."""
    with node(tmp_path, library_folder, "gpus 0 1") as found:
        found.change("gpus 0 1", "fail * * 18", "fail - * 18")
        eventually(
            lambda: (
                "reload the module"
                in (found.agent.json("/api/v1/report")["agent"]["trouble"] or "")
            )
        )
        assert found.up() == {"GPU-0": 0, "GPU-1": 0}
        found.change("gpus 0 1", "text - nvmlSystemGetDriverVersion 3536302e31")
        eventually(lambda: found.up() == {"GPU-0": 1, "GPU-1": 1})
        assert found.agent.metric("rightsizer_driver_info", driver_version="560.1") == 1
        assert len(eventually(lambda: found.agent.events("devices_absent"))) == 1


def test_library_that_is_replaced_under_the_agent_is_loaded(tmp_path: Path) -> None:
    """The former library never fits the new module: the link names another file by then."""
    link = tmp_path / "libnvidia-ml.so.1"
    answers = tmp_path / "answers.560"
    for version, flags in (("550", ()), ("560", (f'-DANSWERS="{answers}"',))):
        compile_library(tmp_path / f"libnvidia-ml.so.{version}", *flags)
    link.symlink_to("libnvidia-ml.so.550")
    with node(tmp_path, tmp_path, "gpus 0 1") as found:
        found.change("gpus 0 1", "fail * * 18", "fail - * 18")
        eventually(lambda: set(found.up().values()) == {0})
        change(answers, "gpus 0 1", "text - nvmlSystemGetDriverVersion 3536302e31")
        (tmp_path / "new").symlink_to("libnvidia-ml.so.560")
        (tmp_path / "new").replace(link)
        eventually(lambda: found.up() == {"GPU-0": 1, "GPU-1": 1})
        assert found.agent.metric("rightsizer_driver_info", driver_version="560.1") == 1


@pytest.mark.parametrize("code", [3, 10, 999])
def test_driver_that_refuses_one_call_in_fifty_loses_no_gpu(
    library_folder: Path, tmp_path: Path, code: int
) -> None:
    """Not supported, timeout, unknown error: each is logged once, and all is read again."""
    with node(tmp_path, library_folder, "gpus 0 1 2", PROCESS) as found:
        before = set(found.device("GPU-0")["signals"])
        found.change("gpus 0 1 2", PROCESS, f"refuse 47 {code}")
        sampled = found.agent.metric("rightsizer_samples_total")
        eventually(lambda: found.agent.metric("rightsizer_samples_total") >= sampled + 30)
        found.change("gpus 0 1 2", PROCESS)
        eventually(lambda: before <= set(found.device("GPU-0")["signals"]))
        eventually(lambda: found.up() == {"GPU-0": 1, "GPU-1": 1, "GPU-2": 1})
        failed = [event["collector"] for event in found.agent.events("collector_failed")]
    assert len(failed) == len(set(failed))


def test_impossible_answers_cost_their_signals_and_are_logged(
    library_folder: Path, tmp_path: Path
) -> None:
    """Everything else is read; the log has device, call and answer, once."""
    lines = (
        "gpus 0 1",
        "value 0 nvmlDeviceGetPowerUsage 4e9",
        "value 0 used 99e9",
        "value 0 nvmlDeviceGetUtilizationRates 250",
        "text 0 nvmlDeviceGetName 54ff34",
        "text 1 nvmlDeviceGetUUID ff0a",
    )
    with node(tmp_path, library_folder, *lines) as found:
        device = found.device("GPU-0")
        assert device["name"] == "T\N{REPLACEMENT CHARACTER}4"
        assert device["state"] == "unknown"
        for signal in ("power_watts", "memory_used_bytes", "gpu_busy"):
            assert device["missing"][signal] == "invalid"
        assert device["signals"]["temperature_celsius"] == 40
        assert found.up() == {"GPU-0": 1, "pci:0000:18:00.0": 1}
        eventually(lambda: failures(found).keys() == {"power", "memory", "utilization"})
        assert failures(found)["power"] == "GPU 0: power_watts: the driver answered 4000000000"


def failures(node: Node) -> dict[str, str]:
    """What the log says of each collector that has failed."""
    return {line["collector"]: line["detail"] for line in node.agent.events("collector_failed")}
