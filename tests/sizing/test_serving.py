"""Serving speed of a language model, against measurements and arithmetic by hand."""

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.forward_pass import ForwardPass
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.models import ConvolutionalNetwork, Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement
from rightsizer.sizing.roofline import Bound
from rightsizer.sizing.serving import Server, best_concurrency
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from sized import serve

BOARDS = built_in().boards
H100, A100, L40S, T4 = (BOARDS[key] for key in ("H100-SXM5-80GB", "A100-SXM4-80GB", "L40S", "T4"))
H200 = BOARDS["H200-SXM-141GB"]
LLAMA_8B = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, name="Llama-3.1-8B"
)
LLAMA_70B = replace(LLAMA_8B, layers=80, hidden=8192, heads=64, ffn=28672)
MIXTRAL = replace(LLAMA_8B, vocab=32000, experts=8, experts_per_token=2)
BERT = Transformer(
    layers=24,
    hidden=1024,
    heads=16,
    vocab=30522,
    ffn=4096,
    gated_ffn=False,
    tied_embeddings=True,
    cached_layers=0,
)
SINGLE = Parallelism()


def requirement_for(
    model: Transformer, weights: NumberFormat = NumberFormat.BF16, **load: float
) -> Requirement:
    """A requirement of a model in a format."""
    return Requirement(model, precision=Precisions(weights), load=RequestLoad(**load))


def test_one_request_reads_the_weights_for_each_token() -> None:
    """All but the embedding in 16 bits at 74% of 2.04 TB/s, 32 layers of 30 us, and the host."""
    served = serve(requirement_for(LLAMA_8B), A100, SINGLE, 1)

    reading = 2 * (8.03e9 - 128256 * 4096) / (0.74 * A100.memory_bandwidth_bytes_per_second)
    assert served.tpot_ms.value == pytest.approx(1e3 * (reading + 32 * 30e-6 + 1e-3), rel=0.02)
    assert served.bound is Bound.BANDWIDTH


def test_a_measured_server_is_met() -> None:
    """Llama-3.1-70B in fp8 on four H100, 1024 tokens in and out, 16 requests (vLLM): 13.2 ms."""
    requirement = Requirement(
        LLAMA_70B,
        precision=Precisions(NumberFormat.FP8, NumberFormat.BF16),
        load=RequestLoad(1024, 1024),
    )
    served = serve(requirement, H100, Parallelism(tensor=4), 16)

    assert served.tpot_ms.value == pytest.approx(13.2, rel=0.05)
    assert served.tpot_ms.low < 13.2 < served.tpot_ms.high
    assert served.ttft_ms.low < 121 < served.ttft_ms.high


def test_prompts_of_others_take_their_turns() -> None:
    """Short answers cost more a token, as each comes with a prompt."""
    short = serve(
        requirement_for(LLAMA_8B, input_tokens=2048.0, output_tokens=64.0), H100, SINGLE, 32
    )
    long = serve(
        requirement_for(LLAMA_8B, input_tokens=2048.0, output_tokens=1024.0), H100, SINGLE, 32
    )

    assert short.tpot_ms.value > 1.5 * long.tpot_ms.value
    assert short.bound is Bound.COMPUTE


def test_cached_prefixes_are_looked_at_and_not_computed() -> None:
    """Three quarters of 8,192 tokens: a quarter of the products, 7/16 of attention's, all reads."""
    load = {"input_tokens": 8192.0, "output_tokens": 256.0, "concurrency": 8.0}
    plain, cached = (
        Server(
            ServingMemory(requirement_for(LLAMA_8B, prefix_cache_ratio=ratio, **load), SINGLE), H100
        )
        for ratio in (0.0, 0.75)
    )
    attended = plain.forward.attention.of_prompt(8192).seconds
    products = plain.prompt.compute - attended

    assert cached.prompt.compute == pytest.approx(products / 4 + attended * 7 / 16, rel=0.05)
    assert cached.at(8).ttft_ms.value < 0.5 * plain.at(8).ttft_ms.value
    assert cached.at(8).tpot_ms.value < 0.8 * plain.at(8).tpot_ms.value
    assert cached.memory.at(8) == plain.memory.at(8)
    assert cached.forward.decode(8, 8192) == plain.forward.decode(8, 8192)


