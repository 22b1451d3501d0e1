"""Profiles made by hand, as any reader may return them."""

from typing import Any

from msgspec.structs import replace

from rightsizer.model.profile import (
    CopyKind,
    CopyUse,
    DeviceProfile,
    HostMemory,
    HostSpanUse,
    KernelUse,
    LaunchUse,
    Profile,
    ProfiledDevice,
    ProfileFormat,
    SpanKind,
    StepUse,
    TimeUse,
)

__all__ = ["copies", "device", "kernel", "profile", "span", "step", "time_use"]

MILLISECOND = 1_000_000


def time_use(kernel: float = 0.9, host: float = 0.05, **more: float) -> TimeUse:
    """A second of a device; what is left is idle for no known reason."""
    between = more.pop("kernel_wait_seconds", 0.0)
    return TimeUse(
        span_seconds=1.0,
        kernel_seconds=kernel,
        host_wait_seconds=host,
        kernel_wait_seconds=between,
        other_idle_seconds=max(0.0, 1.0 - kernel - host - between),
        **more,
    )


def kernel(name: str = "gemm", count: int = 1000, seconds: float = 0.9, **more: Any) -> KernelUse:
    """All runs of one."""
    mean = seconds / count
    return KernelUse(name, count, seconds, mean, mean, **more)


def step(
    number: int,
    milliseconds: float = 100.0,
    *,
    loader: float = 0.0,
    host: float = 0.005,
    late: float | None = None,
) -> StepUse:
    """One of many of the same length; `loader` and `host` in seconds, `late` in milliseconds."""
    start = round(number * milliseconds * MILLISECOND)
    end = start + round(milliseconds * MILLISECOND)
    seconds = milliseconds / 1e3
    joined = None if late is None else start + round(late * MILLISECOND)
    return StepUse(
        name=f"ProfilerStep#{number}",
        start=start,
        end=end,
        time=TimeUse(
            seconds,
            seconds - host,
            host_wait_seconds=host,
            loader_wait_seconds=min(loader, host),
        ),
        loader_seconds=loader,
        last_long_collective=joined,
        # It ends with the step, on all ranks at once.
        collectives={} if joined is None else {"all_reduce": ((joined, end),)},
    )


def copies(memory: HostMemory = HostMemory.PAGEABLE, seconds: float = 0.2) -> CopyUse:
    """Twelve to the device."""
    return CopyUse(CopyKind.HOST_TO_DEVICE, memory, 12, 120_000_000, seconds)


def span(kind: SpanKind, name: str, seconds: float) -> HostSpanUse:
    """On the host, ten times."""
    return HostSpanUse(kind, name, 10, seconds)


def device(**changes: Any) -> DeviceProfile:
    """A GPU that is busy with long kernels, each with its launch, changed as asked."""
    kernels = changes.get("kernels", (kernel(),))
    count = sum(each.count for each in kernels)
    usual = DeviceProfile(
        device=ProfiledDevice("0", 0, "NVIDIA H100 80GB HBM3"),
        time=time_use(),
        kernels=kernels,
        launches=LaunchUse(count=count, host_seconds=5e-6 * count, matched=count),
    )
    return replace(usual, **changes)


def profile(*devices: DeviceProfile, **changes: Any) -> Profile:
    """One file of PyTorch's profiler."""
    usual = Profile(ProfileFormat.PYTORCH, "trace.json", devices=devices, events=10)
    return replace(usual, **changes)
