"""Measured kernels of experts in the catalogue."""

import math

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.expert_kernels import ExpertShape, expert_kernels

DEEPSEEK = ExpertShape(7168, 2048, 8, 256)
H200 = built_in().boards["H200-SXM-141GB"]


def test_engines_formats_and_boards_have_kernels_of_their_own() -> None:
    """Boards share those of their compute capability; without cells there are none."""
    board = built_in().boards
    h20 = expert_kernels("sglang", "fp8", board["H20"], DEEPSEEK, 8)

    assert h20 == expert_kernels("sglang", "fp8", H200, DEEPSEEK, 8)
    assert h20 != expert_kernels("vllm", "fp8", H200, DEEPSEEK, 8)
    assert h20 != expert_kernels("sglang", "bf16", H200, DEEPSEEK, 8)
    assert expert_kernels("sglang", "nvfp4", H200, DEEPSEEK, 8) is None
    assert expert_kernels("sglang", "bf16", board["MI300X"], DEEPSEEK, 8) is None
    assert expert_kernels("sglang", "bf16", board["T4"], DEEPSEEK, 8) is None


def test_models_that_were_measured_have_deviations_of_their_own() -> None:
    """Others have the factors of all shapes."""
    measured = expert_kernels("sglang", "fp8", H200, DEEPSEEK, 8)
    other = expert_kernels("sglang", "fp8", H200, DEEPSEEK._replace(experts=255), 8)

    assert measured is not None
    assert other is not None
    assert measured.is_shape_measured
    assert not other.is_shape_measured
    assert measured.factors == other.factors
    assert measured.factor(1e-4, 2.0, 64) != other.factor(1e-4, 2.0, 64)


@pytest.mark.parametrize("rows", [1e-3, 1.0, 3.9, 4.1, 100.0, 8192.0, 1e9])
@pytest.mark.parametrize("read_seconds", [1e-9, 1e-6, 9e-6, 1e-3, 1.0])
def test_factors_are_continuous_and_held_beyond_the_table(rows: float, read_seconds: float) -> None:
    """A hundredth more of anything changes the time by a few hundredths at most."""
    kernels = expert_kernels("tensorrt-llm", "nvfp4", built_in().boards["B200"], DEEPSEEK, 4)
    assert kernels is not None
    factor = kernels.factor(read_seconds, rows, 64)

    for near in (
        kernels.factor(1.01 * read_seconds, rows, 64),
        kernels.factor(read_seconds, 1.01 * rows, 64),
        kernels.factor(read_seconds, rows, 64.64),
    ):
        assert abs(math.log(near / factor)) < 0.03
    held = kernels.factor(min(max(read_seconds, 1e-6), 4096e-6), min(max(rows, 1), 8192), 64)
    assert factor == pytest.approx(held)
