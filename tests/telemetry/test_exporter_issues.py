"""Known complaints about other exporters, unless another test covers them."""

import csv
import gc
import http.client
import re
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from instrumented_library import InstrumentedLibrary
from nvml_driver import reading, tick
from refusals import asked_of, usual
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.simulator.node import SimulatedNode
from rightsizer.web.server import WebServer
from simulated_driver import MIDNIGHT, hour, node_of
from simulated_trouble import scenario_with
from whole_node import WholeNode, whole_node

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS / "telemetry" / "KNOWN_PROBLEMS.md"
TRAFFIC = (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, Signal.PCIE_TRANSMIT_BYTES_PER_SECOND)
SLOW_QUESTIONS = {
    "nvmlDeviceValidateInforom",
    "nvmlDeviceGetInforomConfigurationChecksum",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetAccountingStats",
    "nvmlSystemGetProcessName",
}
"""Some block, some access the chip, some return private data."""


@contextmanager
def served(node: WholeNode) -> Iterator[http.client.HTTPConnection]:
    """The node's pages, and a connection to them."""
    latest = node.accounting.latest
    now = node.clock.wall_time
    exposition = MetricsExposition(latest, wall_time=now)
    server = WebServer(["127.0.0.1:0"], latest=latest, exposition=exposition, wall_time=now)
    server.start()
    connection = http.client.HTTPConnection(server.addresses[0])
    try:
        yield connection
    finally:
        connection.close()
        server.stop()