def test_a_full_cache_makes_requests_wait() -> None:
    """Waiting requests delay the first token, not the next ones."""
    requirement = requirement_for(LLAMA_8B, input_tokens=4096.0, output_tokens=1024.0)
    fitting, waiting = (serve(requirement, L40S, SINGLE, count) for count in (30, 300))

    assert fitting.running == 30
    assert waiting.running < 60
    assert waiting.tpot_ms.value < 1.5 * fitting.tpot_ms.value
    assert waiting.ttft_ms.value > 20 * fitting.ttft_ms.value


def test_a_model_that_does_not_fit_is_predicted_one_request_at_a_time() -> None:
    """It is slow, but not 0: 16 GB of weights on a T4."""
    served = serve(requirement_for(LLAMA_8B), T4, SINGLE, 8)

    assert served.running == 1
    assert served.tpot_ms.value == serve(requirement_for(LLAMA_8B), T4, SINGLE, 1).tpot_ms.value


def test_a_few_requests_read_few_experts() -> None:
    """One token reads two of eight; with many requests all of them are read."""
    room = replace(A100, memory_bytes=4e11)
    alone, many = (
        serve(requirement_for(MIXTRAL, output_tokens=4096.0), room, SINGLE, n) for n in (1, 32)
    )

    assert alone.tpot_ms.value < 0.35 * many.tpot_ms.value


@pytest.mark.parametrize(
    ("number_format", "tokens", "microseconds"),
    [
        (NumberFormat.BF16, 1, 123.8),
        (NumberFormat.BF16, 8, 559.8),
        (NumberFormat.BF16, 32, 1322.9),
        (NumberFormat.BF16, 128, 1659.1),
        (NumberFormat.BF16, 512, 1840.1),
        (NumberFormat.FP8, 32, 731.4),
        (NumberFormat.FP8, 128, 891.1),
        (NumberFormat.FP8, 512, 1010.8),
    ],
)
def test_experts_take_what_was_measured(
    number_format: NumberFormat, tokens: int, microseconds: float
) -> None:
    """Qwen3-235B's experts on an H100, vLLM 0.24 (aiconfigurator-core 0.12.0), uneven."""
    layer = Transformer(
        layers=1,
        hidden=4096,
        heads=64,
        kv_heads=4,
        head_dim=128,
        ffn=1536,
        vocab=151936,
        experts=128,
        experts_per_token=8,
    )
    precision = Precisions(number_format, NumberFormat.BF16)
    forward = ForwardPass(layer, precision, H100, SINGLE, ServingModelSettings())
    cost = forward.chosen_experts()(tokens)
    assert 1e6 * cost.seconds == pytest.approx(microseconds, rel=0.21)


@pytest.mark.parametrize(("tokens", "microseconds"), [(256, 757.0), (1024, 1375.5), (2048, 1766.2)])
def test_experts_that_are_unpacked_take_what_was_measured(tokens: int, microseconds: float) -> None:
    """gpt-oss-120b's in mxfp4 on an H100, vLLM 0.24 (aiconfigurator-core 0.12.0), uneven."""
    layer = Transformer(
        layers=1,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_dim=64,
        ffn=2880,
        vocab=201088,
        experts=128,
        experts_per_token=4,
    )
    precision = Precisions(NumberFormat.INT4, NumberFormat.BF16)
    forward = ForwardPass(layer, precision, H100, SINGLE, ServingModelSettings())
    cost = forward.chosen_experts()(tokens)
    assert 1e6 * cost.seconds == pytest.approx(microseconds, rel=0.21)


