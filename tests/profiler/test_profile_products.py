"""Matrix products with recorded shapes: operations, traffic, calls and device time."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.profile import ProductUse
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.products import TensorProduct, tensor_product
from rightsizer.profiles.registry import open_profile

BF16 = "c10::BFloat16"


def arguments(dims: Any, kind: str = BF16, count: int = 3) -> dict[str, Any]:
    """Arguments as PyTorch writes them with `record_shapes`."""
    return {"Input Dims": dims, "Input type": [kind] * count}


@pytest.mark.parametrize(
    ("name", "dims", "kind", "shape", "flops", "moved"),
    [
        ("aten::mm", [[4, 8], [8, 2]], BF16, "4 x 8 by 8 x 2", 128, 112),
        ("aten::addmm", [[2], [4, 8], [8, 2], []], "float", "4 x 8 by 8 x 2", 128, 224),
        ("aten::bmm", [[3, 4, 8], [3, 8, 2]], "c10::Half", "3 of 4 x 8 by 8 x 2", 384, 336),
        ("aten::_scaled_mm", [[4, 8], [8, 2]], "c10::Float8_e4m3fn", "4 x 8 by 8 x 2", 128, 56),
    ],
)
def test_a_product_is_recognized_by_its_shapes(  # noqa: PLR0913, PLR0917 - a row of the table.
    name: str, dims: Any, kind: str, shape: str, flops: int, moved: int
) -> None:
    """It has two operations for each pair of numbers; each matrix is moved once."""
    found = tensor_product(name, arguments(dims, kind, 4))
    assert found is not None
    assert (found.shape, found.flops, found.bytes) == (shape, flops, moved)


@pytest.mark.parametrize(
    "dims",
    [
        None,
        "[[4, 8], [8, 2]]",
        [[4, 8]],
        [[4, 8], [7, 2]],
        [[4, 8], [2, 8, 2]],
        [[4, 0], [0, 2]],
        [[4, 2**40], [2**40, 2]],
        [[4, True], [True, 2]],
        [[], []],
        [4, 8],
    ],
)
def test_invalid_shapes_have_no_product(dims: Any) -> None:
    """Covers missing, mismatched, empty and absurd shapes."""
    assert tensor_product("aten::mm", arguments(dims)) is None
    assert tensor_product("aten::relu", arguments([[4, 8], [8, 2]])) is None
    assert tensor_product("aten::mm", arguments([[4, 8], [8, 2]], "double")) is None


def called(name: str, dims: Any, values: dict[int, str]) -> TensorProduct | None:
    """An operator's product; `values` are those of arguments that are no tensors."""
    types = [BF16 if dim else "Scalar" for dim in dims]
    concrete = [values.get(place, "") for place in range(len(dims))]
    arguments = {"Input Dims": dims, "Input type": types, "Concrete Inputs": concrete}
    return tensor_product(name, arguments)


IMAGE = [2, 6, 9, 7]
FILTERS = [8, 3, 3, 5]
"""Two groups; the result is 2 x 8 x 5 x 7 for a stride of 2 x 1."""
PLACED = "[1, 2]", "[2, 1]", "[1, 1]"


def test_a_convolution_follows_from_stride_padding_and_dilation() -> None:
    """Operations equal those of `torch.utils.flop_counter` of PyTorch 2.13."""
    values = dict(zip((2, 3, 4), PLACED, strict=True))
    found = called("aten::cudnn_convolution", [IMAGE, FILTERS, [], [], [], []], values)
    assert found is not None
    assert found.shape == "2 x 6 x 9 x 7 by 8 x 3 x 3 x 5, stride 2 x 1"
    assert (found.flops, found.bytes) == (50_400, 2 * (756 + 360 + 560))

    values = {3: "[1]", 4: "[2]", 5: "[1]"}
    line = called("aten::miopen_convolution", [[2, 3, 20], [4, 3, 5], [4], [], [], []], values)
    assert line is not None
    assert line.flops == 2_160


@pytest.mark.parametrize(
    ("asked", "times"), [("[True, True, False]", 2), ("[False, True, True]", 1)]
)
def test_gradients_of_a_convolution_are_those_that_are_asked_for(asked: str, times: int) -> None:
    """Those of image, filters or both count; that of a bias is no product."""
    values = {4: "[2, 1]", 7: "False", 10: asked}
    dims = [[2, 8, 5, 7], IMAGE, FILTERS, *[[]] * 8]
    found = called("aten::convolution_backward", dims, values)
    assert found is not None
    assert (found.flops, found.bytes) == (times * 50_400, times * 2 * (756 + 360 + 560))


QUERY = [2, 10, 4, 16]
KEY = [2, 12, 4, 16]
VALUE = [2, 12, 4, 8]
"""Two batches, four heads, 10 tokens that attend to 12."""


