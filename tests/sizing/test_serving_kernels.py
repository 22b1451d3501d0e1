"""What kernels add to a pass of serving: tiles, adapters, launches of mixtures."""

import math

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Lora, Parallelism, Precisions, Requirement
from rightsizer.sizing.roofline import Bound, PassCost
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from sized import serve

H100 = built_in().boards["H100-SXM5-80GB"]
LLAMA_8B = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, name="Llama-3.1-8B"
)
MIXTRAL = replace(LLAMA_8B, vocab=32000, experts=8, experts_per_token=2)
SINGLE = Parallelism()


def requirement_for(model: Transformer, weights: NumberFormat = NumberFormat.BF16) -> Requirement:
    """A requirement of a model in a format."""
    return Requirement(model, precision=Precisions(weights))


def test_one_request_takes_a_whole_tile_where_compute_is_scarce() -> None:
    """64 rows on Hopper: an H20 has the bandwidth of an H200 and a seventh of its compute."""
    board = built_in().boards["H20"]
    served = serve(requirement_for(LLAMA_8B), board, SINGLE, 1)

    weights = 8.03e9 - 128256 * 4096
    tile = 2 * 64 * weights / (board.achieved(Precision.BF16) or 1.0)
    together = math.hypot(tile, 2 * weights / board.achieved_bytes_per_second)
    assert served.tpot_ms.value == pytest.approx(1e3 * (together + 32 * 30e-6 + 1e-3), rel=0.02)
    assert served.bound is Bound.COMPUTE


def test_mixtures_are_slower_on_boards_of_other_vendors() -> None:
    """The factor is a setting, as engines' kernels are tuned for NVIDIA's boards."""
    board = built_in().boards["MI300X"]
    requirement = requirement_for(MIXTRAL)
    alike = ServingModelSettings(other_vendor_experts_ratio=1.0)
    usual = serve(requirement, board, SINGLE, 8).tpot_ms.value
    expected = serve(requirement, board, SINGLE, 8, settings=alike).tpot_ms.value / 0.69

    assert usual == pytest.approx(expected)
    dense = requirement_for(LLAMA_8B)
    assert serve(dense, board, SINGLE, 8, settings=alike) == serve(dense, board, SINGLE, 8)


def test_unpacked_weights_take_a_smaller_tile() -> None:
    """16 rows (`mma.m16n8k16`): more than reading 4 bits takes where compute is scarce."""
    board = built_in().boards["H20"]
    served = serve(requirement_for(LLAMA_8B, NumberFormat.INT4), board, SINGLE, 1)

    tile = 2 * 16 * (8.03e9 - 2 * 128256 * 4096) / (board.achieved(Precision.BF16) or 1.0)
    assert served.tpot_ms.value > 1e3 * (tile + 32 * 70e-6 + 1e-3)
    assert served.tpot_ms.value == pytest.approx(1e3 * (tile + 32 * 70e-6 + 1e-3), rel=0.15)


def test_served_adapters_take_memory_and_time() -> None:
    """Those that 8 requests choose of 4 are read: 1 - (3/4)^8; and 62 us a layer (Punica)."""
    plain = requirement_for(LLAMA_8B)
    adapted = replace(plain, load=RequestLoad(adapters=4), lora=Lora(rank=16, targets=("q", "v")))
    each = 2 * 32 * 16 * ((4096 + 4096) + (4096 + 1024))
    read = 4 * (1 - 0.75**8) * each / (0.83 * H100.memory_bandwidth_bytes_per_second)

    without, beside = (ServingMemory(asked, SINGLE).at(8) for asked in (plain, adapted))
    assert beside.weights_bytes - without.weights_bytes == 4 * each
    alone, together = (
        Server(ServingMemory(asked, SINGLE), H100).forward.decode(8, 1024).seconds
        for asked in (plain, adapted)
    )
    assert together - alone == pytest.approx(32 * 62e-6 + read, rel=1e-3)


def test_each_gpu_of_a_group_computes_the_norms_of_all_tokens() -> None:
    """12 bytes an element on each, as many split: two norms; attention and the activation."""
    group = Parallelism(tensor=8)
    forward = Server(ServingMemory(requirement_for(LLAMA_8B), group), H100).forward
    moved = 32 * 8192 * 4096 * (12 + 12 / 8)

    seconds = moved / (0.831 * H100.memory_bandwidth_bytes_per_second)
    assert forward.prompts(8192).bandwidth == pytest.approx(seconds, rel=0.02)