def test_narrow_experts_take_their_time_however_small() -> None:
    """Split over eight GPUs their reads are an eighth, but launching their kernels is not."""
    eight = Parallelism(tensor=8)
    dense, mixed = (serve(requirement_for(each), H100, eight, 1) for each in (LLAMA_8B, MIXTRAL))
    more = 1e-3 * (mixed.tpot_ms.value - dense.tpot_ms.value)

    assert more > MIXTRAL.layers * ServingModelSettings().expert_layer_seconds


def test_experts_are_slower_at_prompts_than_one_part_of_their_width() -> None:
    """Each gets a part of the tokens."""
    wide = replace(LLAMA_8B, ffn=2 * 14336)
    room = replace(H100, memory_bytes=4e11)
    plain, mixed = (
        Server(ServingMemory(requirement_for(each), SINGLE), room).prompt.compute
        for each in (wide, replace(MIXTRAL, ffn=14336))
    )
    assert 1.2 * plain < mixed < 2.0 * plain


def test_replicas_that_share_experts_hold_a_part_of_them() -> None:
    """DeepSeek-V3's shape in fp8 fits eight H200 so, and eight whole copies do not."""
    model = Transformer(
        layers=61,
        hidden=7168,
        heads=128,
        vocab=129280,
        ffn=2048,
        experts=256,
        experts_per_token=8,
        shared_experts=1,
        dense_layers=3,
        dense_ffn=18432,
        kv_lora_rank=512,
        rope_head_dim=64,
        query_lora_rank=1536,
        head_dim=128,
        value_head_dim=128,
    )
    requirement = requirement_for(
        model, NumberFormat.FP8, input_tokens=1024.0, output_tokens=1024.0
    )
    room = available_bytes(requirement, H200.memory_bytes)
    copies, shared, whole = (
        ServingMemory(requirement, layout)
        for layout in (Parallelism(data=8), Parallelism(data=8, expert=8), Parallelism(tensor=8))
    )

    assert copies.weights_bytes > 4 * shared.weights_bytes > 4 * whole.weights_bytes
    assert copies.largest_concurrency(room) == 0
    # Latent attention keeps its cache whole on each GPU of a tensor group.
    assert shared.largest_concurrency(room) > 3 * whole.largest_concurrency(room) > 0


def test_experts_that_are_shared_are_exchanged_with() -> None:
    """Over links that costs less than reading all on each; over PCIe it is visible."""
    requirement = requirement_for(MIXTRAL, output_tokens=1024.0)
    apart = Parallelism(data=8)
    shared = Parallelism(data=8, expert=8)
    linked = replace(H200, memory_bytes=4e11)
    slow = replace(L40S, memory_bytes=4e11)
    fast = [serve(requirement, linked, each, 256).tpot_ms.value for each in (apart, shared)]
    step = Server(ServingMemory(requirement, shared), slow).forward.decode(64, 1024)

    assert fast[1] < 0.6 * fast[0]
    assert step.communication > 0.3 * step.bandwidth


def test_tensor_parallelism_over_pcie_collapses() -> None:
    """Eight L40S are hardly faster than two; eight H100 are."""
    requirement = requirement_for(LLAMA_70B, NumberFormat.FP8)
    two, eight = (serve(requirement, L40S, Parallelism(tensor=n), 16) for n in (2, 8))
    linked = [serve(requirement, H100, Parallelism(tensor=n), 16) for n in (2, 8)]

    assert eight.tpot_ms.value > 0.9 * two.tpot_ms.value
    assert eight.bound is Bound.COMMUNICATION
    assert linked[1].tpot_ms.value < linked[0].tpot_ms.value


def test_replicas_share_the_requests() -> None:
    """Two replicas with 32 requests equal two servers with 16."""
    requirement = requirement_for(LLAMA_8B)
    one = serve(requirement, H100, SINGLE, 16)
    two = serve(requirement, H100, Parallelism(data=2), 32)

    assert two.tpot_ms == one.tpot_ms
    assert two.tokens_per_second.value == pytest.approx(2 * one.tokens_per_second.value)


