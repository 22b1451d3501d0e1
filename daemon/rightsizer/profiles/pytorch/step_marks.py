"""Steps of a trace: the profiler's, else those on devices, else iterations of an engine."""

from array import array
from itertools import pairwise

from rightsizer.model.values import Nanoseconds
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import Column, Interval


class StepMarks:
    """Steps of a trace: the profiler's, else those on devices, else iterations of an engine."""

    def __init__(self, recorder: Recorder, maximum: int) -> None:
        self._recorder = recorder
        self._maximum = maximum
        self._is_marked = False
        self._on_devices: list[tuple[str, Interval, str]] = []
        self._turns: Column = array("q")

    def mark(self, name: str, span: Interval) -> None:
        """Add a step marked on the host."""
        self._is_marked = True
        self._recorder.step(name, span)

    def mark_device(self, name: str, span: Interval, device: str) -> bool:
        """Add a step marked on a device; return whether there was room."""
        has_room = len(self._on_devices) < self._maximum
        if has_room:
            self._on_devices.append((name, span, device))
        return has_room

    def begin_turn(self, start: Nanoseconds) -> None:
        """Add the start of an engine's iteration, which lasts until the next."""
        if len(self._turns) <= self._maximum:
            self._turns.append(start)

    def finish(self) -> None:
        """Record substitutes for steps if none was marked."""
        if self._is_marked:
            return
        for name, span, device in self._on_devices:
            self._recorder.step(name, span, device)
        if not self._on_devices:
            for count, turn in enumerate(pairwise(sorted(self._turns)), 1):
                self._recorder.step(f"turn {count}", turn)
