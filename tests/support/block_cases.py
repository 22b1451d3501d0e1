"""Cases with windows of five-minute blocks and a past that remembers them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from cases import NOW, case, window
from rightsizer.accounting.accounts_snapshot import CaseHistory, LoadHistory
from rightsizer.accounting.rings import ClosedWindows, StoredBlocks
from rightsizer.accounting.rollup_store import WindowQuery
from rightsizer.accounting.settings import LoadPatternSettings
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Node
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window
from rightsizer.model.workload import Workload

BLOCKS_A_DAY: Final = 288
Course = Callable[[int], Mapping[Measure, float] | None]
"""Activity of a device by number of five-minute block since midnight; `None` if unknown."""


def start_of(number: int, count: int) -> Nanoseconds:
    """Start of a numbered block, out of a number that ends now, at midnight."""
    return NOW - (count - number) * BLOCK_SPAN


def blocks_of(course: Course, days: float, peak_ratio: float = 1.0) -> Blocks:
    """The blocks of some days; peaks are a multiple of the means."""
    count = round(days * BLOCKS_A_DAY)
    parts = []
    for number in range(count):
        values = course(number)
        if values is not None:
            peaks = {measure: value * peak_ratio for measure, value in values.items()}
            parts.append(Blocks.of_one(start_of(number, count), 300.0, values, peaks))
    return Blocks.joined(parts)


def summed(parts: Sequence[Blocks]) -> Blocks:
    """The sum of the devices, where all of them are known."""
    found = []
    by_device = [
        {measure: {block.start: block for block in part.each(measure)} for measure in Measure}
        for part in parts
    ]
    starts = sorted({start for device in by_device for start in device[Measure.BUSY]})
    measures = [measure for measure in Measure if all(device[measure] for device in by_device)]
    for start in starts:
        means = {}
        peaks = {}
        for measure in measures:
            here = [device[measure][start] for device in by_device if start in device[measure]]
            if len(here) == len(parts):
                means[measure] = sum(block.mean for block in here)
                peaks[measure] = sum(block.peak for block in here)
        if means:
            found.append(Blocks.of_one(start, 300.0, means, peaks))
    return Blocks.joined(found)


def case_of(  # noqa: PLR0913 - one for each thing that a test may vary.
    courses: Sequence[Course],
    days: float,
    workload: Workload | None = None,
    *,
    devices: Sequence[Device] | None = None,
    windows: Sequence[Window] | None = None,
    node: Node | None = None,
    peak_ratio: float = 1.0,
) -> Case:
    """A workload with devices that follow a course for some days until now, at midnight."""
    blocks = [blocks_of(course, days, peak_ratio) for course in courses]
    usual = [window({State.PRODUCTIVE: 24.0 * days})] * len(courses)
    given = [
        replace(each, blocks=part) for each, part in zip(windows or usual, blocks, strict=True)
    ]
    found = case(given, workload, devices)
    return replace(found, past=past_of(found.key, summed(blocks)), node=node)


def past_of(key: str, blocks: Blocks) -> CaseHistory:
    """A past with blocks and without windows."""
    empty = ClosedWindows((), ())
    window_query = WindowQuery(
        uuid=f"workload:{key}",
        fine=empty,
        hours=empty,
        days=empty,
        open_fine=None,
        open_hour=None,
        open_day=None,
        fine_since=0,
        stored_blocks=StoredBlocks((), blocks),
    )
    return CaseHistory(LoadHistory(window_query, 0, NOW, LoadPatternSettings()), 0, NOW)


def busy(mean: float, **others: float) -> dict[Measure, float]:
    """A mean busy share, with other measures by their names."""
    return {Measure.BUSY: mean} | {Measure(name): value for name, value in others.items()}


def at_hours(first: int, last: int, there: float, else_: float = 0.0, **others: float) -> Course:
    """Busy between two hours of the day (UTC), and less otherwise."""

    def course(number: int) -> dict[Measure, float]:
        hour = number % BLOCKS_A_DAY // 12
        return busy(there if first <= hour < last else else_, **others)

    return course


def steady(mean: float, **others: float) -> Course:
    """Constant."""
    return lambda _: busy(mean, **others)
