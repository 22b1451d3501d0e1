"""Attention that is not fused, by the order of kernels."""

import pytest

from profiles_built import device, kernel, profile, time_use
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.profile import AttentionUse, KernelFamily
from rightsizer.profiler.rules import attention_unfused
from rightsizer.profiles.attention import unfused_attention

PRODUCT = KernelFamily.MATRIX_PRODUCT
SOFTMAX = KernelFamily.SOFTMAX
SCALE = KernelFamily.ELEMENTWISE
SORT = KernelFamily.OTHER


def _found(*families: KernelFamily, streams: tuple[int, ...] = ()) -> AttentionUse | None:
    """Of kernels of 10, 20, 30, ... ns."""
    places = streams or (0,) * len(families)
    runs = [(places[number], number, 10 * (number + 1)) for number in range(len(families))]
    return unfused_attention(runs, families)


def test_a_softmax_between_two_products_is_attention() -> None:
    """With what scales and masks the scores."""
    found = _found(PRODUCT, SCALE, SOFTMAX, SCALE, PRODUCT)
    assert found == AttentionUse(1, 90e-9, 60e-9)


def test_layers_in_a_row_count_each() -> None:
    """The product that ends one begins nothing that it is not part of."""
    found = _found(PRODUCT, SOFTMAX, PRODUCT, SCALE, PRODUCT, SOFTMAX, PRODUCT)
    assert found is not None
    assert found.passes == 2
    assert found.score_seconds == pytest.approx(80e-9)
    assert found.product_seconds == pytest.approx((10 + 30 + 50 + 70) * 1e-9)


@pytest.mark.parametrize(
    "families",
    [
        # A router picks experts by sorting.
        (PRODUCT, SOFTMAX, SORT, PRODUCT),
        # A loss ends with it.
        (PRODUCT, SOFTMAX, KernelFamily.REDUCTION, PRODUCT),
        (PRODUCT, SCALE, PRODUCT),
        (SOFTMAX, PRODUCT),
        (KernelFamily.ATTENTION,),
        (),
    ],
)
def test_other_softmaxes_are_none(families: tuple[KernelFamily, ...]) -> None:
    """A softmax alone is not attention."""
    assert _found(*families) is None


def test_streams_are_apart() -> None:
    """The order is that of one stream."""
    families = (PRODUCT, PRODUCT, SOFTMAX, PRODUCT)
    assert _found(*families, streams=(0, 1, 1, 0)) is None
    assert _found(*families, streams=(0, 1, 1, 1)) is not None


def test_graphs_as_wholes_are_no_kernels() -> None:
    """Their number is none."""
    assert unfused_attention([(0, -1, 10), (0, 0, 10)], [PRODUCT]) is None


def test_attention_worth_fusing_is_found() -> None:
    """A part of the time between the products at least, most of all at most."""
    kernels = (kernel("gemm", 1000, 0.7), kernel("softmax", 100, 0.3))
    found = device(kernels=kernels, time=time_use(1.0, 0.0), attention=AttentionUse(50, 0.3, 0.1))
    finding = attention_unfused.RULE.judge([profile(found)])

    assert finding.reasons == (Reason.MEMORY_BANDWIDTH_BOUND,)
    assert finding.action is Action.FUSE_KERNELS
    assert "40.0% of the time, 50 times" in finding.summary
    assert finding.evidence["saved_ratio_low"] == pytest.approx(0.15)
    assert finding.evidence["saved_ratio_high"] == pytest.approx(0.348)
    assert "scaled_dot_product_attention" in finding.instructions[0].text


def test_fused_attention_has_nothing_to_gain() -> None:
    """No softmax between two products."""
    finding = attention_unfused.RULE.judge([profile(device())])
    assert finding.kind is FindingKind.OPTIMIZED
