"""What rocprofv3 records, in either of its forms, passed to a recorder."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from rightsizer.model.profile import CopyKind, HostMemory, Profile, ProfileFormat
from rightsizer.profiles.call_stacks import CallKind
from rightsizer.profiles.names import (
    capture_end,
    is_step,
    is_wait_call,
    operation,
    range_kind,
    range_name,
)
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import Interval

_LAUNCH: Final = re.compile(r"hip\w*Launch(?!HostFunc)\w*")
_NO_NAMES: Final[Mapping[str, str]] = {}
_NUMBER: Final = re.compile(r"\d+")
_DIRECTIONS: Final = {
    "HOST_TO_DEVICE": CopyKind.HOST_TO_DEVICE,
    "DEVICE_TO_HOST": CopyKind.DEVICE_TO_HOST,
    "DEVICE_TO_DEVICE": CopyKind.DEVICE_TO_DEVICE,
}


class RocmEvents:
    """Takes kernels, copies, calls of the host and its ranges."""

    def __init__(self, recorder: Recorder, names: Mapping[str, str] = _NO_NAMES) -> None:
        """Create it with the names of agents' boards, where they are known."""
        self._recorder = recorder
        self._names = names
        self._known: set[str] = set()
        self.unread: Counter[str] = Counter()
        self.kernels = 0
        self.calls = 0

    def kernel(
        self, agent: str, stream: str, name: str, span: Interval, correlation: int | None
    ) -> None:
        """Take a dispatch to an agent, such as `Agent 4`."""
        self.kernels += 1
        self._know(agent)
        if operation(name) == "memset":
            self._recorder.fill(agent, span)
        else:
            self._recorder.kernel(agent, span, name, correlation=correlation, stream=stream)

    def copy(self, agent: str, direction: str, span: Interval, size: int | None = None) -> None:
        """Take a copy; the kind of host memory is in neither form."""
        self._know(agent)
        kind = _DIRECTIONS.get(direction.upper().removeprefix("MEMORY_COPY_"), CopyKind.OTHER)
        self._recorder.copy(agent, span, kind, HostMemory.UNKNOWN, size)

    def call(self, name: str, span: Interval, correlation: int | None, thread: int) -> None:
        """Take a call of the HIP runtime."""
        self.calls += 1
        if end := capture_end(name):
            self._recorder.capture(thread, end, span)
        if is_wait_call(name):
            self._recorder.stacks.add(thread, CallKind.WAIT, name, span)
        elif _LAUNCH.match(name) and correlation is not None:
            self._recorder.launch(correlation, span, thread)
        else:
            self.unread["HIP call that neither launches nor waits"] += 1

    def marker(self, text: str, span: Interval, thread: int) -> None:
        """Take a range of rocTX."""
        name = range_name(text)
        if not name:
            self.unread["range without a name"] += 1
        elif is_step(name):
            self._recorder.step(name, span)
        else:
            self._recorder.host_span(range_kind(name), name, span)
            self._recorder.stacks.add(thread, CallKind.LINE, name, span)

    def profile(self, form: ProfileFormat, source: str) -> Profile:
        """Return the profile of all that was taken."""
        recorder = self._recorder
        devices = recorder.devices()
        unread = self.unread + recorder.refused
        return Profile(
            format=form,
            source=source,
            devices=devices,
            host_spans=recorder.host_spans(),
            events=recorder.events + unread.total(),
            unread=dict(unread),
            notes=(*recorder.notes, *self._notes()),
        )

    def _notes(self) -> list[str]:
        """Return what it does not tell."""
        if self.kernels and not self.calls:
            return [
                (
                    "The calls of the host are not in it: why a GPU was idle is not known; "
                    "`rocprofv3 --hip-trace --kernel-trace --memory-copy-trace` records them."
                )
            ]
        return [] if self.kernels else ["No kernel is in it; `rocprofv3 --kernel-trace` has them."]

    def _know(self, agent: str) -> None:
        if agent not in self._known:
            self._known.add(agent)
            number = _NUMBER.search(agent)
            index = int(number[0]) if number else None
            self._recorder.device(agent, index=index, name=self._names.get(agent, ""))
