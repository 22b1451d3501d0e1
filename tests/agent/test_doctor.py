"""The doctor's checks of machines that lack something."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from checked_machine import ANSWERED, GPU, configured, machine, seen, verdict, write
from nvml_driver import FakeDriver, installed
from readings import TRAINING, reading
from rightsizer.agent.doctor import CHECKS, examine, first_snapshot
from rightsizer.agent.doctor.check import Check, CheckContext
from rightsizer.agent.doctor.gpus import (
    check_counters,
    check_device_files,
    check_driver,
    check_gpu_processes,
)
from rightsizer.agent.doctor.host import (
    check_clock,
    check_control_groups,
    check_memory_limit,
    check_memory_placement,
    check_pressure,
    check_processes,
    check_topology,
)
from rightsizer.agent.doctor.own import (
    check_broker,
    check_history,
    check_local_socket,
    check_web_port,
)
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Down
from rightsizer.telemetry.settings import SimulatedSettings
from rightsizer.web.server import WebServer


@pytest.fixture
def context(tmp_path: Path) -> CheckContext:
    """An empty machine with one readable GPU."""
    return machine(tmp_path)


def without(signals: set[Signal], why: Missing) -> Any:
    """The reading without some signals."""
    values = {signal: value for signal, value in TRAINING.items() if signal not in signals}
    return replace(reading(GPU, 1.0, values), missing=dict.fromkeys(signals, why))


PROFILING: Final = {Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.DRAM_ACTIVE}


def test_device_files(context: CheckContext) -> None:
    """Present, absent, not needed (WSL2), or simulated."""
    assert verdict(check_device_files(context)) == "unused"
    unread = replace(context, snapshot=replace(context.snapshot, readings={}))
    assert verdict(check_device_files(unread)) == "missing"
    write(context.devices / "nvidiactl")
    write(context.devices / "nvidia0")
    found = check_device_files(context)
    assert (verdict(found), found.found) == ("ok", "nvidiactl, nvidia0")
    simulated = configured(context, simulated=SimulatedSettings("single-h100"))
    assert verdict(check_device_files(simulated)) == "unused"


def test_driver(context: CheckContext) -> None:
    """Open, failing, or with a device that is down."""
    assert verdict(check_driver(context)) == "ok"
    broken = check_driver(replace(context, snapshot=seen(trouble="the module is not loaded")))
    assert (verdict(broken), broken.found) == ("missing", "the module is not loaded")
    down = {GPU.uuid: Down(Missing.LOST, "it fell off the bus")}
    fallen = check_driver(replace(context, snapshot=seen(down=down)))
    assert verdict(fallen) == "limited"
    assert "it fell off the bus" in fallen.found
    collectors = {"memory": CollectorOutcome(False, 0.0, "GPU 0: nvmlDeviceGetMemoryInfo: no")}
    failing = check_driver(replace(context, snapshot=seen(collectors=collectors)))
    assert verdict(failing) == "limited"
    assert "memory (GPU 0: nvmlDeviceGetMemoryInfo: no)" in failing.found


def test_basic_signals_that_a_gpu_lacks(context: CheckContext) -> None:
    """A GPU with the host's memory has none of its own; one that is woken up has a sample soon."""
    memory = {Signal.MEMORY_USED_BYTES}
    lacking = seen(without(memory, Missing.NOT_SUPPORTED))
    limited = check_driver(replace(context, snapshot=lacking))
    assert verdict(limited) == "limited"
    assert "not supported: memory_used_bytes (GPUs: 1)" in limited.found
    early = seen(without(memory, Missing.NO_SAMPLE))
    assert verdict(check_driver(replace(context, snapshot=early))) == "ok"


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        (Missing.NOT_SUPPORTED, "sources.dcgm.url"),
        (Missing.NO_PERMISSION, "NVreg_RestrictProfilingToAdminUsers=0"),
        (Missing.RELEASED, "rightsizer resume"),
        (Missing.TIMED_OUT, ""),
    ],
)
def test_profiling_counters(context: CheckContext, why: Missing, remedy: str) -> None:
    """Without them the tier, the reason and the remedy are reported."""
    assert verdict(check_counters(context)) == "ok"
    limited = check_counters(replace(context, snapshot=seen(without(PROFILING, why))))
    assert verdict(limited) == "limited"
    assert limited.found == f"devices by tier: power: 1 ({why})"
    assert remedy in limited.remedy
    assert bool(limited.remedy) is bool(remedy)
    assert verdict(check_counters(replace(context, snapshot=seen()))) == "missing"