def test_attention_is_two_products_and_five_for_its_gradients() -> None:
    """Operations equal those of `torch.utils.flop_counter`, in any order of heads and tokens."""
    forward = called("aten::_flash_attention_forward", [QUERY, KEY, VALUE, *[[]] * 6], {8: "False"})
    dims = [[2, 10, 4, 8], QUERY, KEY, VALUE, *[[]] * 8]
    backward = called("aten::_flash_attention_backward", dims, {11: "False"})
    by_heads = [[each[0], each[2], each[1], each[3]] for each in (QUERY, KEY, VALUE)]
    name = "aten::_scaled_dot_product_cudnn_attention"
    other = called(name, [*by_heads, *[[]] * 4], {6: "False"})

    assert forward is not None
    assert backward is not None
    assert other is not None
    assert forward.shape == "2 x 4 heads, 10 x 16 by 12"
    assert (forward.flops, backward.flops) == (46_080, 122_880)
    assert other[1:] == forward[1:]
    assert forward.bytes == 2 * (1280 + 1536 + 768 + 640)


def test_causal_attention_sees_each_pair_of_tokens_once() -> None:
    """A token attends to itself and earlier ones; pairs of other masks are unknown."""
    same = [[2, 10, 4, 16]] * 3
    whole, half = (
        called("aten::_efficient_attention_forward", [*same, *[[]] * 7], {9: kind}) for kind in "01"
    )
    assert whole is not None
    assert half is not None
    assert half.flops * 100 == whole.flops * 55
    unlike = called("aten::_efficient_attention_forward", [QUERY, KEY, VALUE, *[[]] * 7], {9: "1"})
    assert unlike is None


@pytest.mark.parametrize(
    ("name", "dims", "values"),
    [
        ("aten::cudnn_convolution", [IMAGE, FILTERS, [], [], []], {}),
        ("aten::cudnn_convolution", [IMAGE, FILTERS, [], [], []], {2: "[0]", 3: "[0]", 4: "[1]"}),
        ("aten::cudnn_convolution", [IMAGE, [8, 3, 30, 5], [], [], []], {2: "0", 3: "1", 4: "1"}),
        ("aten::convolution_backward", [[2, 8, 5, 7], IMAGE, FILTERS], {4: "1", 7: "True"}),
        ("aten::_flash_attention_forward", [QUERY, KEY, VALUE], {}),
        ("aten::_flash_attention_forward", [[20, 4, 16]] * 3, {8: "False"}),
        (
            "aten::_efficient_attention_forward",
            [[1, 20, 4, 16], [1, 20, 4, 16], [1, 20, 4, 16], [], [3], [3], *[[]] * 4],
            {9: "0"},
        ),
    ],
)
def test_incomplete_operation_has_no_product(name: str, dims: Any, values: dict[int, str]) -> None:
    """Covers no stride, an image smaller than its filter, transposed, no mask, packed sequences."""
    assert called(name, dims, values) is None


def products(trace: KinetoTrace, folder: Path) -> tuple[ProductUse, ...]:
    """Products of its only device."""
    (device,) = open_profile(trace.write(folder), ReadLimits()).devices
    return device.products


def test_calls_of_one_shape_are_one_product(tmp_path: Path) -> None:
    """A call may launch several kernels; other kernels of the trace do not count."""
    trace = KinetoTrace()
    number = 0
    for start, columns in ((0, 2), (100, 2), (200, 16)):
        shapes = arguments([[4, 8], [8, columns]], count=2)
        trace.complete("cpu_op", "aten::matmul", start, 40)
        trace.complete("cpu_op", "aten::mm", start + 1, 30, **shapes)
        for place in range(2):
            number += 1
            trace.launch(number, start + 2 + 5 * place, 3)
            trace.kernel("gemm", start + 10 + 20 * place, 10, correlation=number)
    trace.launch(99, 500, 3).kernel("other", 510, 70, correlation=99)
    first, second = products(trace, tmp_path)
    assert (first.name, first.shape, first.calls) == ("aten::mm", "4 x 8 by 8 x 2", 2)
    assert (first.seconds, first.flops) == (pytest.approx(40e-6), 256.0)
    assert (second.shape, second.calls, second.bytes) == ("4 x 8 by 8 x 16", 1, 448.0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=12))
def test_products_hold_no_more_than_the_kernels(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int]]
) -> None:
    """Times, calls and operations sum to those of their launches."""
    trace = KinetoTrace()
    number = 0
    for place, (rows, kernels) in enumerate(calls):
        shapes = arguments([[rows, 8], [8, 2]], count=2)
        trace.complete("cpu_op", "aten::mm", place * 100, 90, **shapes)
        for each in range(kernels):
            number += 1
            trace.launch(number, place * 100 + 1 + 5 * each, 2)
            trace.kernel("gemm", place * 100 + 5 + 10 * each, 7, correlation=number)
    found = products(trace.kernel("alone", 5000, 1), tmp_path_factory.mktemp("trace"))
    launching = [rows for rows, kernels in calls if kernels]
    assert sum(each.calls for each in found) == len(launching)
    assert sum(each.seconds for each in found) == pytest.approx(number * 7e-6)
    assert sum(each.flops for each in found) == sum(2 * rows * 16 for rows in launching)
