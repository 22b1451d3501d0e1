"""Remedies for collectives, by which they are, how large, and where they run."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.model.profile import DeviceProfile, KernelFamily, Profile, SpanKind
from rightsizer.profiles.names import collective_kind

_BY_KIND: Final = {
    "all_reduce": "overlap_all_reduce",
    "reduce": "overlap_all_reduce",
    "all_gather": "overlap_shards",
    "reduce_scatter": "overlap_shards",
    "all_to_all": "overlap_all_to_all",
    "send_receive": "overlap_send_receive",
}
_WORTH_NAMING: Final = 0.25
"""Of the collectives' time."""
_SMALL_BYTES: Final = 2**20
"""Source: nccl-tests: below a megabyte the time of a sum hardly depends on its size."""
_BACKWARD: Final = re.compile(r"backward|bwd|wgrad|dgrad|\bgrad|optimizer", re.IGNORECASE)
_MANY: Final = 8
"""Small messages a step that one buffer would join."""
_MOST: Final = 0.5


def of_device(
    profile: Profile, device: DeviceProfile, profiles: Sequence[Profile]
) -> tuple[str, ...]:
    """Return names of instructions, the largest part first."""
    times = ((kernel.name, kernel.seconds) for kernel in device.kernels if kernel.is_collective)
    # NCCL sends and receives for both: what the host calls tells exchanges from pipelines.
    is_exchange = "all_to_all" in map(collective_kind, _host_names([profile]))
    names = _by_kind(times, {"send_receive": "all_to_all"} if is_exchange else {})
    if names[0] == _BY_KIND["all_reduce"] and _is_inference(profile, device):
        # The next layer needs each sum at once: nothing can run beside it, nor can they be joined.
        return ("sum_faster", *_late_rank(profiles))
    if _has_many_small(device):
        names.append("join_small")
    whole = sum(kernel.seconds for kernel in device.kernels if kernel.is_collective)
    if device.inline_collective_seconds >= _MOST * whole > 0:
        names.append("own_stream")
    return (*names, *_late_rank(profiles))


def _is_inference(profile: Profile, device: DeviceProfile) -> bool:
    """Whether layers are computed, and nothing is of a loader, a backward pass or an optimizer."""
    kernels = device.kernels
    names = [item.name for items in (kernels, device.frames, profile.host_spans) for item in items]
    families = {kernel.family for kernel in kernels}
    has_layers = bool(families & {KernelFamily.MATRIX_PRODUCT, KernelFamily.ATTENTION})
    is_loaded = any(span.kind is SpanKind.LOADER for span in profile.host_spans)
    is_trained = (
        is_loaded or KernelFamily.OPTIMIZER in families or any(map(_BACKWARD.search, names))
    )
    return has_layers and not is_trained


def of_host(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Return the same for collectives of the host alone."""
    spans = (span for profile in profiles for span in profile.host_spans)
    times = ((span.name, span.seconds) for span in spans if span.kind is SpanKind.COLLECTIVE)
    return (*_by_kind(times, {}), *_late_rank(profiles))


def _late_rank(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Return how to find a late rank; nothing where the files of all ranks are given."""
    is_given = len(profiles) >= (profiles[0].world_size or 2)
    return () if is_given else ("find_late_rank",)


def _host_names(profiles: Iterable[Profile]) -> Iterable[str]:
    spans = (span for profile in profiles for span in profile.host_spans)
    return (span.name for span in spans if span.kind is SpanKind.COLLECTIVE)


def _by_kind(times: Iterable[tuple[str, float]], renamed: dict[str, str]) -> list[str]:
    sums: defaultdict[str, float] = defaultdict(float)
    for name, seconds in times:
        kind = collective_kind(name)
        sums[_BY_KIND.get(renamed.get(kind, kind), "overlap_collectives")] += seconds
    least = _WORTH_NAMING * sum(sums.values())
    notable = [name for name, seconds in sums.items() if seconds >= least]
    return sorted(notable, key=sums.__getitem__, reverse=True) or ["overlap_collectives"]


def _has_many_small(device: DeviceProfile) -> bool:
    small = [collective for collective in device.collectives if collective.bytes < _SMALL_BYTES]
    seconds = sum(collective_use.seconds for collective_use in small)
    whole = sum(collective.seconds for collective in device.collectives)
    count = sum(collective_use.count for collective_use in small)
    return seconds >= _WORTH_NAMING * whole and count >= _MANY * max(1, len(device.steps))
