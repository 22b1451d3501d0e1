"""Driver calls of a tick; a scrape makes none."""

import http.client
from collections import Counter
from pathlib import Path

from benchmarks.bare_bindings import BareBindings
from benchmarks.tick_cost import LISTENING, fast_calls
from canned_driver import CannedLibrary
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.web.server import WebServer
from whole_node import WholeNode, whole_node

CONSTANT = {
    "nvmlInitWithFlags",
    "nvmlDeviceGetName",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetP2PStatus",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlSystemGetDriverVersion",
}
"""Constant while NVML is initialized."""


def asked(node: WholeNode) -> Counter[str]:
    """The calls until now, except those of the thread that waits for errors."""
    calls = node.calls
    del calls[LISTENING]
    return calls


def test_no_driver_call_is_on_the_path_of_a_scrape(tmp_path: Path) -> None:
    """Fifty scrapes and as many page views between two ticks make no driver call."""
    with whole_node(tmp_path, counts_calls=True) as node:
        node.tick()
        node.tick()
        latest = node.accounting.latest
        now = node.clock.wall_time
        server = WebServer(
            ["127.0.0.1:0"],
            latest=latest,
            exposition=MetricsExposition(latest, wall_time=now),
            wall_time=now,
        )
        server.start()
        connection = http.client.HTTPConnection(server.addresses[0])
        before = asked(node)
        try:
            for _ in range(50):
                for path in ("/metrics", "/-/healthy", "/", "/api/v1/report"):
                    connection.request("GET", path)
                    assert connection.getresponse().read()
        finally:
            connection.close()
            server.stop()
        assert asked(node) == before
        node.tick()
        assert asked(node) != before


def test_constant_facts_are_asked_once(tmp_path: Path) -> None:
    """Neither ticks, slow readings nor later discoveries repeat them."""
    with whole_node(tmp_path, counts_calls=True) as node:
        node.tick()
        node.tick()
        before = asked(node)
        assert before.keys() >= CONSTANT
        for _ in range(150):
            node.tick()
        assert not CONSTANT & (asked(node) - before).keys()


def test_a_tick_asks_each_gpu_alike(tmp_path: Path) -> None:
    """Eight GPUs have eight calls each; two where there are two clocks."""
    with whole_node(tmp_path, counts_calls=True) as node:
        calls = fast_calls(node)
    assert {name: count for name, count in calls.items() if count != 8} == {
        "nvmlDeviceGetClockInfo": 16
    }
    assert calls.total() < 150


def test_the_bindings_alone_make_the_calls_of_a_tick(tmp_path: Path) -> None:
    """Both values therefore cover the same work."""
    with whole_node(tmp_path, counts_calls=True) as node:
        calls = fast_calls(node)
    with whole_node(tmp_path / "bare", counts_calls=True) as node, BareBindings() as bare:
        node.pass_second()
        before = node.calls
        bare.round()
        assert node.calls - before == calls


def test_a_canned_answer_is_the_first_one(tmp_path: Path) -> None:
    """The agent reads the same from a driver that answers at once, as if time stood still."""
    with whole_node(tmp_path / "real") as node:
        real = node.tick()
    with whole_node(tmp_path / "canned", around=CannedLibrary) as node:
        canned = [node.tick() for _ in range(5)]
    values = [
        [dict(device.reading.values) for device in report.devices if device.reading is not None]
        for report in (real, *canned)
    ]
    assert len(values[0]) == 8
    assert values[0] == values[1] != values[2]
    # The two profiling samples alternate in order; the counters that they replace are left out from
    # the third tick on.
    assert values[3] == values[5]
