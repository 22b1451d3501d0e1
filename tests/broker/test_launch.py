"""The environment that a lease gives to its process."""

import os
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.broker.launch import LaunchPlan, bind, has_mps, launch_of

GIBIBYTE: Final = 1 << 30
LEASE: Final[dict[str, Any]] = {
    "id": "abcdefgh",
    "uuids": ["GPU-1", "MIG-2"],
    "memory_bytes": [10.0 * GIBIBYTE, 20.0 * GIBIBYTE],
    "memory_total_bytes": [80.0 * GIBIBYTE, 80.0 * GIBIBYTE],
    "is_shared": True,
    "ends_boottime_ns": None,
    "cpus": [0, 1, 2, 3],
    "numa_nodes": [1],
}


def test_seats_are_named_by_uuid() -> None:
    """MIG instances too, in bus order; without MPS nothing else is set."""
    launch = launch_of(LEASE, {}, {1, 2, 9}, has_mps=False, socket="/s")
    assert launch.variables["CUDA_VISIBLE_DEVICES"] == "GPU-1,MIG-2"
    assert launch.variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert launch.variables["RIGHTSIZER_LEASE"] == "abcdefgh"
    assert not [name for name in launch.variables if name.startswith("CUDA_MPS")]
    assert (launch.cpus, launch.memory_node) == ({1, 2}, 1)


def test_a_share_has_limits_where_mps_runs() -> None:
    """Memory as reserved, threads at twice its share; existing variables take precedence."""
    variables = launch_of(LEASE, {}, (), has_mps=True, socket="/s").variables
    assert variables["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
    assert variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=10240M,1=20480M"
    assert variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    given = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10", "CUDA_MPS_PIPE_DIRECTORY": "/mps"}
    own = launch_of(LEASE, given, (), has_mps=True, socket="/s").variables
    assert own["CUDA_MPS_PIPE_DIRECTORY"] == "/mps"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in own
    alone = launch_of({**LEASE, "is_shared": False}, {}, (), has_mps=True, socket="/s").variables
    assert not [name for name in alone if name.startswith("CUDA_MPS")]


def test_memory_over_several_nodes_is_left_where_it_falls() -> None:
    """The same holds for an unknown node."""
    assert (
        launch_of({**LEASE, "numa_nodes": [0, 1]}, {}, (), has_mps=False, socket="/s").memory_node
        is None
    )
    assert (
        launch_of({**LEASE, "numa_nodes": []}, {}, (), has_mps=False, socket="/s").memory_node
        is None
    )


@pytest.mark.parametrize(
    ("command", "runs"), [("nvidia-cuda-mps", True), ("bash", False), (None, False)]
)
def test_mps_runs_if_its_daemon_does(tmp_path: Path, command: str | None, runs: bool) -> None:  # noqa: FBT001 - a case.
    """A stale pid file, or one of another process, does not count."""
    pipes = tmp_path / "mps"
    process = tmp_path / "proc" / "77"
    pipes.mkdir()
    process.mkdir(parents=True)
    assert not has_mps({"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}, tmp_path / "proc")
    (pipes / "nvidia-cuda-mps-control.pid").write_text("77\n")
    if command is not None:
        (process / "comm").write_text(f"{command}\n")
    assert has_mps({"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}, tmp_path / "proc") is runs


def test_a_process_is_bound_to_cpus_and_prefers_a_node() -> None:
    """By itself, for all its children; a failure is logged and not raised."""
    cpu = min(os.sched_getaffinity(0))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        warnings: list[str] = []
        bind(LaunchPlan({}, frozenset({cpu}), 0), warnings.append)
        policy = Path("/proc/self/numa_maps")
        text = policy.read_text() if policy.exists() else "prefer"
        is_near = "prefer" in text or "default" in text
        good = os.sched_getaffinity(0) == {cpu} and not warnings and is_near
        bind(LaunchPlan({}, frozenset({10**4}), 1000), warnings.append)
        os.write(
            writer, b"well" if good and len(warnings) == 1 else repr(warnings).encode() or b"?"
        )
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"well"
    os.close(reader)
