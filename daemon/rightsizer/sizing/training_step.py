"""Time of a training step on one GPU: products, memory traffic, exchanges, update."""

from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.sizing.activations import blocks_of, training_activations
from rightsizer.sizing.collectives import ServerLinks, all_reduce_seconds, other_servers
from rightsizer.sizing.models import LayeredModel, Transformer, VisionTransformer
from rightsizer.sizing.parameters import count_parameters, expert_parameters
from rightsizer.sizing.requirement import (
    ModelTask,
    Offload,
    Optimizer,
    Parallelism,
    Recompute,
    Requirement,
)
from rightsizer.sizing.roofline import compute_format
from rightsizer.sizing.sample_rate import UPDATE_BYTES
from rightsizer.sizing.serving_memory import AdaptedMatrices, adapted_matrices
from rightsizer.sizing.training_settings import TrainingSettings

_PASSES: Final = 2.0
"""Through all weights: forward and backward."""
_MANY: Final = 4
"""Default number of micro batches per pipeline stage, without a global batch."""
_ATTENTION_FLOPS: Final = 12.0
_SEEN_RATIO: Final = 0.5
"""Of all pairs of tokens, those that a causal mask leaves; fused kernels skip the others."""
_MOST_IN_EXPERTS: Final = 0.9
"""Maximum fraction of the parameters used by one token."""
_FLOPS: Final = 6.0
"""Per parameter and token: two forward, two for the gradient of activations, two for its own."""
_FROZEN_FLOPS: Final = 4.0
"""The same for parameters without gradient, such as frozen ones (LoRA). NeMo AutoModel counts
likewise: 176 TFLOP/s for Llama 3 70B adapted at 608 tokens per second."""

_LOGIT_BYTES: Final = 42.0
"""Per logit of an unfused loss: written, cast to fp32 and normalized; the gradient likewise, cast
to 16 bits and read by two products."""
_AUTOCAST_BYTES: Final = 115.0
"""Per element of a layer's width and token, in all passes: under autocast residuals and norms are
fp32 and cast for each product, 134 bytes forward in place of 96."""
_ADAPTER_INPUT_BYTES: Final = (10.0, 20.0)
"""Per element that enters an adapter in fp32, forward and backward: cast to fp32 and read; read for
the gradient of the adapter, gradient written, cast to 16 bits and added to that of the matrix."""
_ADAPTER_OUTPUT_BYTES: Final = (28.0, 28.0)
"""Likewise per element that leaves it: written, scaled, added to the output of the matrix and cast
to 16 bits; gradient cast to both formats, scaled and read twice."""
_HALF_BYTES: Final = 2.0
"""Per element in 16 bits."""
_LAYER_SUMS: Final = 4
"""Per tensor parallel layer, forward and backward."""
_REPEATED_SUMS: Final = 6
"""The same if the forward pass is recomputed."""
_LAYER_EXCHANGES: Final = 4
"""Per layer with experts: to them and back, forward and backward."""


class TrainingShape:
    """Properties of a transformer that determine its step time, at a sequence length."""

    def __init__(self, model: LayeredModel, sequence: float) -> None:
        self.count = count_parameters(model)
        self.hidden = float(model.hidden)
        self.vocab = 0.0
        self.is_causal = False
        self.experts_per_token = 0
        self.mixed_layers = 0
        self.expert_input = 0.0
        """Experts that a token uses, layers with experts, and width of what they receive."""
        self.used_expert_parameters = 0.0
        self.all_expert_parameters = 0.0
        """Parameters of the experts that a token uses, and of all that it may choose."""
        if isinstance(model, VisionTransformer):
            self.sequence = float(model.tokens)
            self.layers = float(model.layers)
            self.attended = float(model.layers * model.hidden)
            self.scores = self.attended / (model.hidden / model.heads) * self.sequence
            return
        self.vocab = float(model.vocab)
        self.is_causal = not model.is_encoder
        self.sequence = sequence
        self.layers = model.depth
        """Layers with two parts each: attention and a feed-forward part."""
        windowed = model.window_layers
        seen = min(1.0, 2.0 * (model.sliding_window or 0) / sequence)
        seeing = model.attending_layers - windowed + windowed * seen
        self.attended = float(model.heads * model.head_width) * seeing
        """Width of all heads, summed over layers, weighted by the visible part of the sequence."""
        self.scores = self.attended / model.head_width * sequence
        """Attention scores per token, in all heads of all layers."""
        if model.experts > 1:
            matrices = 3 if model.gated_ffn else 2
            per_token = model.experts_per_token
            self.experts_per_token = per_token
            self.all_expert_parameters = expert_parameters(model, self.count)
            self.mixed_layers = model.layers - model.dense_layers
            self.expert_input = float(model.expert_input or model.hidden)
            one = matrices * self.expert_input * model.ffn_width
            passed = self.mixed_layers * per_token * one
            self.used_expert_parameters = min(passed, _MOST_IN_EXPERTS * self.count.linear)

    def model_flops(self, flops: float) -> float:
        """FLOPs per token as counted for MFU (PaLM, appendix B), from those per parameter."""
        passed = self.count.active + self.count.repeated
        return flops * passed + 12.0 * self.attended * self.sequence


