"""Memory of a served model."""

import pytest
from msgspec.structs import replace

from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    RecommenderModel,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement
from rightsizer.sizing.serving_memory import ServingMemory, kv_cache
from rightsizer.sizing.settings import MemorySettings
from sized import estimate_memory
from sizing_models import GIB, published

SINGLE = Parallelism()
H100 = 79.65 * GIB
LLAMA_8B = Requirement(published("Llama-3.1-8B"), load=RequestLoad(1024, 256))
DIFFUSION = Diffusion(2.6e9, text_encoder_parameters=8.2e8)
OTHERS: tuple[Model, ...] = (
    VisionTransformer(12, 768, 12),
    ConvolutionalNetwork(2.5e7, 8.2e9),
    DIFFUSION,
    RecommenderModel(2e8, 128, 2.5e6),
)


def test_a_profiling_pass_takes_what_vllm_logs() -> None:
    """Llama 3 8B with 8192 tokens and 256 requests: 1.26 GiB as measured."""
    found = estimate_memory(LLAMA_8B, SINGLE, 256)

    assert found.activations_bytes / GIB == pytest.approx(1.26, rel=0.12)


def test_the_cache_is_that_of_all_requests() -> None:
    """Each is at its longest."""
    found = estimate_memory(LLAMA_8B, SINGLE, 10)

    one = kv_cache(LLAMA_8B.model, NumberFormat.BF16).bytes_per_token
    assert found.kv_cache_bytes == 10 * 1280 * one


def test_the_load_says_how_many_where_nobody_asks() -> None:
    """Without a load there is one request."""
    asked = replace(LLAMA_8B, load=RequestLoad(1024, 256, concurrency=7))

    assert estimate_memory(asked, SINGLE) == estimate_memory(LLAMA_8B, SINGLE, 7)
    assert estimate_memory(LLAMA_8B, SINGLE) == estimate_memory(LLAMA_8B, SINGLE, 1)


def test_replicas_share_requests() -> None:
    """The fullest has one more if they do not divide."""
    found = estimate_memory(LLAMA_8B, Parallelism(data=4), 10)

    assert found == estimate_memory(LLAMA_8B, SINGLE, 3)


def test_gpus_that_talk_keep_buffers_for_it() -> None:
    """They are NCCL's."""
    one, two, four = (
        estimate_memory(LLAMA_8B, Parallelism(tensor=count), 1).overhead_bytes
        for count in (1, 2, 4)
    )

    assert two - one == pytest.approx(342 * 2**20)
    assert four - two == pytest.approx(50 * 2**20)


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Mixtral-8x7B", "gemma-2-9b", "DeepSeek-V2-Lite"])
@pytest.mark.parametrize("layout", [SINGLE, Parallelism(tensor=2), Parallelism(2, 2, 2)])
def test_the_largest_concurrency_fits_and_one_more_does_not(name: str, layout: Parallelism) -> None:
    """One more means one for each replica."""
    requirement = Requirement(published(name), load=RequestLoad(2000, 500))
    room = available_bytes(requirement, 2 * H100)
    most = ServingMemory(requirement, layout).largest_concurrency(room)

    assert estimate_memory(requirement, layout, most).total_bytes <= room
    assert estimate_memory(requirement, layout, most + layout.data).total_bytes > room


def test_model_too_large_for_the_gpu_serves_nothing() -> None:
    """A 70B model in 16 bits does not fit one GPU."""
    large = Requirement(published("Llama-3.1-70B"))
    room = available_bytes(large, H100)

    assert ServingMemory(large, SINGLE).largest_concurrency(room) == 0
    assert ServingMemory(large, Parallelism(tensor=4)).largest_concurrency(room) > 100


def test_serving_leaves_a_tenth_free() -> None:
    """The share is of the memory available to a process."""
    room = available_bytes(LLAMA_8B, 80 * GIB, MemorySettings(driver_reserved_bytes=2 * GIB))

    assert room == pytest.approx(78 * 0.9 * GIB)


def test_an_unpacked_matrix_is_counted() -> None:
    """4-bit Llama 2 7B generates in 3.97 GiB, as measured by an allocator."""
    requirement = Requirement(
        published("Llama-2-7B"),
        precision=Precisions(NumberFormat.NF4_DOUBLE_QUANTIZED),
        load=RequestLoad(256, 44),
    )
    found = estimate_memory(requirement, SINGLE)

    assert (found.total_bytes - found.overhead_bytes) / GIB == pytest.approx(3.9674, rel=0.03)


@pytest.mark.parametrize("model", OTHERS, ids=lambda model: type(model).__name__)
def test_other_kinds_need_more_with_each_request(model: Model) -> None:
    """Their activations grow."""
    one, many = (estimate_memory(Requirement(model), SINGLE, count) for count in (1, 64))

    assert many.activations_bytes > one.activations_bytes > 0
    assert replace(many, activations_bytes=0.0) == replace(one, activations_bytes=0.0)


@pytest.mark.parametrize("model", OTHERS, ids=lambda model: type(model).__name__)
def test_other_kinds_have_a_largest_concurrency(model: Model) -> None:
    """Their activations bound it."""
    memory = ServingMemory(Requirement(model), SINGLE)
    room = memory.at(1).total_bytes + 2 * GIB
    most = memory.largest_concurrency(room)

    assert memory.at(most).total_bytes <= room < memory.at(most + 1).total_bytes


def test_turning_latents_into_pixels_sets_the_peak() -> None:
    """A megapixel takes 2 to 4 GiB."""
    found = estimate_memory(Requirement(DIFFUSION), SINGLE, 1)

    assert 2 * GIB < found.activations_bytes < 4 * GIB


def test_only_the_denoiser_is_quantized() -> None:
    """Text encoder and decoder stay in 16 bits."""
    found = estimate_memory(
        Requirement(DIFFUSION, precision=Precisions(NumberFormat.FP8)), SINGLE, 1
    )

    assert found.weights_bytes == 2.6e9 + 2 * (8.2e8 + 8.4e7)


def test_tables_are_quantized_too() -> None:
    """A recommender consists of tables."""
    model = RecommenderModel(1e9, 64, 1e6)
    found = estimate_memory(Requirement(model, precision=Precisions(NumberFormat.INT8)), SINGLE, 1)

    assert found.weights_bytes == 64e9 + 1e6


def test_an_estimate_tells_where_it_lies() -> None:
    """It is wider where activations follow a rule of thumb."""
    known = estimate_memory(LLAMA_8B, SINGLE).total
    thumb = estimate_memory(Requirement(DIFFUSION), SINGLE).total

    assert known.low < known.value < known.high
    assert thumb.high / thumb.value > known.high / known.value
