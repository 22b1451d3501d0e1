"""Serving speed of image and table models."""

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.activations import layer_outputs
from rightsizer.sizing.load import WorkUnit
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement
from rightsizer.sizing.sample_rate import SampleModel, SampleRate, forward_flops, sample_rate

RESNET = ConvolutionalNetwork(25.6e6, 8.2e9)
EIGHT_BITS = Precisions(NumberFormat.INT8, activations=NumberFormat.INT8)
MODELS = [
    RESNET,
    VisionTransformer(12, 768, 12),
    Diffusion(2.6e9, forward_flops=6e12, steps=20),
    Diffusion(8e9),
    RecommenderModel(1e8, 128, 1e7),
]


def served(
    model: SampleModel,
    board: str = "A100-SXM4-80GB",
    concurrency: float | None = None,
    precisions: Precisions | None = None,
    data: int = 1,
) -> SampleRate:
    """The rate on one board, unless given otherwise."""
    requirement = Requirement(model, precision=precisions or Precisions())
    return sample_rate(requirement, built_in().get(board), Parallelism(data=data), concurrency)


@pytest.mark.parametrize(
    ("board", "images"),
    [("T4", 6100), ("A10", 13800), ("A30", 18400), ("A100-SXM4-80GB", 37500)],
)
def test_residual_networks_are_met(board: str, images: float) -> None:
    """ResNet-50 in int8 without a latency bound (MLPerf, not verified by MLCommons)."""
    rate = served(RESNET, board, 256, EIGHT_BITS).samples_per_second
    assert rate.low < images < rate.high
    assert rate.value == pytest.approx(images, rel=0.3)


@pytest.mark.parametrize(
    ("board", "flops", "parameters", "milliseconds"),
    [
        ("T4", 68.0e9, 20.1e6, 4.7),
        ("T4", 194.9e9, 56.9e6, 11.3),
        ("A100-SXM4-80GB", 78.9e9, 25.9e6, 1.83),
        ("A100-SXM4-80GB", 257.8e9, 68.2e6, 3.53),
    ],
)
def test_one_image_is_met(board: str, flops: float, parameters: float, milliseconds: float) -> None:
    """YOLO11 and YOLOv8 in TensorRT, one image at a time (docs.ultralytics.com, models)."""
    model = ConvolutionalNetwork(parameters, flops, image=640)
    found = served(model, board, 1.0).batch_seconds
    assert found.low < milliseconds / 1e3 < found.high
    assert found.value == pytest.approx(milliseconds / 1e3, rel=0.15)


@pytest.mark.parametrize(
    ("model", "board", "batch", "images"),
    [
        ("resnet-50", "V100-SXM2-16GB", 256, 1261),
        ("resnet-50", "T4", 64, 428),
        ("swin-base", "V100-SXM2-16GB", 64, 278),
    ],
)
def test_images_served_in_fp32_are_computed_in_fp32(
    model: str, board: str, batch: int, images: float
) -> None:
    """In PyTorch (NVIDIA/DeepLearningExamples; Swin's README), without tensor cores."""
    asked = {"model": model, "precision": "fp32", "runtime": "eager", "concurrency": str(batch)}
    (item,) = plan_of_flags(asked).items
    assert item.requirement is not None
    rate = sample_rate(item.requirement, built_in().get(board), Parallelism(), batch)
    assert rate.samples_per_second.value == pytest.approx(images, rel=0.3)


def test_convolutions_in_fp32_use_tf32_where_boards_have_it() -> None:
    """The default of cuDNN: faster on an A100 than its 19.5 TFLOPS of fp32 allow."""
    whole = Precisions(NumberFormat.FP32, activations=NumberFormat.FP32)
    rate = served(RESNET, concurrency=256, precisions=whole).samples_per_second
    assert rate.value > 19.5e12 / RESNET.forward_flops


