"""Reloading: all parts or none, on request from anywhere, and its reporting."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rightsizer.agent.reloader import Reloader
from rightsizer.io.systemd import Notifier
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.units import NANOSECONDS_PER_SECOND

START = 100 * NANOSECONDS_PER_SECOND
SUCCESSFUL = "rightsizer_config_last_reload_successful"
TIME = "rightsizer_config_last_reload_success_timestamp_seconds"


class Part:
    """A part with a number set by a file, which is a field here."""

    def __init__(self) -> None:
        self.file = 1
        self.value = 1
        self.trouble: str | None = None
        self.loaded = START
        self.changed = threading.Event()

    def prepare(self) -> Callable[[], None]:
        """Refuse negative numbers."""
        wanted = self.file
        if wanted < 0:
            self.trouble = f"part.yaml:1:1: {wanted} is below 0"
            raise ConfigurationError(self.trouble)

        def change() -> None:
            self.value = wanted
            self.trouble = None
            self.changed.set()

        return change


def reloader(*parts: Part, now: int = START, notifier: Notifier | None = None) -> Reloader:
    """A reloader at a fixed time."""
    return Reloader(parts, started=START, wall_time=lambda: now, notifier=notifier)


def test_all_parts_change_or_none() -> None:
    """Every fault is reported, and all parts keep their settings."""
    good = Part()
    bad = Part()
    worse = Part()
    good.file = 2
    bad.file = -2
    worse.file = -3
    subject = reloader(good, bad, worse, now=START + NANOSECONDS_PER_SECOND)
    with pytest.raises(ConfigurationError, match=r"-2 is below 0\npart\.yaml:1:1: -3"):
        subject.reload()
    assert (good.value, bad.value) == (1, 1)
    assert subject.metrics() == {SUCCESSFUL: 0.0, TIME: 100.0}
    bad.file = worse.file = 2
    subject.reload()
    assert [part.value for part in (good, bad, worse)] == [2, 2, 2]
    assert subject.metrics() == {SUCCESSFUL: 1.0, TIME: 101.0}


def test_a_part_that_reloads_itself_is_reported_too() -> None:
    """Its failure and success count for the configuration."""
    part = Part()
    subject = reloader(part)
    part.trouble = "broken"
    assert subject.metrics() == {SUCCESSFUL: 0.0, TIME: 100.0}
    part.trouble = None
    part.loaded = 150 * NANOSECONDS_PER_SECOND
    assert subject.metrics() == {SUCCESSFUL: 1.0, TIME: 150.0}


def test_without_parts_there_is_nothing_to_fail() -> None:
    """An agent without a file has loaded its configuration at the start."""
    assert reloader().metrics() == {SUCCESSFUL: 1.0, TIME: 100.0}


def test_requests_are_obeyed_elsewhere_and_outlive_a_fault() -> None:
    """A signal handler makes such requests."""
    part = Part()
    subject = reloader(part)
    part.file = -1
    subject.request()
    subject.start()
    part_is_refused = threading.Event()
    while part.trouble is None:
        part_is_refused.wait(0.01)
    part.file = 5
    subject.request()
    assert part.changed.wait(20)
    assert part.value == 5
    subject.stop()


def test_a_reload_that_breaks_off_does_not_end_the_thread() -> None:
    """A fault of ours is logged, and the next request is served."""

    class Broken(Part):
        def prepare(self) -> Callable[[], None]:
            if (error := next(faults, None)) is not None:
                raise error
            return super().prepare()

    faults = iter([OSError("disk"), RuntimeError("can't allocate lock")])
    part = Broken()
    subject = reloader(part)
    with capture_logs() as lines:
        subject.start()
        for _ in range(3):
            subject.request()
        assert part.changed.wait(20)
        subject.stop()
    assert [line["event"] for line in lines] == ["reload_failed", "reload_failed", "reloaded"]


def test_the_manager_hears_of_it_once_it_knows_the_service_as_ready(tmp_path: Path) -> None:
    """RELOADING with the time, then READY, also after a fault; nothing before the first READY."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        part = Part()
        subject = reloader(part, notifier=notifier)
        subject.reload()
        notifier.ready()
        part.file = -1
        with pytest.raises(ConfigurationError):
            subject.reload()
        heard = [manager.recv(200).decode() for _ in range(3)]
    assert heard[0] == heard[2] == "READY=1"
    reloading, _, time = heard[1].partition("\nMONOTONIC_USEC=")
    assert reloading == "RELOADING=1"
    assert time.isdecimal()
