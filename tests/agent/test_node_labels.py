"""The job that keeps the node's labels for Kubernetes."""

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from placement_nodes import hgx
from publish_reports import full_report
from rightsizer.agent.node_labels import LabelWriter
from rightsizer.agent.settings import LabelSettings
from rightsizer.broker.slot import LeaseSlot
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import RightsizerError
from rightsizer.model.report import Report
from rightsizer.model.units import nanoseconds


class Node:
    """Eight GPUs, one of which may fail, and the file of their labels."""

    def __init__(self, file: Path | str) -> None:
        self.clock = FastClock(start=nanoseconds(1_700_000_000.0))
        self.report: Report | None = full_report()
        self.trouble: str | None = None
        self.settings = LabelSettings(file=str(file))
        self.writer = LabelWriter(
            lambda: self.settings, lambda: self.report, self._slots, self.clock
        )

    def _slots(self, report: Report) -> tuple[LeaseSlot, ...]:
        slots = [
            replace(slot, device=device.device)
            for slot, device in zip(hgx().slots, report.devices, strict=True)
        ]
        return (replace(slots[0], trouble=self.trouble), *slots[1:])

    def after(self, minutes: float) -> dict[str, str]:
        """The labels as written some minutes later."""
        until = self.clock.time() + nanoseconds(minutes * 60)
        self.clock.wait_until(until, threading.Event())
        self.writer.write()
        lines = Path(self.settings.file).read_text(encoding="utf-8").splitlines()
        own = (line.removeprefix("feature.node.kubernetes.io/") for line in lines)
        return dict(line.split("=", 1) for line in own)


def test_labels_are_written_and_hold_for_an_hour(tmp_path: Path) -> None:
    """The labels of a stopped agent expire."""
    found = Node(tmp_path / "rightsizer").after(0)

    assert found["# +expiry-time"] == "2023-11-14T23:13:20Z"
    assert found["rightsizer.gpu-count"] == "8"
    assert found["rightsizer.gpu-healthy-count"] == "8"


def test_a_gpu_is_unhealthy_once_it_has_been_so_for_a_while(tmp_path: Path) -> None:
    """Labels move pods, while a reset takes only a minute."""
    node = Node(tmp_path / "rightsizer")
    node.after(0)

    node.trouble = "down"
    assert node.after(1)["rightsizer.gpu-healthy-count"] == "8"
    assert node.after(9)["rightsizer.gpu-healthy-count"] == "8"
    assert node.after(1)["rightsizer.gpu-healthy-count"] == "7"


def test_trouble_that_comes_and_goes_changes_nothing(tmp_path: Path) -> None:
    """Only lasting trouble changes a label, and only lasting recovery restores it."""
    node = Node(tmp_path / "rightsizer")
    node.after(0)
    for minute in range(30):
        node.trouble = "down" if minute % 8 else None

        assert node.after(1)["rightsizer.gpu-healthy-count"] == "8"


def test_label_broken_from_the_start_is_broken_at_once(tmp_path: Path) -> None:
    """It has no previous state."""
    node = Node(tmp_path / "rightsizer")
    node.trouble = "down"

    assert node.after(0)["rightsizer.gpu-healthy-count"] == "7"


def test_without_devices_what_was_written_stands(tmp_path: Path) -> None:
    """A driver update moves no pods before the labels expire."""
    node = Node(tmp_path / "rightsizer")
    before = node.after(0)
    assert node.report is not None

    node.report = replace(node.report, devices=())
    assert node.after(1) == before
    node.report = None
    assert node.after(1) == before


def test_nothing_is_written_that_nobody_asked_for(tmp_path: Path) -> None:
    """Without a path there is no file."""
    node = Node("")

    node.writer.write()

    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The job fails with a remedy."""
    node = Node(tmp_path / "features.d" / "rightsizer")

    with pytest.raises(RightsizerError, match=r"features\.d/rightsizer' cannot be written"):
        node.writer.write()
