"""Matrix products with recorded shapes: operations, traffic, calls and device time."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.profile import ProductUse
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.products import matrix_product
from rightsizer.telemetry.profiles.registry import open_profile

BF16 = "c10::BFloat16"


def arguments(dims: Any, kind: str = BF16, count: int = 3) -> dict[str, Any]:
    """As PyTorch writes them with `record_shapes`."""
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
def test_a_product_is_told_by_its_shapes(  # noqa: PLR0913, PLR0917 - a row of the table.
    name: str, dims: Any, kind: str, shape: str, flops: int, moved: int
) -> None:
    """Two operations for each pair of numbers; each matrix is moved once."""
    found = matrix_product(name, arguments(dims, kind, 4))
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
def test_what_is_no_product_is_none(dims: Any) -> None:
    """Missing, unlike, empty and absurd shapes."""
    assert matrix_product("aten::mm", arguments(dims)) is None
    assert matrix_product("aten::relu", arguments([[4, 8], [8, 2]])) is None
    assert matrix_product("aten::mm", arguments([[4, 8], [8, 2]], "double")) is None


def products(trace: KinetoTrace, folder: Path) -> tuple[ProductUse, ...]:
    """Of its only device."""
    (device,) = open_profile(trace.write(folder), ReadLimits()).devices
    return device.products


def test_calls_of_one_shape_are_one_product(tmp_path: Path) -> None:
    """A call may launch several kernels; others of the trace are none of it."""
    trace, number = KinetoTrace(), 0
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
    """Their times, calls and operations sum to what was launched in them."""
    trace, number = KinetoTrace(), 0
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
