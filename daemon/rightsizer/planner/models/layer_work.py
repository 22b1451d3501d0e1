"""Work of a denoiser's layers: parameters and FLOPs of one step, counted together."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct


class LayerWork(Struct, frozen=True):
    """Parameters, and FLOPs per image; two per multiply-add."""

    parameters: float = 0.0
    flops: float = 0.0

    def __add__(self, other: "LayerWork") -> "LayerWork":
        return LayerWork(self.parameters + other.parameters, self.flops + other.flops)

    def __mul__(self, times: int) -> "LayerWork":
        return LayerWork(self.parameters * times, self.flops * times)


def linear(inputs: int, outputs: int, rows: int = 1, *, bias: bool = True) -> LayerWork:
    """Matrix multiplied with this many rows."""
    return LayerWork(inputs * outputs + (outputs if bias else 0), 2.0 * inputs * outputs * rows)


def convolution(inputs: int, outputs: int, kernel: int, positions: int) -> LayerWork:
    """Square kernel over this many output positions."""
    return linear(inputs * kernel**2, outputs, positions)


def depthwise(channels: int, kernel: int, positions: int) -> LayerWork:
    """Square kernel for each channel separately."""
    return LayerWork(channels * (kernel**2 + 1), 2.0 * channels * kernel**2 * positions)


def vectors(*widths: int) -> LayerWork:
    """Norms, biases and tables, without FLOPs."""
    return LayerWork(float(sum(widths)))


def attention(queries: int, keys: int, width: int) -> LayerWork:
    """Scores and weighted sums of values, over all heads; no parameters."""
    return LayerWork(0.0, 4.0 * queries * keys * width)


def self_attention(width: int, rows: int, *, bias: bool = True) -> LayerWork:
    """Including projections; `bias` of queries, keys and values."""
    projections = linear(width, width, rows, bias=bias) * 3 + linear(width, width, rows)
    return projections + attention(rows, rows, width)


def cross_attention(width: int, rows: int, read: int, text: int, *, bias: bool = True) -> LayerWork:
    """From an image to a text of another width, including projections."""
    layer_work = linear(width, width, rows, bias=bias) + linear(width, width, rows)
    return layer_work + linear(read, width, text, bias=bias) * 2 + attention(rows, text, width)


def embedding(inputs: int, width: int, outputs: int = 0, rows: int = 1) -> LayerWork:
    """Two matrices with an activation between, for a time, a size or a text."""
    return linear(inputs, width, rows) + linear(width, outputs or width, rows)


def feed_forward(width: int, inner: int, rows: int) -> LayerWork:
    """Two matrices with biases."""
    return linear(width, inner, rows) + linear(inner, width, rows)


def gated_feed_forward(width: int, inner: int, rows: int, *, bias: bool = False) -> LayerWork:
    """Three matrices, two of them parallel."""
    return linear(width, 2 * inner, rows, bias=bias) + linear(inner, width, rows, bias=bias)


def added(works: Iterable[LayerWork]) -> LayerWork:
    """Return the work of all."""
    return sum(works, LayerWork())


WORKS: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        added,
        attention,
        convolution,
        cross_attention,
        depthwise,
        embedding,
        feed_forward,
        gated_feed_forward,
        linear,
        self_attention,
        vectors,
    )
}
"""Functions of formulas."""