def test_processes_on_gpus(context: CheckContext) -> None:
    """Reported by the driver and visible in procfs, where a container hides the host's."""
    hidden = check_gpu_processes(context)
    assert (verdict(hidden), hidden.found[-6:]) == ("limited", "2 of 2")
    for pid in ("1", "4000000"):
        (context.procfs / pid).mkdir(parents=True)
    assert verdict(check_gpu_processes(context)) == "ok"
    untold = replace(context, snapshot=seen(replace(ANSWERED, processes=None)))
    assert verdict(check_gpu_processes(untold)) == "missing"


def test_host(context: CheckContext) -> None:
    """Each missing file costs the values read from it."""
    checks = (check_processes, check_pressure, check_topology, check_control_groups)
    assert [verdict(check(context)) for check in checks] == ["missing"] * 4
    write(context.procfs / "1/cgroup", "0::/init.scope\n")
    write(context.procfs / "pressure/cpu")
    (context.sysfs / "bus/pci/devices/0000:01:00.0").mkdir(parents=True)
    (context.sysfs / "fs/cgroup/memory").mkdir(parents=True)
    assert [verdict(check(context)) for check in checks] == ["ok"] * 3 + ["limited"]
    write(context.sysfs / "fs/cgroup/cgroup.controllers")
    assert verdict(check_control_groups(context)) == "ok"
    write(context.procfs / "1/cgroup", "0::/../../../../init.scope\n")
    hidden = check_control_groups(context)
    assert (verdict(hidden), "this container alone" in hidden.found) == ("missing", True)


def test_memory_placement(context: CheckContext) -> None:
    """It is useless on one node, and needs a drop-in on several."""
    nodes = context.sysfs / "devices/system/node"
    (nodes / "node0").mkdir(parents=True)
    assert verdict(check_memory_placement(context)) == "unused"
    write(nodes / "node1/cpulist", "\n")
    assert verdict(check_memory_placement(context)) == "unused"
    write(nodes / "node1/cpulist", "4-7\n")
    closed = check_memory_placement(context)
    assert verdict(closed) == "limited"
    assert "ptrace.conf" in closed.remedy
    write(context.procfs / "1/numa_maps")
    assert verdict(check_memory_placement(context)) == "ok"


def test_clock(context: CheckContext) -> None:
    """A clock at the epoch was never set."""
    assert verdict(check_clock(context)) == "ok"
    unset = check_clock(replace(context, snapshot=replace(context.snapshot, wall_time=0)))
    assert (verdict(unset), unset.found) == ("limited", "1970-01-01")


@pytest.mark.parametrize(
    ("group", "limits", "expected"),
    [
        ("0::/a/b", {}, "ok"),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": str(2**28)}, "ok"),
        ("0::/a/b", {"a/b/memory.max": str(2**28), "a/memory.max": str(2**26)}, "limited"),
        ("4:memory:/a\n2:cpu:/c", {"memory/a/memory.limit_in_bytes": str(2**63 - 4096)}, "ok"),
        ("4:memory:/a\n2:cpu:/c", {"memory/a/memory.limit_in_bytes": str(2**26)}, "limited"),
        ("2:cpu:/c", {"c/memory.max": "1"}, "ok"),
    ],
)
def test_memory_limit(
    context: CheckContext, group: str, limits: dict[str, str], expected: str
) -> None:
    """The tightest of all parent groups, in either cgroup version."""
    write(context.procfs / "self/cgroup", f"{group}\n")
    for path, limit in limits.items():
        write(context.sysfs / "fs/cgroup" / path, f"{limit}\n")
    assert verdict(check_memory_limit(context)) == expected


def test_pids_of_another_namespace(context: CheckContext) -> None:
    """The host's /proc in a pod with its own pids shows processes that are not the driver's."""
    write(context.procfs / "1/cgroup")
    assert check_processes(context).found == "the first process is in no control group"
    write(context.procfs / "self/status", "NSpid:\t4242\t7\n")
    foreign = check_processes(context)
    assert (verdict(foreign), "hostPID" in foreign.remedy) == ("missing", True)


def test_history(context: CheckContext, tmp_path: Path) -> None:
    """Its folder, and room for its maximum size."""
    assert verdict(check_history(context)) == "ok"

    def history(**changes: Any) -> Check:
        settings = context.settings
        changed = replace(settings, history=replace(settings.history, **changes))
        return check_history(replace(context, settings=changed))

    assert verdict(history(path="")) == "unused"
    assert verdict(history(path=str(tmp_path / "none" / "history.db"))) == "missing"
    assert verdict(history(maximum_size_bytes=2**62)) == "limited"
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert verdict(check_history(context)) == "limited"


