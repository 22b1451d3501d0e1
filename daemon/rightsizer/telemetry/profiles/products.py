"""Matrix products that a trace tells the shapes of: their arithmetic and least traffic."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

_FIRST: Final[Mapping[str, int]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::_scaled_mm", "aten::_int_mm"), 0),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm"), 1),
}
"""Place of the first factor among the arguments; the second follows."""
_FORMATS: Final[Mapping[str, tuple[str, int]]] = {
    "float": ("fp32", 4),
    "c10::BFloat16": ("bf16", 2),
    "c10::Half": ("fp16", 2),
    "signed char": ("int8", 1),
    **{f"c10::Float8_{kind}": ("fp8", 1) for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
}
"""Names of catalogued peaks, and bytes of an element."""
_FACTORS: Final = 2
_PLAIN: Final = 2
_BATCHED: Final = 3
_LONGEST: Final = 2**31


class MatrixProduct(NamedTuple):
    """One call's."""

    name: str
    shape: str
    number_format: str
    flops: int
    bytes: int
    """Of both factors and the result, each moved once."""


def matrix_product(name: str, arguments: Mapping[str, Any]) -> MatrixProduct | None:
    """What an operator multiplies; `None` where it does not, or the trace has no shapes of it."""
    if (place := _FIRST.get(name)) is None:
        return None
    shapes, types = (arguments.get(key) for key in ("Input Dims", "Input type"))
    if not isinstance(shapes, list) or not isinstance(types, list):
        return None
    if min(len(shapes), len(types)) < place + _FACTORS:
        return None
    left, right = map(_sizes, shapes[place : place + _FACTORS])
    known = _FORMATS.get(str(types[place]))
    if known is None or not left or len(left) != len(right) or left[-1] != right[-2]:
        return None
    number_format, size = known
    (rows, inner), columns = left[-2:], right[-1]
    times = left[0] if len(left) == _BATCHED else 1
    moved = times * (rows * inner + inner * columns + rows * columns) * size
    several = f"{times} of " if len(left) == _BATCHED else ""
    shape = f"{several}{rows} x {inner} by {inner} x {columns}"
    return MatrixProduct(name, shape, number_format, 2 * times * rows * inner * columns, moved)


def _sizes(shape: Any) -> Sequence[int]:
    """Of a matrix or a batch of them; empty where it is neither."""
    if not isinstance(shape, list) or len(shape) not in {_PLAIN, _BATCHED}:
        return ()
    fits = all(type(each) is int and 0 < each < _LONGEST for each in shape)
    return shape if fits else ()
