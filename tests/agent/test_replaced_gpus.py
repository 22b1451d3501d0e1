"""Real agents whose GPUs are replaced, removed and forgotten, on the simulated driver."""

from pathlib import Path
from typing import Final

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from rightsizer.advice.storage import Storage

SCENARIO: Final = """
name: node
seed: {seed}
boards: [{{board: T4, count: 2}}]
faults: [{faults}]
"""
CONFIG: Final = """
path: {api_socket: agent.sock}
web: {listen_addresses: ["127.0.0.1:0"]}
history: {path: history.db, flush_interval: 1s}
sources:
  simulated: {scenario: scenario.yaml}
  nvml: {enumeration_interval: 1s}
"""


def write(folder: Path, faults: str = "", seed: int = 1) -> None:
    """Write the scenario of a node with two GPUs."""
    (folder / "scenario.yaml").write_text(SCENARIO.format(faults=faults, seed=seed))


def uuids(agent: AgentProcess) -> set[str]:
    """The uuids of the listed devices."""
    return {dict(labels)["uuid"] for _, labels in agent.metrics("rightsizer_device_info")}


def down(agent: AgentProcess) -> set[str]:
    """The uuids of the devices that are down."""
    series = agent.metrics("rightsizer_device_up").items()
    return {dict(labels)["uuid"] for (_, labels), value in series if not value}


def stored(folder: Path) -> dict[str, int]:
    """The number of windows in the history by uuid."""
    storage = Storage(str(folder / "history.db"), read_only=True)
    try:
        windows = [window.uuid for window in storage.kept_history.load()]
    finally:
        storage.close()
    return {uuid: windows.count(uuid) for uuid in windows}


def forget(folder: Path, uuid: str) -> tuple[int, str]:
    """The exit status and output of `rightsizer forget`."""
    config = folder / "rightsizer.yaml"
    done = run_rightsizer("forget", uuid, "--config.file", config)
    return done.returncode, done.stdout + done.stderr


def configured(folder: Path) -> str:
    """The configuration with paths of the folder."""
    text = CONFIG.replace("agent.sock", str(folder / "agent.sock"))
    text = text.replace("history.db", str(folder / "history.db"))
    return text.replace("scenario.yaml", str(folder / "scenario.yaml"))


def test_replaced_board_takes_the_place_of_the_former(tmp_path: Path) -> None:
    """There is no third GPU, not after a restart either; the former's history is kept."""
    write(tmp_path, "{kind: replacement, gpus: [1], after: 8s}")
    with agent_process(tmp_path, config=configured(tmp_path)) as agent:
        before = eventually(lambda: len(uuids(agent)) == 2 and uuids(agent))
        assert before
        after = eventually(lambda: uuids(agent) != before and uuids(agent))
        assert after
        assert (len(after), down(agent)) == (2, set())
        [former] = before - after
        [new] = after - before
        eventually(lambda: {former, new} <= stored(tmp_path).keys())
        agent.end()
    write(tmp_path, "{kind: replacement, gpus: [1], after: 0s}")
    with agent_process(tmp_path, config=configured(tmp_path)) as agent:
        assert eventually(lambda: uuids(agent)) == after
        assert former in stored(tmp_path)
        agent.end()


def test_history_of_another_machine_lists_none_of_its_gpus(tmp_path: Path) -> None:
    """A node is set up from the image of another."""
    write(tmp_path, seed=1)
    with agent_process(tmp_path, config=configured(tmp_path)) as agent:
        former = eventually(lambda: uuids(agent))
        eventually(lambda: former <= stored(tmp_path).keys())
        agent.end()
    write(tmp_path, seed=2)
    with agent_process(tmp_path, config=configured(tmp_path)) as agent:
        found = eventually(lambda: uuids(agent))
        agent.end()
    assert (len(found), found & former) == (2, set())


def test_gpu_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    """With and without an agent, and for later agents; a GPU that is up is not."""
    write(tmp_path, "{kind: absence, gpus: [1], after: 8s}")
    with agent_process(tmp_path, config=configured(tmp_path)) as agent:
        both = eventually(lambda: len(uuids(agent)) == 2 and uuids(agent))
        assert both
        [gone] = eventually(lambda: down(agent))
        [other] = both - {gone}
        eventually(lambda: gone in stored(tmp_path))

        status, said = forget(tmp_path, other)
        assert (status, f"({other}) is up" in said) == (2, True)
        status, said = forget(tmp_path, "GPU-of-nobody")
        assert (status, "there is no GPU 'GPU-of-nobody'" in said) == (2, True)
        status, said = forget(tmp_path, gone)
        assert (status, said) == (0, f"Forgot {gone}; its history is kept.\n")
        assert uuids(agent) == {other}
        assert agent.events("device_forgotten")[0]["uuid"] == gone
        agent.end()
    assert gone in stored(tmp_path)
    write(tmp_path, "{kind: absence, gpus: [1], after: 0s}")
    with agent_process(tmp_path, config=configured(tmp_path)) as agent:
        assert eventually(lambda: uuids(agent)) == {other}
        agent.end()
    status, said = forget(tmp_path, other)
    assert (status, said) == (0, f"Forgot {other}; its history is kept.\n")