def page(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    """A page's status and text."""
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_pages_answer_while_the_driver_hangs(tmp_path: Path) -> None:
    """A hung GPU is down with the call that hangs; scrapes never wait for it."""
    with (
        whole_node(tmp_path, deadline_seconds=0.5, hung_after_seconds=0.3) as node,
        served(node) as connection,
    ):
        node.tick_until_read()
        hung = node.node.units[2].device.uuid
        node.library.faults.hang("nvmlDeviceGetPowerUsage", hung)
        for _ in range(3):
            node.tick()
            status, text = page(connection, "/metrics")
            assert status == 200
            assert f'rightsizer_device_up{{uuid="{hung}"}} 0' in text
            assert f'reason="timed_out",uuid="{hung}"}} 1' in text
            assert f'rightsizer_power_watts{{uuid="{hung}"}}' not in text
            assert text.count("rightsizer_power_watts{") == 7
            assert page(connection, "/-/healthy")[0] == 200
            assert page(connection, "/-/ready")[0] == 200


def test_pages_answer_while_all_of_the_driver_hangs(tmp_path: Path) -> None:
    """The agent is healthy but not ready: it has no reliable data."""
    with (
        whole_node(tmp_path, deadline_seconds=0.5, hung_after_seconds=0.3) as node,
        served(node) as connection,
    ):
        node.tick_until_read()
        for unit in node.node.units:
            node.library.faults.hang(uuid=unit.device.uuid)
        for _ in range(3):
            node.tick()
            assert page(connection, "/metrics")[1].count("rightsizer_device_up{") == 8
            assert page(connection, "/-/healthy")[0] == 200


def test_nothing_piles_up() -> None:
    """Later ticks hold no more threads, files, memory or driver objects than the first."""
    node = node_of("h100-mig", hour(12))
    clock = FastClock(hour(12))
    library = InstrumentedLibrary(node, clock.wall_time, counts_calls=True)
    often = {"slow_interval_seconds": 1.0, "enumeration_interval_seconds": 3.0}
    held = []
    tracemalloc.start()
    try:
        with reading(library, clock, **often) as source:
            for _ in range(3):
                for _ in range(20):
                    source.read()
                    tick(clock)
                files = len(list(Path("/proc/self/fd").iterdir()))
                held.append((threading.active_count(), files, bytes_of_ours()))
            lent = library.calls["nvmlGpmSampleAlloc"] - library.calls["nvmlGpmSampleFree"]
            openings = library.calls["nvmlInitWithFlags"], library.calls["nvmlShutdown"]
    finally:
        tracemalloc.stop()
    assert held[1][1] == held[2][1]
    # On a busy machine each of the two GPUs may have got a thread of its own meanwhile.
    assert held[2][0] <= held[1][0] + 2
    # One leaked reading a round would take five times as much.
    assert held[2][2] - held[1][2] < 128 * 1024
    assert openings == (1, 0)
    # Two samples for each device with profiling counters: a GPU and three instances.
    assert lent == 2 * 4


def bytes_of_ours() -> int:
    """Memory allocated by telemetry, without the simulator."""
    gc.collect()
    ours = tracemalloc.Filter(True, "*/rightsizer/telemetry/*")
    simulators = tracemalloc.Filter(False, "*/rightsizer/simulator/*")
    traces = tracemalloc.take_snapshot().filter_traces((ours, simulators))
    return sum(statistic.size for statistic in traces.statistics("filename"))


def test_unsupported_metric_is_not_logged_every_tick() -> None:
    """Boards that lack half of the metrics, and one that refuses the rest, log nothing a tick."""
    node = node_of("zoo", hour(12))
    clock = FastClock(hour(12))
    library = InstrumentedLibrary(node, clock.wall_time)
    with capture_logs() as lines, reading(library, clock) as source:
        for name in library.functions:
            if name.startswith("nvmlDeviceGet") and name != "nvmlDeviceGetUUID":
                library.faults.answer(name, pynvml.NVML_ERROR_UNKNOWN, node.units[1].device.uuid)
        for _ in range(40):
            source.read()
            tick(clock)
    assert len(lines) <= 2


def test_parts_of_the_memory_are_distinguished() -> None:
    """Used and free do not sum to the total: the driver reserves a part, which is neither."""
    for found in usual("zoo").last.readings.values():
        used, free, reserved, total = (
            found.values[signal]
            for signal in (
                Signal.MEMORY_USED_BYTES,
                Signal.MEMORY_FREE_BYTES,
                Signal.MEMORY_RESERVED_BYTES,
                Signal.MEMORY_TOTAL_BYTES,
            )
        )
        assert reserved > 0
        assert used + free < total
        assert used + free + reserved <= total


def test_traffic_that_nobody_measures_is_not_zero() -> None:
    """Boards without GPM or counters have no PCIe traffic, unless blocking calls are enabled."""
    unmeasured = 0
    for found in usual("zoo").last.readings.values():
        for signal in TRAFFIC:
            if found.get(signal) is None:
                unmeasured += 1
                assert found.why_missing(signal) in {Missing.NOT_SUPPORTED, Missing.NO_SAMPLE}
            else:
                assert found.origins[signal] in {"gpm", "pcie_counters"}
    assert unmeasured


def test_a_busy_memory_controller_is_not_bandwidth() -> None:
    """NVML's memory utilization is never exported as bandwidth."""
    for found in usual("zoo").last.readings.values():
        if "gpm" not in found.origins.values():
            assert found.get(Signal.DRAM_ACTIVE) is None


def test_questions_that_cost_too_much_are_not_asked() -> None:
    """Neither are those that return private data."""
    for scenario in ("eight-gpu-node", "a100-mig", "zoo"):
        assert not SLOW_QUESTIONS & set(asked_of(scenario))


def test_indices_that_shift_mix_no_gpus(tmp_path: Path) -> None:
    """A GPU that appears first shifts the others' indices, but not their readings."""
    clock = FastClock(MIDNIGHT)
    fault = "{kind: absence, gpus: [0], after: 0, for: 5}"
    node = SimulatedNode(scenario_with(tmp_path, fault), built_in(), MIDNIGHT)
    library = InstrumentedLibrary(node, clock.wall_time)
    places: dict[str, set[int]] = {}
    with reading(library, clock, enumeration_interval_seconds=4.0) as source:
        for _ in range(25):
            now = clock.time()
            snapshot = source.read()
            for device in snapshot.devices:
                found = snapshot.readings.get(device.uuid)
                if found is None or device.name != "NVIDIA H100 80GB HBM3":
                    continue  # The other reading is not used while it wakes up.
                places.setdefault(device.uuid, set()).add(device.index)
                power = node.state(device.uuid, now).power_watts
                assert found.values[Signal.POWER_WATTS] == pytest.approx(power, abs=0.001)
            tick(clock)
    second = node.units[1].device.uuid
    assert places[second] == {0, 1}


def test_each_complaint_is_held_by_tests_that_exist() -> None:
    """The page lists them, each with its tests in a table beside it."""
    known = {
        name
        for folder in (TESTS, TESTS.parent / "benchmarks", TESTS.parent / "evaluation")
        for file in folder.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", file.read_text("utf-8"), re.MULTILINE)
    }
    with (Path(__file__).parent / "known_problems.csv").open(encoding="utf-8", newline="") as file:
        held = {row["problem"]: set(row["tests"].split()) for row in csv.DictReader(file)}
    _, _, tables = DOCUMENT.read_text("utf-8").partition("## Known problems")
    told = re.findall(r"^\| (?!-|problem|pitfall)(.+?) \|", tables, re.MULTILINE)
    assert sorted(told) == sorted(held)
    assert all(held.values())
    assert set().union(*held.values()) <= known
