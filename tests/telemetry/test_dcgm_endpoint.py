"""A dcgm-exporter on loopback, working and failing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dcgm_exporter import BUSY, OTHER, dcgm_exporter, lines, page
from readings import SECOND
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.dcgm.endpoint import DcgmEndpoint, ExporterView
from rightsizer.telemetry.dcgm.settings import DcgmSettings

PATIENCE = 10.0
"""Maximum wait of a test in seconds, for an answer that comes."""


class Watch:
    """An endpoint with a clock controlled by the test."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.clock = FastClock(0)
        self.endpoint = DcgmEndpoint(DcgmSettings(url=url, **settings), built_in(), self.clock)

    def after(self, seconds: float = 0.0) -> ExporterView:
        """State some seconds later, with the poll that is due then."""
        self.clock.wait_until(self.clock.time() + int(seconds * SECOND), threading.Event())
        return self.endpoint.view(PATIENCE)


@contextmanager
def watching(url: str, **settings: Any) -> Iterator[Watch]:
    """Ends the thread."""
    watch = Watch(url, **settings)
    try:
        yield watch
    finally:
        watch.endpoint.close()


@pytest.mark.parametrize("packed", [True, False])
def test_a_page_is_read(packed: bool) -> None:  # noqa: FBT001 - a parameter.
    """It may be compressed; the request accepts text."""
    with dcgm_exporter(page(DCGM_FI_DRIVER_VERSION="570.1")) as exporter:
        exporter.packed = packed
        with watching(exporter.url) as watch:
            found = watch.after()
    assert found.readings[BUSY].values[Signal.DRAM_ACTIVE] == 0.5
    assert found.readings[BUSY].profiled == {
        Signal.GPU_BUSY,
        Signal.TENSOR_ACTIVE,
        Signal.DRAM_ACTIVE,
    }
    assert (found.outcome.success, found.outcome.failure, found.driver_version) == (
        True,
        None,
        "570.1",
    )
    assert exporter.requests[0]["Accept"].startswith("text/plain")


def test_exporter_is_fetched_at_its_interval() -> None:
    """However often it is read, no more pages are fetched than configured."""
    with dcgm_exporter() as exporter, watching(exporter.url, interval_seconds=15) as watch:
        seen = []
        for second in range(31):
            exporter.text = page(energy=1e6 * (second + 1))
            seen.append(watch.after(1).readings[BUSY].values[Signal.ENERGY_JOULES] / 1000)
    assert len(exporter.requests) == 3
    assert seen == [1] * 15 + [16] * 15 + [31]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"status": 404, "text": "404 page not found"}, "answered 404: 404 page not found"),
        ({"status": 302, "headers": {"Location": "/login"}}, "use the address that it points to"),
        ({"text": "<html>log in</html>"}, "none of its metrics is in it"),
        ({"text": ""}, "has collected nothing yet"),
        ({"text": 'rightsizer_device_up{uuid="GPU-1"} 1\n'}, "the page of a Rightsizer agent"),
        ({"text": page() + "# more\n" * 10_000}, "answered with more than"),
        ({"drip_seconds": 0.05}, "did not answer within"),
    ],
)
def test_a_fault_costs_no_more_than_its_time(fault: dict[str, Any], error: str) -> None:
    """The last page is valid for two intervals; then it is stale and the GPU is down."""
    limits = {"timeout_seconds": 0.3, "response_maximum_bytes": 50_000}
    with dcgm_exporter(page()) as exporter, watching(exporter.url, **limits) as watch:
        good = watch.after()
        for name, value in fault.items():
            setattr(exporter, name, value)
        held = watch.after(15)
        late = watch.after(15)
        gone = watch.after(1)
    assert held.readings == late.readings == good.readings
    assert error in str(held.outcome.failure)
    assert not held.outcome.success
    assert (gone.readings, gone.down[BUSY].reason) == ({}, Missing.STALE)
    assert error in gone.down[BUSY].detail


def test_nobody_waits_for_an_exporter_that_hangs() -> None:
    """Reading returns at once, and a late page is used when it arrives."""
    released = threading.Event()
    with dcgm_exporter(page()) as exporter, watching(exporter.url) as watch:
        exporter.hangs = released
        meanwhile = [watch.endpoint.view() for _ in range(100)]
        released.set()
        late = watch.after()
    assert {len(view.readings) for view in meanwhile} == {0}
    assert set(late.readings) == {BUSY}