def test_engines_that_prepare_steps_ahead_take_less_time_for_each_request() -> None:
    """SGLang and TensorRT-LLM: 0.3 of vLLM's 0.25 us a layer."""

    def seconds(engine: ServingEngine) -> float:
        asked = replace(requirement_for(LLAMA_8B), engine=engine)
        return Server(ServingMemory(asked, SINGLE), H100).forward.decode(64, 1024).seconds

    vllm, sglang, tensorrt = map(seconds, tuple(ServingEngine)[:3])
    assert vllm - sglang == pytest.approx(0.7 * 0.25e-6 * 64 * 32)
    assert tensorrt == sglang


def test_prompts_of_mixtures_wait_for_the_host() -> None:
    """Half a millisecond a layer with experts and pass; steps and dense models have none."""
    requirement = requirement_for(MIXTRAL)
    without = ServingModelSettings()
    without = replace(without, expert_prompt_layer_seconds=0.0)
    usual = serve(requirement, H100, SINGLE, 1)
    alike = serve(requirement, H100, SINGLE, 1, settings=without)

    added = 0.45 * MIXTRAL.layers
    assert usual.ttft_ms.value - alike.ttft_ms.value == pytest.approx(added)
    assert usual.tpot_ms == alike.tpot_ms
    dense = requirement_for(LLAMA_8B)
    assert serve(dense, H100, SINGLE, 8, settings=without) == serve(dense, H100, SINGLE, 8)


def test_engines_that_balance_shared_experts_multiply_them_in_grouped_kernels() -> None:
    """So do vLLM and SGLang (EPLB, DeepGEMM) in 8 bits; in 16 bits they only balance them."""
    shared = Parallelism(data=8, expert=8)

    def seconds(engine: ServingEngine, weights: NumberFormat, layout: Parallelism) -> float:
        asked = replace(requirement_for(MIXTRAL, weights), engine=engine)
        forward = Server(ServingMemory(asked, layout), H100).forward
        return forward.chosen_experts()(4096).compute

    vllm, sglang, tensorrt = (
        seconds(each, NumberFormat.FP8, shared)
        for each in (ServingEngine.VLLM, ServingEngine.SGLANG, ServingEngine.TENSORRT_LLM)
    )
    assert vllm == sglang
    assert tensorrt / vllm == pytest.approx(1.8 / 1.2 * 1.2 / 0.65, rel=0.1)
    wide = NumberFormat.BF16
    plain = seconds(ServingEngine.TENSORRT_LLM, wide, shared)
    assert plain / seconds(ServingEngine.VLLM, wide, shared) == pytest.approx(1.8 / 1.2, rel=0.1)
    whole = (seconds(each, NumberFormat.FP8, SINGLE) for each in ServingEngine)
    assert len(set(whole)) == 1


def test_heads_of_a_latent_cache_are_multiplied_while_it_is_read() -> None:
    """Half of the time each, hidden by the other; a cache in 8 bits multiplies in 8 from fp4 on."""
    latent = replace(LLAMA_8B, heads=128, kv_lora_rank=512, rope_head_dim=64)
    eight = Precisions(NumberFormat.FP8, kv_cache=NumberFormat.FP8)
    b200 = built_in().boards["B200"]

    def cost(board: Board, precision: Precisions) -> PassCost:
        asked = Requirement(latent, precision=precision)
        return Server(ServingMemory(asked, SINGLE), board).forward.attention.of_new_tokens(64, 4096)

    read = 64 * 4096 * 32 * 576 * 2
    multiplied = 64 * 4096 * 32 * 128 * 2 * 1088
    compute = multiplied / (0.65 * (H100.achieved(Precision.BF16) or 1.0))
    reading = read / (0.882 * H100.memory_bandwidth_bytes_per_second)
    apart = cost(H100, Precisions())
    assert apart.seconds == pytest.approx((compute**2 + reading**2) ** 0.5, rel=1e-3)
    narrow = cost(b200, eight)
    wide = cost(b200, Precisions(kv_cache=NumberFormat.BF16))
    assert narrow.seconds / wide.seconds < 0.75
    assert cost(H100, eight).seconds / apart.seconds > 0.75