def test_a_board_without_fp8_units_saves_reads_alone() -> None:
    """An A100 computes prompts of an fp8 model in 16 bits, an H100 does not."""
    load = {"input_tokens": 8192.0, "output_tokens": 16.0}
    plain, small = (
        serve(requirement_for(LLAMA_8B, each, **load), A100, SINGLE, 1)
        for each in (
            NumberFormat.BF16,
            NumberFormat.FP8,
        )
    )
    fast = [
        serve(requirement_for(LLAMA_8B, each, **load), H100, SINGLE, 1).ttft_ms.value
        for each in (NumberFormat.BF16, NumberFormat.FP8)
    ]

    assert small.tpot_ms.value < 0.8 * plain.tpot_ms.value
    assert small.ttft_ms.value > 0.95 * plain.ttft_ms.value
    assert fast[1] < 0.85 * fast[0]


def test_four_bits_are_computed_where_there_are_units_for_them() -> None:
    """A B200 makes prompts faster with each narrower format, an H100 unpacks 4 bits to 16."""
    load = {"input_tokens": 8192.0, "output_tokens": 16.0}
    forms = (NumberFormat.NVFP4, NumberFormat.FP8, NumberFormat.BF16)
    b200, h100 = (
        [
            serve(requirement_for(LLAMA_8B, form, **load), board, SINGLE, 1).ttft_ms.value
            for form in forms
        ]
        for board in (BOARDS["B200"], H100)
    )

    assert b200[0] < b200[1] < b200[2]
    assert h100[1] < h100[0] < h100[2]


@pytest.mark.parametrize("key", ["H100-SXM5-80GB", "H200-SXM-141GB", "B200", "GB200"])
@pytest.mark.parametrize("prompt", [1024.0, 8192.0])
def test_more_than_the_memory_holds_wait_for_those_that_run(key: str, prompt: float) -> None:
    """Ten times of what fits slows no token, and delays the first one by nine answers."""
    requirement = requirement_for(
        LLAMA_70B, NumberFormat.FP8, input_tokens=prompt, output_tokens=1024.0
    )
    layout = Parallelism(tensor=2)
    full = Server(ServingMemory(requirement, layout), BOARDS[key])
    runs = full.capacity
    fitting = full.at(runs)
    waiting = full.at(10 * runs)
    answer_ms = 1024 * fitting.tpot_ms.value

    assert waiting.tpot_ms == fitting.tpot_ms
    assert waiting.tokens_per_second == fitting.tokens_per_second
    assert waiting.ttft_ms.value - fitting.ttft_ms.value == pytest.approx(9 * answer_ms, rel=0.05)


def test_a_format_that_is_unpacked_whole_is_slower_than_16_bits() -> None:
    """Bitsandbytes writes a copy in 16 bits and reads it again; AWQ does not."""
    plain, nf4, int4 = (
        serve(requirement_for(LLAMA_8B, each), L40S, SINGLE, 1).tpot_ms.value
        for each in (NumberFormat.BF16, NumberFormat.NF4, NumberFormat.INT4)
    )

    assert int4 < 0.5 * plain < plain < nf4


def test_a_sliding_window_bounds_what_is_read() -> None:
    """A context of 32,768 tokens reads 4,096 of them."""
    load = {"input_tokens": 32768.0, "output_tokens": 1024.0}
    whole = serve(requirement_for(LLAMA_8B, **load), H100, SINGLE, 8)
    windowed = serve(
        requirement_for(replace(LLAMA_8B, sliding_window=4096), **load), H100, SINGLE, 8
    )

    assert windowed.tpot_ms.value < 0.8 * whole.tpot_ms.value
    assert windowed.ttft_ms.value < whole.ttft_ms.value


