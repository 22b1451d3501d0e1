"""Memory needed on one GPU, and what of it is common to all models."""

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.sizing.estimate import EstimateInterval, joint_error_factor
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement
from rightsizer.sizing.settings import MemorySettings
from rightsizer.sizing.site import SiteCorrection, log_deviation

_PAIR = 2
_GRAPH_STEP = 8
"""Serving engines capture graphs of batch sizes 1, 2, 4 and multiples of 8."""
_SERVING: Final = 1.08
_TRAINING: Final = 1.10
_DEVICE: Final = 1.2
"""Of what nvidia-smi shows beside the allocator's peak: 1.10 to 1.58 of the estimate."""
_ASSUMED_SHAPE: Final = 1.2
"""Additional factor if layers or widths were assumed."""
_OTHER_KINDS: Final = 1.6
"""For models with activations estimated by a rule of thumb."""


class MemoryParts(Struct, frozen=True, gc=False):
    """Parts of the memory needed on one GPU of a layout, in bytes."""

    weights_bytes: float = 0.0
    kv_cache_bytes: float = 0.0
    activations_bytes: float = 0.0
    gradients_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    overhead_bytes: float = 0.0
    """Context, libraries, communication buffers and fragmentation."""
    outside_bytes: float = 0.0
    """Of this overhead, what an allocator does not count as in use."""
    device_bytes: float | None = None
    """What nvidia-smi shows of a training: blocks that the allocator keeps come to the total, and
    are given back where memory runs out."""


class MemoryEstimate(MemoryParts, frozen=True, gc=False):
    """Memory needed on one GPU of a layout, in bytes, and how sure that is."""

    error_factor: float = 1.1
    """Error factor of the total in both directions, with a probability of 90%."""
    site_factor: float = 1.0
    """By measurements of a site, of the middle of that interval."""
    filled_maximum_bytes: float = math.inf
    """Of the total: where more is needed, an engine runs fewer requests at a time."""

    @property
    def total(self) -> EstimateInterval:
        """Total with its interval."""
        return self.around(self.total_bytes).at_most(self.filled_maximum_bytes)

    def around(self, filled_bytes: float) -> EstimateInterval:
        """Return the interval of another total of the same model and layout."""
        return EstimateInterval.around(filled_bytes * self.site_factor, self.error_factor)

    def corrected(self, correction: SiteCorrection) -> "MemoryEstimate":
        """Return it shifted and narrowed by what a site measured."""
        factor = self.error_factor
        return replace(
            self,
            site_factor=correction.factor(log_deviation(factor, factor)),
            error_factor=factor**correction.deviation_ratio,
        )

    @property
    def allocated(self) -> EstimateInterval:
        """What an allocator counts as in use, with its interval."""
        total = self.total
        outside = self.outside_bytes
        low = max(0.0, total.low - outside)
        return EstimateInterval(total.value - outside, low, total.high - outside)

    @property
    def device(self) -> EstimateInterval | None:
        """What nvidia-smi shows, with its interval."""
        shown = self.device_bytes
        factor = joint_error_factor(self.error_factor, _DEVICE)
        return None if shown is None else EstimateInterval.around(shown, factor)

    @property
    def total_bytes(self) -> float:
        """Total."""
        kept = self.weights_bytes + self.kv_cache_bytes + self.activations_bytes
        return kept + self.gradients_bytes + self.optimizer_bytes + self.overhead_bytes


def communication_bytes(layout: Parallelism, settings: MemorySettings, *, trains: bool) -> float:
    """NCCL buffers for communicating GPUs; replicas in serving communicate only for experts."""
    group = layout.gpus if trains else layout.tensor * layout.pipeline * layout.expert
    if group < _PAIR:
        return 0.0
    pair = settings.communication_pair_bytes
    larger = settings.communication_group_bytes
    return pair if group == _PAIR else larger


def graph_bytes(layers: int, concurrency: float, settings: MemorySettings) -> float:
    """CUDA graphs of all batch sizes up to the concurrency."""
    largest = min(concurrency, settings.graph_batch_maximum)
    return layers * settings.graph_bytes * (1.0 + largest / _GRAPH_STEP)


def usable_bytes(board_memory_bytes: float, settings: MemorySettings) -> float:
    """Part of the memory reported by NVML that processes can use; at least 0."""
    return max(0.0, board_memory_bytes - settings.driver_reserved_bytes)


def headroom_bytes(usable: float, task: ModelTask, settings: MemorySettings) -> float:
    """Memory that should stay free, out of that usable by processes."""
    if task is ModelTask.INFERENCE:
        return usable * settings.inference_headroom_ratio
    least = min(usable, settings.headroom_minimum_bytes)
    return max(usable * settings.training_headroom_ratio, least)


def memory_error_factor(requirement: Requirement) -> float:
    """Error factor that contains a measured peak with a probability of 90%.

    The first two were derived from measured peaks (evaluation/RESULTS.md, memory estimates),
    the others are assumed.
    """
    factor = _TRAINING if requirement.task.trains else _SERVING
    model = requirement.model
    if isinstance(model, Transformer):
        return factor * (_ASSUMED_SHAPE if model.assumed else 1.0)
    return factor if isinstance(model, VisionTransformer) else _OTHER_KINDS
