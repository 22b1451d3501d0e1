"""Reloading a real agent: immediate changes, deferred changes, and failures."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from advice_history import keep_advice
from agent_process import AgentProcess, agent_process, eventually, run_rightsizer

CONFIG: Final = """\
sampling: {interval: 200ms}
history: {path: FOLDER/history.db}
web: {listen_addresses: ['127.0.0.1:0'], enable_lifecycle: true}
sources: {simulated: {scenario: eight-gpu-node}}
path: {api_socket: FOLDER/api.sock}
recommender: {interval: 1d, jitter: 0}
"""
SUCCESSFUL: Final = "rightsizer_config_last_reload_successful"
SUCCEEDED: Final = "rightsizer_config_last_reload_success_timestamp_seconds"
RUNS: Final = "rightsizer_recommender_runs_total"
RELOADS: Final = 40


def config(folder: Path) -> str:
    """The configuration at the agent's start."""
    return CONFIG.replace("FOLDER", str(folder))


def reload(agent: AgentProcess, folder: Path, text: str) -> None:
    """Rewrite the file, send a signal, and wait for the logged result."""
    before = state(agent)
    (folder / "rightsizer.yaml").write_text(text)
    agent.process.send_signal(signal.SIGHUP)
    eventually(lambda: state(agent) != before)


def state(agent: AgentProcess) -> tuple[float, int]:
    """Time of the last successful reload, and the number of failures."""
    return agent.metric(SUCCEEDED), len(agent.events("reload_failed"))


def threshold(agent: AgentProcess, id_: str, name: str) -> Any:
    """A rule's threshold, as explained by the agent."""
    found = agent.json(f"/api/v1/advice/{id_}")["thresholds"]
    return next(each["value"] for each in found if each["setting"].endswith(f".{name}"))


def test_a_signal_puts_in_force_what_may_change(tmp_path: Path) -> None:
    """Policy, threshold, interval, level and collectors at once; the rest is named and stays."""
    id_ = keep_advice(tmp_path / "history.db", now=time.time_ns() - 60 * 10**9)
    changed = config(tmp_path).replace("{interval: 1d, jitter: 0}", "RECOMMENDER") + (
        "policies: [{match: {owner: '*'}, class: standby}]\n"
        "log: {level: warning}\n"
        "webhooks: [{url: 'http://127.0.0.1:9/', name: night}]\n"
    )
    changed = changed.replace(
        "RECOMMENDER", "{interval: 10s, jitter: 0, rules: {idle: {on_ratio: 0.77}}}"
    ).replace("enable_lifecycle: true", "metrics: {collectors: {process: false}}")
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        eventually(lambda: agent.metric("rightsizer_device_up"))
        before = threshold(agent, id_, "on_ratio"), agent.get("/metrics")[1]
        reload(agent, tmp_path, changed)
        after = threshold(agent, id_, "on_ratio"), agent.get("/metrics")[1]
        (waiting,) = eventually(lambda: agent.events("restart_needed"))
        classes = eventually(lambda: classes_of(agent) == {"standby"})
        runs = eventually(lambda: agent.metric(RUNS))
        quiet = agent.events("recommender_ran")

    assert (before[0], after[0]) == (0.99, 0.77)
    assert "process_max_fds" in before[1]
    assert "process_max_fds" not in after[1]
    assert 'rightsizer_webhooks_pending{webhook="night"}' in after[1]
    assert waiting["keys"] == "web.enable_lifecycle"
    assert classes
    assert runs >= 1.0
    assert quiet == []


def classes_of(agent: AgentProcess) -> set[str]:
    """The classes of the workloads that hold GPUs."""
    return set(
        re.findall(r'rightsizer_workload_info\{[^}]*class="(\w+)"', agent.get("/metrics")[1])
    )


def test_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    """Nor does its valid part; the log has every fault with its place."""
    broken = config(tmp_path).replace("{interval: 1d, jitter: 0}", "{interval: 10s, jitter: 1x}")
    broken += "web: {metrics: {collectors: {process: false}}}\n"
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        eventually(lambda: agent.metric(SUCCESSFUL) == 1.0)
        reload(agent, tmp_path, broken.replace("web: {m", "catalogue: {m"))
        eventually(lambda: agent.metric(SUCCESSFUL) == 0.0)
        (refused,) = agent.events("reload_failed")
        metrics = agent.get("/metrics")[1]
        reload(agent, tmp_path, config(tmp_path) + "catalogue: {boards_file: /nowhere.yaml}\n")
        (_, absent) = agent.events("reload_failed")
        reload(agent, tmp_path, config(tmp_path))
        eventually(lambda: agent.metric(SUCCESSFUL) == 1.0)
        failed = agent.metric("rightsizer_recommender_failures_total")

    assert f"{tmp_path}/rightsizer.yaml:6:" in refused["error"]
    assert "'1x' is not a duration" in refused["error"]
    assert "rightsizer.yaml:7:" in refused["error"]
    assert "process_max_fds" in metrics
    assert "/nowhere.yaml: there is no such file" in absent["error"]
    assert failed == 0.0


