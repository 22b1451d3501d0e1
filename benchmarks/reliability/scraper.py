"""Scrapes of an agent without a pause, reduced to what a fault may change."""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from benchmarks.reliability.node import Node

_SCRAPE_SECONDS: Final = 0.4
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_STATES: Final = "rightsizer_state_seconds_total"
_LAST: Final = "rightsizer_device_last_sample_timestamp_seconds"
_UP: Final = "rightsizer_device_up"
_INFO: Final = "rightsizer_device_info"
_OF_DEVICES: Final = frozenset({_STATES, _LAST, _UP, _INFO})
_COUNTERS: Final = re.compile(
    r"rightsizer_\w+_(?:failed|failures|dropped|breaks|errors|late|refused|damaged|slow|lost|stalled)"
    r"(?:_\w+)?_total"
)
"""What counts trouble, by the last words of its name."""
_SWITCHES: Final = re.compile(r"rightsizer_\w+_(?:up|success|successful)")
"""What is 0 in trouble."""


@dataclass(slots=True)
class DeviceSample:
    """A device in one scrape."""

    gpu: str = ""
    """Index, also of an instance's GPU."""
    is_up: bool = False
    last_read_seconds: float | None = None
    """Wall time of its last reading."""
    accounted_seconds: float = 0.0
    """In all states."""
    known_seconds: float = 0.0
    """In all states but `unknown`."""


class Scrape(Struct, frozen=True):
    """Result of one scrape."""

    time_seconds: float
    took_seconds: float
    status: int
    """0 where there was no answer."""
    devices: Mapping[str, DeviceSample] = {}
    """By uuid."""
    counters: Mapping[str, float] = {}
    """What counts trouble, over all labels."""
    switches: Mapping[str, float] = {}
    """The lowest value over all labels."""

    @property
    def is_answered(self) -> bool:
        """Whether it was answered as it should."""
        return self.status == HTTPStatus.OK

    @property
    def devices_up(self) -> int:
        """How many devices respond."""
        return sum(device.is_up for device in self.devices.values())


class Scraper(threading.Thread):
    """Scrapes without a pause, each time over a connection of its own, as Prometheus may."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._ended = threading.Event()
        self.scrapes: list[Scrape] = []

    def run(self) -> None:
        """Scrape until stopped."""
        while not self._ended.wait(_SCRAPE_SECONDS):
            started = time.monotonic()
            status, text = self._node.get("/metrics")
            took = time.monotonic() - started
            self.scrapes.append(parsed(text, started, took, status))

    def stop(self) -> None:
        """Let the scrape under way be the last."""
        self._ended.set()
        self.join()


def parsed(text: str, started: float, took: float, status: int) -> Scrape:
    """A scrape of a page; a full parser would take longer than the agent does."""
    devices: dict[str, DeviceSample] = {}
    counters: dict[str, float] = {}
    switches: dict[str, float] = {}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        name, _, label_text = series.partition("{")
        if name in _OF_DEVICES:
            labels = dict(_LABEL.findall(label_text))
            _add(devices.setdefault(labels["uuid"], DeviceSample()), name, labels, float(value))
        elif _COUNTERS.fullmatch(name):
            counters[name] = counters.get(name, 0.0) + float(value)
        if _SWITCHES.fullmatch(name):
            switches[name] = min(switches.get(name, 1.0), float(value))
    return Scrape(started, took, status, devices, counters, switches)


def _add(device: DeviceSample, name: str, labels: Mapping[str, str], value: float) -> None:
    if name == _INFO:
        device.gpu = labels["gpu"].split("/")[0]
    elif name == _UP:
        device.is_up = value == 1.0
    elif name == _LAST:
        device.last_read_seconds = value
    else:
        device.accounted_seconds += value
        if labels["state"] != "unknown":
            device.known_seconds += value