def test_an_exporter_that_is_away_comes_back() -> None:
    """The next poll is the next attempt."""
    with dcgm_exporter(page()) as exporter:
        url = exporter.url
    with watching(url) as watch:
        away = watch.after()
    assert "cannot be reached" in str(away.outcome.failure)
    assert (away.devices, away.readings) == ((), {})


def test_a_page_that_stands_still_is_stale() -> None:
    """Fetches succeed, but the exporter no longer collects."""
    with dcgm_exporter(page()) as exporter, watching(exporter.url) as watch:
        seen = [watch.after(15 * bool(at)) for at in range(6)]
        exporter.text = page(energy=8e6)
        again = watch.after(15)
    assert [BUSY in view.down for view in seen] == [False] * 5 + [True]
    assert seen[-1].readings[BUSY].missing[Signal.DRAM_ACTIVE] is Missing.STALE
    assert seen[-1].readings[BUSY].values == {}
    assert (seen[-1].down[BUSY].reason, again.down) == (Missing.STALE, {})
    assert again.readings[BUSY].values


def test_a_gpu_that_is_no_longer_listed_is_lost() -> None:
    """It is listed for the configured time; a removed MIG instance is not lost."""
    parts = page(GPU_I_ID="3", GPU_I_PROFILE="1g.10gb")
    limits = {"lost_retention_seconds": 60.0}
    with dcgm_exporter() as exporter, watching(exporter.url, **limits) as watch:
        exporter.text = page() + parts + page(uuid=OTHER, gpu="1")
        assert len(watch.after().devices) == 3
        exporter.text = page(energy=8e6)
        lost = watch.after(15)
        forgotten = watch.after(60)
    assert {uuid: down.reason for uuid, down in lost.down.items()} == {OTHER: Missing.LOST}
    assert [device.uuid for device in forgotten.devices] == [BUSY]


def test_gpu_in_the_slot_of_a_former_one_replaces_it() -> None:
    """A board was changed; the former is not lost."""
    slot = "00000000:1B:00.0"
    with dcgm_exporter() as exporter, watching(exporter.url) as watch:
        exporter.text = page(pci_bus_id=slot) + page(uuid=OTHER, gpu="1")
        watch.after()
        exporter.text = page(uuid="GPU-new", energy=8e6, pci_bus_id=slot)
        exporter.text += page(uuid=OTHER, gpu="1", energy=8e6)
        found = watch.after(15)
    assert {device.uuid for device in found.devices} == {"GPU-new", OTHER}
    assert found.down == {}


def test_gpu_that_is_gone_is_forgotten_on_request() -> None:
    """One that the exporter lists is not."""
    with dcgm_exporter() as exporter, watching(exporter.url) as watch:
        exporter.text = page() + page(uuid=OTHER, gpu="1")
        watch.after()
        exporter.text = page(energy=8e6)
        assert watch.after(15).down.keys() == {OTHER}
        watch.endpoint.forget(OTHER)
        watch.endpoint.forget(BUSY)
        found = watch.after()
    assert ([device.uuid for device in found.devices], found.down) == ([BUSY], {})


def test_a_service_of_several_exporters_is_refused() -> None:
    """Behind it, each answer may be another node's."""
    with dcgm_exporter(page()) as exporter, watching(exporter.url) as watch:
        watch.after()
        exporter.text = page(uuid=OTHER)
        other = watch.after(15)
        exporter.text = page(energy=8e6)
        again = watch.after(15)
    assert "name one node's exporter" in str(other.outcome.failure)
    assert [device.uuid for device in other.devices] == [BUSY]
    assert again.outcome.success
    assert list(again.readings) == [BUSY]


def test_an_xid_is_counted_from_the_second_page_on() -> None:
    """The gauge has the last Xid of any time."""
    with dcgm_exporter() as exporter, watching(exporter.url) as watch:
        logs = []
        for at, code in enumerate((31, 31, 79)):
            exporter.text = page(energy=at + 1) + lines(BUSY, {"DCGM_FI_DEV_XID_ERRORS": code})
            logs.append(watch.after(15).xids)
    assert [log[BUSY].total for log in logs[:2]] == [0, 0]
    assert logs[2][BUSY].counts == {79: 1}


def test_the_token_is_sent(tmp_path: Any) -> None:
    """An unreadable file is an error like any other."""
    file = tmp_path / "token"
    file.write_text("secret-1\n")
    with (
        dcgm_exporter(page()) as exporter,
        watching(exporter.url, token_file=str(file)) as watch,
    ):
        assert watch.after().readings
        file.unlink()
        without = watch.after(15)
    assert exporter.requests[0]["Authorization"] == "Bearer secret-1"
    assert "No such file" in str(without.outcome.failure)