def test_an_encoder_has_no_second_token() -> None:
    """Each request is one pass, only input tokens count, and no cache is kept."""
    requirement = requirement_for(BERT, input_tokens=512.0)
    caching = requirement_for(BERT, input_tokens=512.0, prefix_cache_ratio=0.9)
    one, many = (serve(requirement, L40S, SINGLE, count) for count in (1, 64))

    assert many.tpot_ms.value == 0.0
    assert many == serve(caching, L40S, SINGLE, 64)
    assert many.tokens_per_second.value == pytest.approx(64 * 512 / (many.ttft_ms.value / 1e3))
    assert many.tokens_per_second.value > one.tokens_per_second.value


def test_stages_of_an_encoder_work_on_different_requests() -> None:
    """Two stages process two batches of half the size at a time, and a single request no faster."""
    requirement = requirement_for(BERT, input_tokens=512.0)
    one, two = (serve(requirement, L40S, Parallelism(pipeline=n), 64) for n in (1, 2))
    alone = [serve(requirement, L40S, Parallelism(pipeline=n), 1) for n in (1, 2)]

    assert two.tokens_per_second.value > 1.5 * one.tokens_per_second.value
    assert alone[1].tokens_per_second.value <= alone[0].tokens_per_second.value


def test_a_network_of_images_serves_no_tokens() -> None:
    """The error says what to do instead."""
    with pytest.raises(RequirementError, match=r"model\.kind: only a transformer"):
        serve(Requirement(ConvolutionalNetwork(2.5e7, 8.2e9)), H100, SINGLE, 1)


def server(requirement: Requirement, board: Board, room: float) -> Server:
    """One board with the given memory."""
    settings = ServingModelSettings(latency_headroom_ratio=0.0)
    return Server(ServingMemory(requirement, SINGLE), board, room, settings)


def test_latencies_bound_the_best_concurrency() -> None:
    """One more request would exceed a latency."""
    requirement = requirement_for(LLAMA_8B, input_tokens=1024.0, output_tokens=256.0, tpot_ms=15.0)
    best = best_concurrency(server(requirement, H100, available_bytes(requirement, 8.5e10)))

    assert best
    assert serve(requirement, H100, SINGLE, best).tpot_ms.value <= 15.0
    assert serve(requirement, H100, SINGLE, best + 1).tpot_ms.value > 15.0


def test_a_first_token_may_bound_it_too() -> None:
    """Prompts queue for the matrix units."""
    requirement = requirement_for(LLAMA_8B, input_tokens=8192.0, output_tokens=256.0, ttft_ms=600.0)
    best = best_concurrency(server(requirement, H100, available_bytes(requirement, 8.5e10)))

    assert best
    assert serve(requirement, H100, SINGLE, best).ttft_ms.value <= 600.0
    assert serve(requirement, H100, SINGLE, best + 1).ttft_ms.value > 600.0


def test_without_latencies_memory_or_the_engine_bounds_it() -> None:
    """Offline, each request adds to the throughput."""
    requirement = requirement_for(LLAMA_8B)
    small, large = (best_concurrency(server(requirement, H100, each)) for each in (2.5e10, 3e11))

    assert 0 < small < large == 1024


def test_a_model_that_does_not_fit_has_no_best_concurrency() -> None:
    """Not even one request fits."""
    assert best_concurrency(server(requirement_for(LLAMA_70B), T4, 1.4e10)) == 0


def test_first_token_under_load_reaches_from_random_arrivals_to_all_at_once() -> None:
    """NIM's clients come apart (835 ms with 50), those of vLLM's benchmark together."""
    load = {"input_tokens": 5000.0, "output_tokens": 500.0}
    requirement = requirement_for(LLAMA_8B, **load)
    alone, many = (serve(requirement, H100, SINGLE, each).ttft_ms for each in (1, 50))

    assert many.high / many.value > alone.high / alone.value
    assert many.value / many.low > alone.value / alone.low
    assert many.low < 2.0 * alone.value
    assert many.high > 20.0 * alone.value
