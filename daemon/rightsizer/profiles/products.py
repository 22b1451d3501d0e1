"""Tensor products with known shapes: arithmetic and minimum memory traffic."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

_FORMATS: Final[Mapping[str, tuple[str, int]]] = {
    "float": ("fp32", 4),
    "c10::BFloat16": ("bf16", 2),
    "c10::Half": ("fp16", 2),
    "signed char": ("int8", 1),
    **{f"c10::Float8_{kind}": ("fp8", 1) for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
}
"""Names of the catalogue's peaks, and bytes per element."""
_MATRIX: Final = 2
_BATCH: Final = 3
_ATTENTION: Final = 4
_IMAGES: Final = range(3, 6)
"""Dimensions: batch, channels, and one to three spatial ones."""
_LONGEST: Final = 2**31
_CAUSAL: Final = {"False": False, "0": False, "True": True, "1": True, "2": True}
"""A flag, or the mask kind of memory-efficient attention."""


class TensorProduct(NamedTuple):
    """Product of one call: matrices, convolution or attention."""

    name: str
    shape: str
    number_format: str
    flops: int
    bytes: int
    """Of all factors and results, each moved once."""


class _Work(NamedTuple):
    shape: str
    flops: int
    elements: int


class _Arguments:
    """Arguments of an operator, as PyTorch writes them with `record_shapes`."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        keys = ("Input Dims", "Input type", "Concrete Inputs")
        lists = (arguments.get(key) for key in keys)
        self._sizes, self._types, self._values = (
            listed if isinstance(listed, list) else [] for listed in lists
        )

    def sizes(self, place: int, dimensions: Sequence[int]) -> Sequence[int]:
        """Return the sizes of a tensor with an allowed number of dimensions; empty otherwise."""
        sizes = self._sizes[place] if 0 <= place < len(self._sizes) else None
        if not isinstance(sizes, list) or len(sizes) not in dimensions:
            return ()
        return sizes if all(type(size) is int and 0 < size < _LONGEST for size in sizes) else ()

    def number_format(self, place: int) -> tuple[str, int] | None:
        """Return name and bytes of a tensor's format; `None` if not in the catalogue."""
        return _FORMATS.get(str(self._types[place])) if place < len(self._types) else None

    def value(self, place: int) -> str:
        """Return a non-tensor argument; empty if the trace lacks it."""
        return str(self._values[place]) if place < len(self._values) else ""

    def numbers(self, place: int, count: int) -> Sequence[int]:
        """Return a list of `count` numbers, of which a single one stands for all; else empty."""
        words = self.value(place).strip("[]").replace(" ", "").split(",")
        if not all(word.isdigit() for word in words) or len(words) not in {1, count}:
            return ()
        return [int(word) for word in words] * (count // len(words))


def is_product(name: str) -> bool:
    """Whether an operator computes a product."""
    return name in _OPERATORS


def tensor_product(name: str, arguments: Mapping[str, Any]) -> TensorProduct | None:
    """Return the product of an operator; `None` if it computes none or shapes are missing."""
    if (operator := _OPERATORS.get(name)) is None:
        return None
    place, work_of = operator
    operands = _Arguments(arguments)
    number_format = operands.number_format(place)
    work = work_of(operands)
    if number_format is None or work is None:
        return None
    return TensorProduct(
        name, work.shape, number_format[0], work.flops, work.elements * number_format[1]
    )


def _matrices(operands: _Arguments, *, first: int) -> _Work | None:
    """Return the work of two matrices, or two batches of them."""
    left, right = (operands.sizes(first + side, (_MATRIX, _BATCH)) for side in range(2))
    if not left or len(left) != len(right) or left[-1] != right[-2]:
        return None
    (rows, inner), columns = left[-2:], right[-1]
    times = left[0] if len(left) == _BATCH else 1
    several = f"{times} of " if len(left) == _BATCH else ""
    return _Work(
        f"{several}{rows} x {inner} by {inner} x {columns}",
        2 * times * rows * inner * columns,
        times * (rows * inner + inner * columns + rows * columns),
    )


def _convolution(operands: _Arguments, *, stride: int, padding: int, dilation: int) -> _Work | None:
    """Return the work of a convolution; the arguments are places of its parameters."""
    image = operands.sizes(0, _IMAGES)
    weight = operands.sizes(1, _IMAGES)
    places = stride, padding, dilation
    steps, margins, gaps = (operands.numbers(place, len(image) - 2) for place in places)
    if len(image) != len(weight) or not (steps and margins and gaps) or 0 in steps:
        return None
    space = [
        (size + 2 * margin - gap * (width - 1) - 1) // step + 1
        for size, width, step, margin, gap in zip(
            image[2:], weight[2:], steps, margins, gaps, strict=True
        )
    ]
    return _convolved(image, weight, (image[0], weight[0], *space), steps)


def _convolution_gradients(operands: _Arguments) -> _Work | None:
    """Return the work of `convolution_backward`: requested gradients of image and filters."""
    result, image, weight = (operands.sizes(place, _IMAGES) for place in range(3))
    asked = operands.value(10).strip("[]").replace(" ", "").split(",")[:2].count("True")
    steps = operands.numbers(4, len(image) - 2)
    if not len(result) == len(image) == len(weight) or not steps or operands.value(7) != "False":
        return None
    once = _convolved(image, weight, result, steps) if asked else None
    return once and _Work(once.shape, asked * once.flops, asked * once.elements)


def _convolved(
    image: Sequence[int], weight: Sequence[int], result: Sequence[int], steps: Sequence[int]
) -> _Work | None:
    if min(result, default=0) < 1:
        return None
    stride = f", stride {_times(steps)}" if max(steps) > 1 else ""
    return _Work(
        f"{_times(image)} by {_times(weight)}{stride}",
        2 * prod(result) * prod(weight[1:]),
        prod(image) + prod(weight) + prod(result),
    )


def _attention(
    operands: _Arguments,
    *,
    causal: int,
    packed: int = -1,
    heads: int = 2,
    is_gradient: bool = False,
) -> _Work | None:
    """Return the work of fused attention: two products per token pair, five for gradients.

    Args:
        operands: The operator's arguments.
        causal: Place of the mask's flag.
        packed: Place of sequence ends in packed rows, whose lengths no shape tells.
        heads: Dimension of the heads, 1 or 2; the other one is that of the tokens.
        is_gradient: The first argument is the result's gradient; scores are recomputed.
    """
    place = int(is_gradient)
    query, key, value = (operands.sizes(place + offset, (_ATTENTION,)) for offset in range(3))
    mask = _CAUSAL.get(operands.value(causal))
    if not (query and key and value) or mask is None or operands.sizes(packed, (1,)):
        return None
    batch = query[0]
    count = query[heads]
    width = query[3]
    tokens = query[3 - heads]
    seen = key[3 - heads]
    if mask and tokens != seen:
        return None
    pairs = tokens * (tokens + 1) // 2 if mask else tokens * seen
    products = 3 * width + 2 * value[3] if is_gradient else width + value[3]
    moved = prod(query) + prod(key) + prod(value) + batch * count * tokens * value[3]
    return _Work(
        f"{batch} x {count} heads, {tokens} x {width} by {seen}{', causal' if mask else ''}",
        2 * batch * count * pairs * products,
        moved * (2 if is_gradient else 1),
    )


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


_OPERATORS: Final[Mapping[str, tuple[int, Callable[[_Arguments], _Work | None]]]] = {
    **{
        f"aten::{name}": (first, partial(_matrices, first=first))
        for name, first in (
            ("mm", 0),
            ("bmm", 0),
            ("_scaled_mm", 0),
            ("_int_mm", 0),
            ("addmm", 1),
            ("baddbmm", 1),
        )
    },
    **{
        f"aten::{name}": (0, partial(_convolution, stride=stride, padding=padding, dilation=last))
        for name, padding, stride, last in (
            ("cudnn_convolution", 2, 3, 4),
            ("cudnn_convolution_relu", 4, 3, 5),
            ("cudnn_convolution_add_relu", 6, 5, 7),
            ("miopen_convolution", 3, 4, 5),
            ("miopen_convolution_relu", 4, 3, 5),
            ("miopen_convolution_add_relu", 6, 5, 7),
        )
    },
    "aten::convolution_backward": (1, _convolution_gradients),
    **{
        name: (0, partial(_attention, causal=causal, packed=packed, heads=heads))
        for name, causal, packed, heads in (
            ("aten::_flash_attention_forward", 8, 3, 2),
            ("aten::_efficient_attention_forward", 9, 4, 2),
            ("aten::_scaled_dot_product_cudnn_attention", 6, -1, 1),
            ("flash_attn::_flash_attn_forward", 5, -1, 2),
        )
    },
    **{
        name: (
            1,
            partial(_attention, causal=causal, packed=packed, heads=heads, is_gradient=True),
        )
        for name, causal, packed, heads in (
            ("aten::_flash_attention_backward", 11, 6, 2),
            ("aten::_efficient_attention_backward", 14, 6, 2),
            ("aten::_scaled_dot_product_cudnn_attention_backward", 14, 9, 1),
            ("flash_attn::_flash_attn_backward", 11, -1, 2),
        )
    },
}
"""Operators that launch kernels: the place of a factor, and the function that computes work.

Places follow the operators' published signatures (PyTorch's native_functions.yaml 2.13,
flash-attn 2.8).
"""
