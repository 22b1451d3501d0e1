"""An agent over a compiled driver library unknown to this project."""

from pathlib import Path

import pytest

from agent_process import RIGHTSIZER, agent_process, eventually
from foreign_library import foreign_library


@pytest.fixture(scope="module")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library under the name that the bindings load."""
    return foreign_library(tmp_path_factory.mktemp("driver"))


def test_a_library_with_a_dozen_functions_is_enough(library_folder: Path, tmp_path: Path) -> None:
    """Supported values are read and accounted for; missing ones are absent, never 0."""
    command = ("env", f"LD_LIBRARY_PATH={library_folder}", *RIGHTSIZER, "agent")
    flags = ("--web.listen-address", "127.0.0.1:0", "--history.path", "")
    with agent_process(tmp_path, *flags, command=command) as agent:
        eventually(lambda: agent.metric("rightsizer_state_seconds_total", uuid="GPU-busy") >= 2.0)
        metrics = agent.metrics()
        assert agent.metric("rightsizer_device_up") == 2.0
        assert agent.metric("rightsizer_gpu_busy_ratio", uuid="GPU-busy") == 0.99
        assert agent.metric(
            "rightsizer_state_seconds_total", uuid="GPU-idle", state="idle_empty"
        ) == pytest.approx(agent.metric("rightsizer_state_seconds_total", uuid="GPU-idle"))
        assert not any("temperature" in name or "sm_active" in name for name, _ in metrics)
        assert agent.get("/-/ready")[0] == 200
