"""Slurm's prolog and epilog, run as by slurmd, beside a real agent on a simulated node."""

import fcntl
import getpass
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agent_process import AgentProcess, agent_process, eventually
from debian_program import program, run_program
from rightsizer.owners.slurm import read_job_map

SLURM: Final = Path(__file__).parents[2] / "config" / "slurm"
SCRIPTS: Final = ("prolog.sh", "epilog.sh")
MIG: Final = "MIG-6e3ae79c-8d9c-5f3c-9d1c-3b5e8a1c7b0d"
GPU: Final = "GPU-a8122f25-1063-4d50-b16c-5db4d815ddc2"
SCENARIO: Final = """\
name: one-job
seed: 3
cores: 16
boards:
  - {board: H100-SXM5-80GB, count: 2}
workloads:
  - name: "4242"
    kind: slurm
    class: batch
    allocator: growing
    gpus: [0]
    memory_gib: 20
    cores: 8
    phases:
      - {activity: matrix_training, state: compute_bound}
"""
CONFIG: Final = """\
sampling: {interval: 200ms}
history: {path: FOLDER/history.db}
web: {listen_addresses: ['127.0.0.1:0']}
sources: {simulated: {scenario: FOLDER/one-job.yaml}}
path: {api_socket: FOLDER/api.sock}
"""
pytestmark = pytest.mark.skipif(
    shutil.which("flock") is None, reason="no flock on this machine, which the scripts lock with"
)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that has seen job 4242 hold a GPU."""
    (tmp_path / "one-job.yaml").write_text(SCENARIO)
    with agent_process(tmp_path, config=CONFIG.replace("FOLDER", str(tmp_path))) as agent:
        eventually(lambda: agent.metric("rightsizer_workload_info", name="4242"))
        yield agent


def run(script: str, folder: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a script with the environment of slurmd and the paths of its files."""
    command = folder / "rightsizer"
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m rightsizer \"$@\"\n")
    command.chmod(0o755)
    given = {
        "RIGHTSIZER_JOB_MAP": str(folder / "jobs"),
        "RIGHTSIZER_COMMAND": str(command),
        "RIGHTSIZER_CONFIGURATION": str(folder / "rightsizer.yaml"),
        "SLURM_JOB_USER": getpass.getuser(),
        **environ,
    }
    return subprocess.run(
        [SLURM / script],
        env=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        umask=0o077,
    )


def mapped(folder: Path) -> dict[str, tuple[str, ...]]:
    """The agent's reading of the map."""
    return dict(read_job_map(folder / "jobs"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck_has_no_complaint(script: str) -> None:
    """In strict POSIX mode."""
    done = run_program(program("shellcheck", "shellcheck"), "--shell=sh", SLURM / script)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLURM_JOB_GPUS": "0,3"}, ["index:0", "index:3"]),
        ({"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}, ["index:1"]),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": MIG}, [MIG]),
        ({"CUDA_VISIBLE_DEVICES": f"{GPU},{MIG}"}, [GPU, MIG]),
        ({"CUDA_VISIBLE_DEVICES": "2"}, ["index:2"]),
    ],
)
def test_the_prolog_writes_what_the_agent_reads(
    tmp_path: Path, environ: dict[str, str], expected: list[str]
) -> None:
    """GPUs by number, MIG instances by uuid; readable by the agent for any umask of slurmd."""
    done = run("prolog.sh", tmp_path, SLURM_JOB_ID="4242", **environ)
    file = next((tmp_path / "jobs").iterdir())

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert mapped(tmp_path) == dict.fromkeys(expected, ("4242",))
    assert file.parent.stat().st_mode & 0o055 == 0o055
    assert file.stat().st_mode & 0o044 == 0o044


