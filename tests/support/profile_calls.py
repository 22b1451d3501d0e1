"""Calls of a recorder as values, so that they can be generated, shuffled and repeated."""

from typing import Any

from msgspec import Struct

from rightsizer.model.profile import CopyKind, DeviceProfile, HostMemory, SpanKind, TimeUse
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.recorder import Recorder

__all__ = [
    "NCCL",
    "PINNED",
    "Call",
    "copy",
    "kernel",
    "launch",
    "loader",
    "nanoseconds",
    "only",
    "recorded",
    "step",
    "time_of",
    "wait",
]

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PINNED = (CopyKind.HOST_TO_DEVICE, HostMemory.PINNED)


class Call(Struct, frozen=True):
    """One call of the recorder."""

    name: str
    arguments: tuple[Any, ...]
    correlation: int | None = None

    def on(self, recorder: Recorder) -> None:
        """Make the call."""
        more = {} if self.correlation is None else {"correlation": self.correlation}
        getattr(recorder, self.name)(*self.arguments, **more)


def recorded(*calls: Call, limits: ReadLimits | None = None) -> Recorder:
    """A recorder after the given calls."""
    recorder = Recorder(limits or ReadLimits())
    for call in calls:
        call.on(recorder)
    return recorder


def kernel(
    start: int, end: int, name: str = "gemm", correlation: int | None = None, device: str = "0"
) -> Call:
    """A run of a kernel."""
    return Call("kernel", (device, (start, end), name), correlation)


def launch(correlation: int, start: int, end: int) -> Call:
    """The call that launched it."""
    return Call("launch", (correlation, (start, end)))


def copy(start: int, end: int, size: int = 8) -> Call:
    """A copy from pinned memory."""
    return Call("copy", ("0", (start, end), *PINNED, size))


def step(start: int, end: int, name: str = "step") -> Call:
    """A step of all devices."""
    return Call("step", (name, (start, end)))


def loader(start: int, end: int) -> Call:
    """The host waiting for its loader."""
    return Call("host_span", (SpanKind.LOADER, "__next__", (start, end)))


def wait(start: int, end: int) -> Call:
    """The host waiting for the device."""
    return Call("wait", ("cudaStreamSynchronize", (start, end)))


def only(recorder: Recorder) -> DeviceProfile:
    """The one device there is."""
    (device,) = recorder.devices()
    return device


def nanoseconds(seconds: float) -> int:
    """Seconds as they were before they were divided."""
    return round(seconds * 1e9)


def time_of(*calls: Call) -> TimeUse:
    """Where the time went, which must be known."""
    time = only(recorded(*calls)).time
    assert time is not None
    return time