def test_few_images_do_not_fill_the_tiles_of_convolutions() -> None:
    """An image of a pair takes less than one alone, beyond the time of launches."""
    network = ConvolutionalNetwork(2e7, 4e12)
    one, two = (served(network, "T4", images).batch_seconds.value for images in (1.0, 2.0))
    assert two < 1.8 * one


@pytest.mark.parametrize("model", MODELS)
def test_more_hardware_makes_more(model: SampleModel) -> None:
    """This covers a faster board, and replicas, which multiply the rate."""
    slow = served(model)
    fast = served(model, "H100-SXM5-80GB")
    assert fast.samples_per_second.value > slow.samples_per_second.value
    eight = served(model, data=8)
    assert eight.samples_per_second.value == pytest.approx(8 * slow.samples_per_second.value)


@pytest.mark.parametrize("model", MODELS)
def test_batches_trade_time_for_throughput(model: SampleModel) -> None:
    """A larger batch takes longer and gives no fewer samples a second."""
    one = served(model, concurrency=1)
    many = served(model, concurrency=32)
    assert many.batch_seconds.value >= one.batch_seconds.value
    assert many.samples_per_second.value >= one.samples_per_second.value


def test_guidance_doubles_the_work() -> None:
    """Each step runs with and without the prompt."""
    plain = Diffusion(2.6e9, forward_flops=6e12, guided=False)
    guided = Diffusion(2.6e9, forward_flops=6e12)
    ratio = served(plain).samples_per_second.value / served(guided).samples_per_second.value
    assert 1.5 < ratio < 2.1


def test_tables_depend_on_bandwidth() -> None:
    """Twice the rows halve the samples."""
    few = served(RecommenderModel(1e8, 128, 1e6, lookups=1000), concurrency=65536)
    many = served(RecommenderModel(1e8, 128, 1e6, lookups=2000), concurrency=65536)
    ratio = few.samples_per_second.value / many.samples_per_second.value
    assert ratio == pytest.approx(2.0, rel=0.1)


def test_tokens_are_no_samples() -> None:
    """A language model has a rate of its own."""
    requirement = Requirement(Transformer(32, 4096, 32, 32000))
    with pytest.raises(TypeError, match="served"):
        sample_rate(requirement, built_in().get("T4"), Parallelism())


@pytest.mark.parametrize(
    ("name", "board", "seconds"),
    [
        ("CogVideoX-2B", "A100-SXM4-80GB", 90),
        ("CogVideoX-2B", "H100-SXM5-80GB", 45),
        ("CogVideoX-5B", "A100-SXM4-80GB", 180),
        ("CogVideoX-5B", "H100-SXM5-80GB", 90),
        ("CogVideoX1.5-5B", "A100-SXM4-80GB", 1000),
        ("CogVideoX1.5-5B", "H100-SXM5-80GB", 550),
        ("HunyuanVideo", "A100-SXM4-80GB", 3600),
        ("HunyuanVideo", "H100-SXM5-80GB", 1800),
        ("HunyuanVideo", "H20", 6639),
        ("HunyuanVideo", "L20", 6044),
        ("Wan2.1-T2V-1.3B", "RTX4090", 240),
        ("Wan2.2-T2V-A14B", "H100-SXM5-80GB", 8 * 250.7),
    ],
)
def test_published_times_of_videos_are_met(name: str, board: str, seconds: float) -> None:
    """Model cards; HunyuanVideo issue 74, and by xDiT; Wan 2.1's README; Wan 2.2 by Morphic.

    `video_attention_ratio` is chosen by these.
    """
    (item,) = plan_of_flags({"model": name, "rps": "1/h"}).items
    assert item.requirement is not None
    assert item.requirement.unit is WorkUnit.VIDEOS
    rate = sample_rate(item.requirement, built_in().get(board), Parallelism(), 1.0)
    assert rate.samples_per_second.low < 1.0 / seconds < rate.samples_per_second.high


