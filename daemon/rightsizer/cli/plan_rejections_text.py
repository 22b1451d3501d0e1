"""Why the other kinds of GPU of a plan are no candidates, for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.cli.counted import counted
from rightsizer.cli.wrapped import wrapped
from rightsizer.sizing.candidates import Candidate, Filter

__all__ = ["LACKS", "rejection_lines"]

_NAMED: Final = 8
LACKS: Final = {
    Filter.LAYOUT: "links are too few",
    Filter.MEMORY: "memory is too small",
    Filter.COMPUTE: "compute is too slow",
    Filter.BANDWIDTH: "memory bandwidth is too low",
    Filter.THROUGHPUT: "throughput is too low",
}


def rejection_lines(candidates: Sequence[Candidate], *, shows_all: bool) -> Iterator[str]:
    """All that do not fit, by the filter that each failed first; the nearest first.

    Args:
        candidates: Of a plan, in its order.
        shows_all: A line for each, not only the nearest of each filter.
    """
    rejected = [each for each in candidates if not each.fits]
    if not rejected:
        return
    yield f"rejected, {len(rejected)} of {counted(len(candidates), 'kind', 'kinds')} of GPU:"
    for by in Filter:
        found = [each for each in rejected if each.rejections[0].by is by]
        if not found:
            continue
        yield f"  {LACKS[by]} on {len(found)}:"
        shown = found if shows_all else found[:1]
        for each in shown:
            reasons = "; ".join(map(str, each.rejections))
            yield from wrapped(f"{each.count} x {each.gpu}: {reasons}", indent=4)
        rest = [each.gpu for each in found[len(shown) :]]
        if rest:
            more = f", and {len(rest) - _NAMED} more (--all)" if len(rest) > _NAMED else ""
            yield from wrapped(f"also {', '.join(rest[:_NAMED])}{more}", indent=4)