class TrainingStep:
    """Step of a requirement on boards in a layout; times are per micro batch on one GPU."""

    def __init__(
        self,
        requirement: Requirement,
        shape: TrainingShape,
        board: Board,
        layout: Parallelism,
        settings: TrainingSettings,
    ) -> None:
        self.requirement = requirement
        self.shape = shape
        self.board = board
        self.layout = layout
        self.settings = settings
        training = requirement.training
        self._trains_all = requirement.task is ModelTask.TRAINING
        self._is_fused = uses_fused_kernels(requirement, layout)
        self._tokens = training.micro_batch * shape.sequence
        self._ranks = layout.tensor * layout.pipeline
        network = settings.network_bytes_per_second
        self._links = ServerLinks(board, network, settings.node_gpus)
        self._batches = 1.0 if layout.pipeline == 1 else float(_MANY * layout.pipeline)
        """Micro batches per step on each GPU."""
        if training.global_batch is not None:
            batches = training.global_batch / (training.micro_batch * layout.data)
            self._batches = max(1.0, batches)

    @property
    def seconds(self) -> float:
        """Total time, with its part of the update."""
        layout = self.layout
        settings = self.settings
        computing = max(self._computing_seconds, self._offload_seconds)
        exchange = self._tensor_seconds + self._expert_seconds + self._replica_seconds
        # Chunks of layers run in turn by one pipeline stage, and extra time of a pipeline relative
        # to its fullest stage.
        turns = max(1.0, self.shape.layers / layout.pipeline // settings.chunk_layers)
        bubble = (layout.pipeline - 1) / (self._batches * turns)
        busy = max(self._launch_seconds, computing + exchange)
        return busy * (1.0 + bubble) + self._update_seconds

    @property
    def _computing_seconds(self) -> float:
        """Time of products, attention and memory traffic, all one after the other."""
        shape = self.shape
        settings = self.settings
        training = self.requirement.training
        tokens = self._tokens / self._ranks
        again = 1.0 + self._recompute_ratio
        # The same forward pass is a larger fraction of a step without gradients of weights.
        repeats = 1.0 + (again - 1.0) * (1.0 if self._trains_all else _FLOPS / _FROZEN_FLOPS)
        linear = self._product_seconds * tokens * repeats
        # One stage of a pipeline holds at least the whole head.
        head = shape.count.head or (shape.count.embedding if shape.vocab else 0.0)
        linear *= max(1.0, self.layout.pipeline * head / shape.count.linear)
        attended = _ATTENTION_FLOPS * shape.attended * shape.sequence * tokens
        if self._is_fused and training.flash_attention and shape.is_causal:
            attended *= _SEEN_RATIO
        plain = _achieved(self.board, Precision.BF16)
        attention = attended / (plain * settings.attention_ratio) * again
        bandwidth = self.board.achieved_bytes_per_second
        traffic = settings.element_traffic * (
            settings.fused_traffic_ratio if self._is_fused else 1.0
        )
        elements = traffic * shape.layers * shape.hidden * tokens / bandwidth * again
        scores = 0.0 if training.flash_attention else shape.scores
        written = scores * settings.score_traffic * tokens / bandwidth * again
        is_loss_fused = self._is_fused or training.has_chunked_loss
        beside = self._copied_bytes + (0.0 if is_loss_fused else _LOGIT_BYTES * shape.vocab)
        computing = linear + attention + elements + written + self._unpacking_seconds
        return computing + beside * tokens / bandwidth

    @property
    def _recompute_ratio(self) -> float:
        """Extra time of the passes in which activations are recomputed."""
        settings = self.settings
        # With adapters there are no fitted runs in which saved memory enlarged micro batches.
        is_counted = self._is_fused or not self._trains_all
        whole = settings.fused_recompute_ratio if is_counted else settings.recompute_ratio
        repeated = {Recompute.NONE: 0.0, Recompute.SELECTIVE: settings.selective_ratio}
        return repeated.get(self.requirement.training.recompute, whole)

    @property
    def _unpacking_seconds(self) -> float:
        """Time to unpack the 4-bit parameters of one GPU, in every pass."""
        if self.requirement.task is not ModelTask.FINETUNE_QLORA:
            return 0.0
        once_more = self.requirement.training.recompute is Recompute.FULL
        unpacked = (_PASSES + once_more) * self.shape.count.layers / self._ranks
        return unpacked * self.settings.unpacking_traffic / self.board.achieved_bytes_per_second

    @property
    def _launch_seconds(self) -> float:
        """Time to launch kernels; no step takes less."""
        launching = self.settings.layer_seconds * self.shape.layers
        if self._copied_adapters is not None:
            launching += self.settings.adapter_seconds * self._copied_adapters.number
        return launching / self.layout.pipeline

    @property
    def _copied_adapters(self) -> AdaptedMatrices | None:
        """Adapters in fp32, with casts around each."""
        model = self.requirement.model
        named = self.requirement.training.framework
        is_copied = named is not None and named.is_autocast and not self._trains_all
        if not is_copied or not isinstance(model, Transformer):
            return None
        return adapted_matrices(model, self.requirement.lora, model.experts_per_token)

    @property
    def _copied_bytes(self) -> float:
        """Traffic per token of casts beside weights in fp32, or of adapters in fp32."""
        training = self.requirement.training
        adapters = self._copied_adapters
        if training.framework is None or not training.framework.is_autocast:
            return 0.0
        if self._trains_all:
            is_mixed = training.optimizer in {Optimizer.ADAMW, Optimizer.SGD}
            return _AUTOCAST_BYTES * self.shape.layers * self.shape.hidden * is_mixed
        if adapters is None:
            return 0.0
        _, inputs, outputs = adapters
        (read, read_back), (made, made_back) = _ADAPTER_INPUT_BYTES, _ADAPTER_OUTPUT_BYTES
        forward = inputs * read + outputs * made
        backward = inputs * read_back + outputs * made_back
        return forward * (1 + (training.recompute is Recompute.FULL)) + backward

    @property
    def _update_seconds(self) -> float:
        """Time of the weight update, once per step: on the GPU, or on the host with transfers."""
        training = self.requirement.training
        shards = self.layout.data if training.zero_stage > 0 else 1
        updated = self.shape.count.total / (self._ranks * shards) if self._trains_all else 0.0
        seconds = updated * UPDATE_BYTES / self.board.achieved_bytes_per_second
        if training.offload is Offload.OPTIMIZER:
            moved = 2.0 * _HALF_BYTES / self.board.pcie_bytes_per_second
            seconds = updated * (moved + UPDATE_BYTES / self.settings.host_bytes_per_second)
        return seconds / self._batches

    @property
    def _offload_seconds(self) -> float:
        """Transfer time of activations to the host and back, hidden behind compute if shorter."""
        requirement = self.requirement
        model = self.requirement.model
        training = requirement.training
        layout = self.layout
        is_kept = training.offload is not Offload.ACTIVATIONS
        if is_kept or not isinstance(model, LayeredModel):
            return 0.0
        number_format = requirement.precision.activations
        kept = training_activations(blocks_of(model), training, number_format, layout, None).kept
        return 2.0 * kept / min(self._batches, layout.pipeline) / self.board.pcie_bytes_per_second

    @property
    def _product_seconds(self) -> float:
        """Time per token, on one GPU that holds the whole model."""
        slower = self.shape.used_expert_parameters * (1.0 / self.settings.expert_ratio - 1.0)
        flops_per_parameter = parameter_flops(self.requirement.task)
        precision = training_precision(self.board, self.requirement)
        # Products of a layer relative to large ones.
        ratio = self.settings.hopper_ratio if self.board.architecture == "Hopper" else 1.0
        # The ratio for 8 bits was measured with casts that fused kernels perform elsewhere.
        if not self._is_fused or precision is Precision.BF16:
            ratio *= self.settings.linear_ratio
        flops = flops_per_parameter * (self.shape.count.linear + slower)
        return flops / _achieved(self.board, precision) / ratio

    @property
    def _tensor_seconds(self) -> float:
        """Time of tensor parallelism: all-reduces of the activations of each layer."""
        layout = self.layout
        if layout.tensor == 1:
            return 0.0
        recomputes = self.requirement.training.recompute is Recompute.FULL
        sums = (_REPEATED_SUMS if recomputes else _LAYER_SUMS) * self.shape.layers / layout.pipeline
        payload = self._tokens * self.shape.hidden * _HALF_BYTES
        return sums * self._links.sum_seconds(layout.tensor, payload)

    @property
    def _expert_seconds(self) -> float:
        """Time to send every token to its experts on other GPUs and back."""
        shape = self.shape
        layout = self.layout
        group = layout.expert * layout.tensor
        if layout.expert == 1 or not shape.experts_per_token:
            return 0.0
        tokens_bytes = self._tokens * shape.expert_input * _HALF_BYTES / layout.tensor
        # Each way is half of an all-reduce.
        payload = tokens_bytes * shape.experts_per_token
        near = self._links.neighbors(group)
        inside = all_reduce_seconds(self.board, near, payload) / 2.0
        # A token crosses the network once per server with experts of its choice.
        others = other_servers(self._links.servers(group), shape.experts_per_token)
        outside = others * tokens_bytes / self.settings.network_bytes_per_second
        return _LAYER_EXCHANGES * shape.mixed_layers / layout.pipeline * max(inside, outside)

    @property
    def _replica_seconds(self) -> float:
        """Exposed time to exchange gradients once per step, or all shards per micro batch."""
        layout = self.layout
        shape = self.shape
        shared = shape.all_expert_parameters if layout.expert > 1 else 0.0
        replicas = layout.data // layout.expert
        gradient_seconds = self._gradient_seconds(layout.data, shape.count.total - shared)
        return gradient_seconds + self._gradient_seconds(
            replicas, shared / layout.expert, layout.expert
        )

    def _gradient_seconds(self, replicas: int, held: float, apart: int = 1) -> float:
        """Exposed time to exchange parameters that every so many replicas hold."""
        trained = held if self._trains_all else 0.0
        payload = trained * _HALF_BYTES / self._batches
        if self.requirement.training.is_fully_sharded:
            is_unpacked = self.requirement.task is ModelTask.FINETUNE_QLORA
            weights = self.requirement.precision.weights
            gathered = weights.bytes_per_parameter if is_unpacked else _HALF_BYTES
            # A gather, or scatter, is half of an all-reduce.
            payload = (_PASSES * held * gathered + trained * _HALF_BYTES) / 2.0
        if payload <= 0.0:
            return 0.0
        tensor = self.layout.tensor
        stages = self.layout.pipeline
        payload /= tensor * stages
        seconds = self._links.sum_seconds(replicas, payload, apart * tensor)
        return self.settings.exposed_ratio * seconds


def _achieved(board: Board, precision: Precision) -> float:
    return board.achieved(precision) or board.achieved(Precision.FP32) or 1.0


def parameter_flops(task: ModelTask) -> float:
    """FLOPs per parameter and token."""
    return _FLOPS if task is ModelTask.TRAINING else _FROZEN_FLOPS


def training_precision(board: Board, requirement: Requirement) -> Precision:
    """Format of products: the narrower of activations and weights, which QLoRA unpacks."""
    precisions = requirement.precision
    if requirement.task is ModelTask.FINETUNE_QLORA:
        return compute_format(board, precisions.activations)
    formats = (precisions.weights, precisions.activations)
    return compute_format(
        board, min(formats, key=lambda number_format: number_format.bytes_per_parameter)
    )


def uses_fused_kernels(requirement: Requirement, layout: Parallelism) -> bool:
    """Whether kernels are fused: as the framework has them, else with split layers or fp8."""
    if requirement.training.framework is not None:
        return requirement.training.framework.is_fused
    precision = requirement.precision
    if requirement.task is ModelTask.FINETUNE_QLORA or requirement.training.is_fully_sharded:
        return False
    splits = layout.tensor * layout.pipeline > 1
    return splits or precision.activations.is_quantized or precision.weights.is_quantized