def test_a_longer_video_takes_more_than_its_share() -> None:
    """Tokens grow with latent frames, and attention with their square."""
    short = Diffusion(2e9, frames=49, layers=28, hidden=2048, token_parameters=1.6e9)
    long = replace(short, frames=97)
    assert (short.latent_frames, long.latent_frames) == (13, 25)
    assert forward_flops(long) > 25 / 13 * forward_flops(short)
    assert forward_flops(long) < (25 / 13) ** 2 * forward_flops(short)


def test_parameters_of_a_token_follow_from_the_shape() -> None:
    """Of Wan 2.1: attention with norms, queries and output of that to the text, feed-forward."""
    (item,) = plan_of_flags({"model": "wan2.1-14b", "rps": "1/h"}).items
    assert item.requirement is not None
    model = item.requirement.model
    hidden = 5120
    inner = 13824
    assert isinstance(model, Diffusion)

    attention = 4 * (hidden + 1) * hidden + 2 * hidden + 2 * (hidden + 1) * hidden
    assert model.token_parameters == 40 * (attention + 2 * hidden * inner + inner + hidden)


@pytest.mark.parametrize(
    ("model", "eager", "compiled"),
    [
        ("convnext_femto", 11041, 22282),
        ("dla46_c", 10959, 21983),
        ("efficientnet_blur_b0", 6807, 8559),
        ("efficientnet_es", 6810, 11898),
    ],
)
def test_depthwise_networks_are_as_slow_as_their_outputs(
    model: str, eager: float, compiled: float
) -> None:
    """Traffic takes the time, on an RTX 4090 (pytorch-image-models, PyTorch 2.4)."""
    for runtime, measured, batch in (("eager", eager, 1024), ("compiled", compiled, 256)):
        (item,) = plan_of_flags({"model": model, "runtime": runtime}).items
        assert item.requirement is not None
        board = built_in().boards["RTX4090"]
        rate = sample_rate(item.requirement, board, Parallelism(), batch).samples_per_second

        assert measured / 1.8 < rate.value < measured * 1.8


def test_image_networks_run_in_pytorch_unless_in_eight_bits() -> None:
    """Nobody compiles for TensorRT unasked; kernels in 8 bits are its own."""
    runtimes = []
    for more in ({}, {"precision": "int8"}, {"runtime": "eager"}):
        (item,) = plan_of_flags({"model": "resnet-50", **more}).items
        assert item.requirement is not None
        runtimes.append(item.requirement.runtime)

    assert runtimes == ["compiled", "tensorrt", "eager"]


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "image", "counted"),
    [(12, 768, 12, 224, 23.9e6), (12, 768, 12, 384, 101.56e6), (24, 1024, 16, 224, 63.52e6)],
)
def test_outputs_of_a_vision_transformer_follow_from_its_shape(
    layers: int, hidden: int, heads: int, image: int, counted: float
) -> None:
    """As pytorch-image-models counts them."""
    model = VisionTransformer(layers, hidden, heads, image=image)
    assert layer_outputs(model) == pytest.approx(counted, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "eager", "compiled"),
    [
        ({"kind": "vit", "layers": 12, "hidden": 768, "heads": 12, "image": 384}, 916, 1108),
        ("deit3_large_patch16_384", 272, 343),
        ("vit_huge_patch14_224", 346, 398),
    ],
)
def test_transformers_over_patches_run_by_their_runtime(
    model: object, eager: float, compiled: float
) -> None:
    """Measured on an RTX 4090, by name or by shape; TensorRT fuses no less than a compiler."""
    rates = {}
    for runtime in ("eager", "compiled", "tensorrt"):
        (item,) = plan_of_flags({"model": model, "runtime": runtime}).items
        assert item.requirement is not None
        board = built_in().boards["RTX4090"]
        rates[runtime] = sample_rate(item.requirement, board, Parallelism(), 256).samples_per_second

    assert rates["eager"].low < eager < rates["eager"].high
    assert rates["compiled"].low < compiled < rates["compiled"].high
    assert rates["eager"].value < rates["compiled"].value
    assert rates["tensorrt"].value >= rates["compiled"].value