def test_jobs_that_share_a_gpu_come_and_go_apart(tmp_path: Path) -> None:
    """Eight of them at once; a repeated prolog, as after a requeue, adds one entry only."""

    def all_at_once(script: str, jobs: list[str]) -> None:
        threads = [
            threading.Thread(
                target=run,
                args=(script, tmp_path),
                kwargs={
                    "SLURM_JOB_ID": job,
                    "SLURM_JOB_GPUS": "0",
                    "RIGHTSIZER_JOB_REPORT": "none",
                },
            )
            for job in jobs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    jobs = [str(100 + number) for number in range(8)]
    all_at_once("prolog.sh", [*jobs, *jobs[:2]])
    assert sorted(mapped(tmp_path)["index:0"]) == jobs
    all_at_once("epilog.sh", jobs[1:])
    assert mapped(tmp_path) == {"index:0": ("100",)}
    assert (tmp_path / "jobs" / "0").stat().st_mode & 0o044 == 0o044
    all_at_once("epilog.sh", jobs[:1])
    assert mapped(tmp_path) == {}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "../../etc", "SLURM_JOB_GPUS": "0"},
        {"SLURM_JOB_ID": "7"},
        {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "../x,*,.lock,-1,,NoDevFiles/"},
        {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "RIGHTSIZER_JOB_MAP": "/proc/nowhere"},
        {"SLURM_JOB_ID": "7", "RIGHTSIZER_COMMAND": "/nowhere/rightsizer"},
    ],
)
def test_nothing_makes_a_script_fail(tmp_path: Path, script: str, environ: dict[str, str]) -> None:
    """A failing prolog or epilog drains its node; no name leads out of the folder."""
    done = run(script, tmp_path, **environ)
    folder = tmp_path / "jobs"
    files = {path.name for path in folder.iterdir()} if folder.exists() else set()

    assert (done.returncode, done.stdout) == (0, "")
    assert files <= {".lock"}
    assert {path.name for path in tmp_path.iterdir()} <= {"jobs", "rightsizer"}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_lock_that_is_held_is_not_waited_for(tmp_path: Path, script: str) -> None:
    """The script gives up and succeeds, and the map is unchanged."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "0").write_text("17\n")
    with (tmp_path / "jobs" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run(
            script,
            tmp_path,
            SLURM_JOB_ID="17" if script == "epilog.sh" else "4242",
            SLURM_JOB_GPUS="0",
            RIGHTSIZER_JOB_REPORT="none",
            RIGHTSIZER_LOCK_SECONDS="0",
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert mapped(tmp_path) == {"index:0": ("17",)}


def test_a_report_that_hangs_is_given_up(tmp_path: Path) -> None:
    """The job leaves the map before the report is requested."""
    run("prolog.sh", tmp_path, SLURM_JOB_ID="17", SLURM_JOB_GPUS="0")
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    done = run(
        "epilog.sh",
        tmp_path,
        SLURM_JOB_ID="17",
        RIGHTSIZER_COMMAND=str(hanging),
        RIGHTSIZER_REPORT_SECONDS="0.1",
    )

    assert (done.returncode, done.stderr, mapped(tmp_path)) == (0, "", {})


def test_a_destination_that_hangs_is_left_behind(tmp_path: Path) -> None:
    """Such as output on an unreachable file server; here an unread pipe."""
    output = tmp_path / "mailer"
    output.mkdir()
    (output / "mail").write_text("#!/bin/sh\ntrap '' TERM\nexec sleep 3\n")
    (output / "mail").chmod(0o755)
    reporter = tmp_path / "reporter"
    reporter.write_text("#!/bin/sh\necho GPU use\n")
    reporter.chmod(0o755)
    script = tmp_path / "epilog.sh"
    text = (SLURM / "epilog.sh").read_text()
    script.write_text(text.replace("PATH=", f"PATH={output}:", 1))
    script.chmod(0o755)
    done = run(
        str(script),
        tmp_path,
        SLURM_JOB_ID="17",
        RIGHTSIZER_COMMAND=str(reporter),
        RIGHTSIZER_JOB_REPORT="mail",
        RIGHTSIZER_DELIVERY_SECONDS="1",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_steps_of_both_scripts_fit_into_twenty_seconds() -> None:
    """With the shipped timeouts, all reached, plus a second for each process to kill."""
    for script in SCRIPTS:
        text = (SLURM / script).read_text()
        limits = re.findall(r"RIGHTSIZER_\w+_SECONDS:-(\d+)", text)
        assert limits
        assert sum(int(limit) + 1 for limit in limits) <= 20


def test_the_report_stands_at_the_end_of_the_jobs_output(
    tmp_path: Path, agent: AgentProcess
) -> None:
    """Up to the last second, although the history is written once a minute."""
    assert agent.metric("rightsizer_history_writes_total") == 0.0
    output = tmp_path / "slurm-4242.out"
    output.write_text("epoch 1 done\n")
    run("prolog.sh", tmp_path, SLURM_JOB_ID="4242", SLURM_JOB_GPUS="0")
    done = run("epilog.sh", tmp_path, SLURM_JOB_ID="4242", SLURM_JOB_STDOUT=str(output))
    lines = output.read_text().splitlines()

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert lines[:3] == ["epoch 1 done", "", f"GPU use of job 4242 on {os.uname().nodename}"]
    assert "1 x NVIDIA H100" in lines[3]
    assert mapped(tmp_path) == {}


def test_a_job_without_gpus_gets_no_report(tmp_path: Path, agent: AgentProcess) -> None:
    """Nor does an interactive one, which has no output file; none is created."""
    output = tmp_path / "slurm-7.out"
    absent = tmp_path / "absent.out"
    output.write_text("")
    run("epilog.sh", tmp_path, SLURM_JOB_ID="7", SLURM_JOB_STDOUT=str(output))
    done = run("epilog.sh", tmp_path, SLURM_JOB_ID="4242", SLURM_JOB_STDOUT=str(absent))

    assert agent.process.poll() is None
    assert output.read_text() == ""
    assert not absent.exists()
    assert done.returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can write as somebody else")
def test_the_report_is_written_with_the_users_rights(tmp_path: Path, agent: AgentProcess) -> None:
    """A link to a file of root's gets nothing."""
    del agent
    precious = tmp_path / "precious"
    output = tmp_path / "slurm-4242.out"
    precious.write_text("root's\n")
    precious.chmod(0o600)
    output.symlink_to(precious)
    done = run(
        "epilog.sh",
        tmp_path,
        SLURM_JOB_ID="4242",
        SLURM_JOB_STDOUT=str(output),
        SLURM_JOB_USER="nobody",
    )

    assert done.returncode == 0
    assert precious.read_text() == "root's\n"