def test_flags_and_environment_stay_in_force(tmp_path: Path) -> None:
    """They still override the reloaded file."""
    flags = ("--no-collector.process",)
    variable = "RIGHTSIZER_RECOMMENDER__RULES__IDLE__ON_RATIO"
    id_ = keep_advice(tmp_path / "history.db", now=time.time_ns() - 60 * 10**9)
    os.environ[variable] = "0.88"
    try:
        with agent_process(tmp_path, *flags, config=config(tmp_path)) as agent:
            eventually(lambda: agent.metric("rightsizer_device_up"))
            text = config(tmp_path).replace("1d", "2d, rules: {idle: {on_ratio: 0.55}}")
            reload(agent, tmp_path, text)
            found = threshold(agent, id_, "on_ratio"), agent.get("/metrics")[1]
            entries = agent.events("restart_needed")
    finally:
        del os.environ[variable]

    assert found[0] == 0.88
    assert "process_max_fds" not in found[1]
    assert entries == []


def test_many_reloads_leave_nothing_behind(tmp_path: Path) -> None:
    """No thread, no open file, and no more memory than one of them takes."""
    texts = [
        config(tmp_path) + f"grafana: {{url: 'http://127.0.0.1:9', annotations_per_run: {count}}}\n"
        for count in (10, 11)
    ]
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        eventually(lambda: agent.metric("rightsizer_device_up"))
        ask_to_reload(agent, tmp_path, texts, 10)
        before = held(agent)
        ask_to_reload(agent, tmp_path, texts, RELOADS)
        after = eventually(lambda: settled(agent, before), 60.0)
        eventually(lambda: len(agent.events("reloaded")) == RELOADS + 10)
        assert agent.end() == 0

    assert after["rss_mebibytes"] - before["rss_mebibytes"] < 8


def ask_to_reload(agent: AgentProcess, folder: Path, texts: list[str], count: int) -> None:
    """Reload one file after the other by HTTP, which answers when done."""
    for number in range(count):
        (folder / "rightsizer.yaml").write_text(texts[number % len(texts)])
        with urlopen(Request(f"{agent.url}/-/reload", method="POST"), timeout=60) as answer:
            assert answer.status == 200


def settled(agent: AgentProcess, before: dict[str, int]) -> dict[str, int] | None:
    """Resources held once they stop falling; each GPU may have got a thread meanwhile."""
    now = held(agent)
    few = now["threads"] < before["threads"] + RELOADS and now["files"] <= before["files"]
    return now if few else None


def held(agent: AgentProcess) -> dict[str, int]:
    """Kernel resources held by a process."""
    folder = Path(f"/proc/{agent.process.pid}")
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line
    )
    return {
        "threads": int(status["Threads"]),
        "files": len(list((folder / "fd").iterdir())),
        "rss_mebibytes": int(status["VmRSS"].split()[0]) // 1024,
    }


def test_the_local_socket_reloads_and_tells_the_faults(tmp_path: Path) -> None:
    """`check-config` and the reload report the same faults of a file."""
    with agent_process(tmp_path, config=config(tmp_path)) as agent:
        broken = config(tmp_path) + "log: {level: loud}\n"
        (tmp_path / "rightsizer.yaml").write_text(broken)
        checked = run_rightsizer("check-config", tmp_path / "rightsizer.yaml")
        agent.process.send_signal(signal.SIGHUP)
        (refused,) = eventually(lambda: agent.events("reload_failed"))

    assert checked.returncode == 78
    assert refused["error"] == checked.stderr.strip().removeprefix("rightsizer: ")


def test_a_reload_while_the_agent_loads_does_not_end_it() -> None:
    """The signal is ignored before the settings and the libraries are read."""
    program = """
import signal, sys
from rightsizer.cli import main
main.main = lambda _: signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
main.entry_point()
"""
    done = subprocess.run([sys.executable, "-c", program, "agent"], check=False, timeout=60)

    assert done.returncode == 0