def test_broker(context: CheckContext, tmp_path: Path) -> None:
    """Off; then its folder, socket, disk space, and the existence of named users."""

    def broker(api_socket: str = "/run/api.sock", **changes: Any) -> Check:
        settings = context.settings
        path = str(tmp_path / "broker.db")
        changed = replace(settings.broker, **{"enabled": True, "path": path, **changes})
        paths = replace(settings.path, api_socket=api_socket)
        return check_broker(
            replace(context, settings=replace(settings, broker=changed, path=paths))
        )

    assert verdict(check_broker(context)) == "unused"
    assert verdict(broker()) == "ok"
    missing = broker(path=str(tmp_path / "unmounted" / "broker.db"))
    assert (verdict(missing), "there is no folder" in missing.found) == ("missing", True)
    assert verdict(broker(api_socket="")) == "missing"
    unknown = broker(users=("root", "no-such-user"), operator_groups=("no-such-group",))
    assert verdict(unknown) == "limited"
    assert unknown.found == (
        "unknown: 'no-such-user' of broker.users, 'no-such-group' of broker.operator_groups"
    )
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert verdict(broker()) == "limited"


def test_local_socket(context: CheckContext, tmp_path: Path) -> None:
    """A running agent, none, and no room for a socket."""
    assert check_local_socket(context).found.startswith("no agent runs")
    with listening(context.settings.path.api_socket):
        assert check_local_socket(context).found.startswith("an agent answers")

    def at(path: str, *, is_lending: bool = False) -> Check:
        settings = context.settings
        changed = replace(
            settings,
            path=replace(settings.path, api_socket=path),
            broker=replace(settings.broker, enabled=is_lending),
        )
        return check_local_socket(replace(context, settings=changed))

    assert verdict(at("")) == "unused"
    nowhere = str(tmp_path / "none" / "api.sock")
    assert verdict(at(nowhere)) == "limited"
    away = f"no agent answers at {nowhere}, and there is no folder {tmp_path / 'none'}"
    assert at(nowhere).found == away
    assert "reserve" not in at(nowhere).lost
    assert "run, queue, reserve and cancel" in at(nowhere, is_lending=True).lost


def test_web_port(context: CheckContext) -> None:
    """Free, in use, not of this machine, or passed by systemd."""

    def web(**changes: Any) -> Check:
        settings = context.settings
        changed = replace(settings, web=replace(settings.web, **changes))
        return check_web_port(replace(context, settings=changed))

    assert verdict(check_web_port(context)) == "ok"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = web(listen_addresses=(f"127.0.0.1:{taken.getsockname()[1]}",))
    assert verdict(found) == "missing"
    assert f"is taken by process {os.getpid()} (" in found.found
    assert "stop what has the address" in found.remedy
    server = WebServer(
        ["127.0.0.1:0"], latest=lambda: None, exposition=MetricsExposition(lambda: None)
    )
    server.start()
    try:
        found = web(listen_addresses=tuple(server.addresses))
    finally:
        server.stop()
    assert verdict(found) == "ok"
    assert f"is taken by the agent, process {os.getpid()} (" in found.found
    assert verdict(web(listen_addresses=("192.0.2.1:19400",))) == "missing"
    assert verdict(web(systemd_socket=True)) == "ok"


def test_a_machine_without_a_driver_is_examined(context: CheckContext) -> None:
    """Every check has an answer, in order; the driver's has the remedy."""
    driver = FakeDriver()
    driver.is_loaded = False
    with installed(driver):
        found = {check.name: check for check in examine(context.settings, {})}
    assert len(found) == len(CHECKS)
    assert "kernel module is not loaded" in found["driver"].found
    assert list(found)[:2] == ["device files", "driver"]


def test_a_simulated_node_is_looked_at_until_its_counters_speak(context: CheckContext) -> None:
    """The agent's own source waits for their second sample."""
    simulated = configured(context, simulated=SimulatedSettings("single-h100")).settings
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    found = first_snapshot(simulated, wait)
    assert verdict(check_counters(replace(context, snapshot=found))) == "ok"
    assert waits


@pytest.fixture(autouse=True)
def _library_as_it_was() -> Iterator[None]:
    """Restore the library, since a simulated scenario replaces it below the bindings."""
    with installed(FakeDriver()):
        yield


class listening:  # noqa: N801 - it reads as what it does.
    """A socket with a listener."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._socket = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> None:
        self._socket.bind(str(self._path))
        self._socket.listen()

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._path.unlink()
