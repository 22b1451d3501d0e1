"""Charts of the profile page, from its JSON."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.model.values import percent_text
from rightsizer.profiler.figures import (
    CAUSES,
    ProfileDocument,
    idle_parts,
    short_text,
    size_text,
    time_text,
)
from rightsizer.report.charts import (
    ChartColumn,
    ChartFrame,
    ChartLane,
    ChartPoint,
    ChartRoof,
    flame,
    lanes,
    rate_text,
    roofline,
    stacked_columns,
)

COLORS: Final = {
    "compute": "working",
    "collective": "held",
    "copy": "waiting",
    "host_wait": "stalled",
    "kernel_wait": "free",
    "other_idle": "no_data",
}
"""CSS classes with light and dark variants."""
_WORDS: Final = {COLORS[part]: words for part, words in CAUSES.items()}
_LANES: Final = {
    "compute": ("kernels", "working"),
    "collective": ("collectives", "held"),
    "copy": ("copies", "waiting"),
    "loader_wait": ("waits for the loader", "stalled"),
    "host_wait": ("waits for the host", "stalled"),
    "other_idle": ("idle otherwise", "no_data"),
}
"""Label and color of each lane, from the top."""
_RANK_LANES: Final = {
    "compute": ("kernels", "working"),
    "collective": ("collectives", "held"),
    "loader_wait": ("loader", "stalled"),
    "host_wait": ("host", "stalled"),
}
"""Lanes of each of several ranks: the last two are waits for them."""
_RANK_MOMENTS: Final = 1000
_TIMES: Final = 4
_MOST_FRAMES: Final = 1000
"""Limit of a page."""
_FEWEST_FRAMES: Final = 20
_SMALLEST_FRAME: Final = 0.002
_MOST_ROWS: Final = 30
_LONGEST_FRAME: Final = 80
_MOST_NAMES: Final = 6
_MOST_POINTS: Final = 60
_PEAKS_OF: Final = {"fp32": ("fp32", "tf32"), "fp16": ("bf16",)}
"""Other names of a format's peak: fp16 and bf16 have the same."""


def colored(time: ProfileDocument | None) -> dict[str, float]:
    """Return the parts of a time by the CSS class of their color."""
    parts = {} if time is None else idle_parts(time)
    return {COLORS[part]: value for part, value in parts.items()}


def timeline(name: str, document: ProfileDocument) -> str:
    """Render the timeline of a device."""
    shown_lanes = {lane: document["lanes"][lane] for lane in _LANES if lane in document["lanes"]}
    rows = [ChartLane(*_LANES[lane], shares=row) for lane, row in shown_lanes.items()]
    rows += [ChartLane(stream, "working", row) for stream, row in document["streams"].items()]
    rows += [
        ChartLane(f"host, {thread}", "held", row) for thread, row in document["threads"].items()
    ]
    if peak_bytes := max(filter(None, document["memory_bytes"]), default=0):
        shares = [(size or 0) / peak_bytes for size in document["memory_bytes"]]
        rows.append(
            ChartLane(f"memory of {size_text(peak_bytes)}", "waiting", shares, is_curve=True)
        )
    if not (count := max((len(row.shares) for row in rows), default=0)):
        return ""
    moment = document["moment_seconds"]
    ends = [time_text(count * moment * place / _TIMES) for place in range(_TIMES + 1)]
    description = f"What went on in each of {count:,} moments of {time_text(moment)}."
    return lanes(f"Timeline of {name}", description, rows, ends, moment)


def ranks_chart(named: Sequence[tuple[str, ProfileDocument]], offsets: Mapping[str, float]) -> str:
    """Render kernels, collectives and waits of ranks below each other, on the first one's clock.

    Args:
        named: Label of each rank, such as `rank 1 +6`, with its device.
        offsets: By how much the clock of each is ahead, by the same labels.
    """
    spans = []
    for name, device in named:
        drawn = device["timeline"]
        start = drawn["start_seconds"] - offsets[name]
        count = len(next(iter(drawn["lanes"].values()), ()))
        spans.append((start, start + count * drawn["moment_seconds"]))
    first = min(start for start, _ in spans)
    moment = (max(end for _, end in spans) - first) / _RANK_MOMENTS
    rows = [
        ChartLane(
            f"{name}, {words}",
            color,
            _moved(device["timeline"], lane, (start - first) / moment, moment),
        )
        for (name, device), (start, _) in zip(named, spans, strict=True)
        for lane, (words, color) in _RANK_LANES.items()
    ]
    ends = [time_text(_RANK_MOMENTS * moment * place / _TIMES) for place in range(_TIMES + 1)]
    description = "A collective ends on all ranks at once: who is in it shortest has come last."
    return lanes("All ranks on one clock", description, rows, ends, moment)


def _moved(
    drawn: ProfileDocument, lane: str, start_moments: float, moment_seconds: float
) -> list[float]:
    """Return the shares of a lane in moments of another length, that begin earlier."""
    moved = [0.0] * _RANK_MOMENTS
    length = drawn["moment_seconds"] / moment_seconds
    for place, share in enumerate(drawn["lanes"].get(lane, ())):
        at = start_moments + place * length
        end = at + length
        while share and at < min(end, _RANK_MOMENTS):
            cell = int(at)
            upto = min(end, cell + 1.0)
            moved[cell] += share * (upto - at)
            at = upto
    return [min(1.0, share) for share in moved]


def steps_chart(name: str, steps: Sequence[ProfileDocument]) -> str:
    """Render where the time of each step went."""
    columns = []
    for step in steps:
        parts = colored(step["time"])
        whole = sum(parts.values())
        description = ", ".join(
            f"{_WORDS[part]} {percent_text(value / whole)}"
            for part, value in parts.items()
            if value
        )
        tip = f"{step['name']}, {time_text(step['seconds'])}: {description}"
        columns.append(ChartColumn(step["name"].rpartition("#")[2][:12], parts, tip))
    return stacked_columns(f"Steps of {name}", "Where the time of each step goes.", columns)


def flame_chart(name: str, frames: Sequence[ProfileDocument], count: int) -> str:
    """Render one of `count` flame charts; chains of single frames show only the innermost."""
    within: defaultdict[int | None, list[int]] = defaultdict(list)
    for place, frame in enumerate(frames):
        within[frame["parent"]].append(place)
    if not (whole := sum(frames[place]["seconds"] for place in within[None])):
        return ""
    runs = sum(frames[place]["kernels"] for place in within[None])
    boxes = [ChartFrame("all kernels", f"All {runs:,} kernels: {time_text(whole)}", 0, 0.0, 1.0)]
    ranked = sorted(range(len(frames)), key=lambda place: -frames[place]["seconds"])
    shown = set(ranked[: max(_FEWEST_FRAMES, _MOST_FRAMES // count)])
    waiting: list[tuple[int | None, int, float]] = [(None, 0, 0.0)]
    while waiting:
        around, row, start = waiting.pop()
        if around is not None:
            chain = [around]
            while len(within[chain[-1]]) == 1 and not frames[chain[-1]]["self_seconds"]:
                chain += within[chain[-1]]
            share = frames[chain[0]]["seconds"] / whole
            around = chain[-1]
            held = [frames[place] for place in chain]
            label = _frame_names(held[-2:])
            tip = _frame_tip(held, share)
            boxes.append(ChartFrame(label, tip, row, start, share))
        inner = []
        for place in within[around] if row < _MOST_ROWS else ():
            share = frames[place]["seconds"] / whole
            if place in shown and share >= _SMALLEST_FRAME:
                inner.append((place, row + 1, start))
            start += share
        waiting += reversed(inner)
    return flame(f"Device time of {name} by what launched it", boxes)


def _frame_tip(chain: Sequence[ProfileDocument], share: float) -> str:
    frame = chain[-1]
    self_text = (
        f", of that {time_text(frame['self_seconds'])} itself" if frame["self_seconds"] else ""
    )
    calls = f" in {frame['calls']:,} calls" if frame["calls"] else ""
    runs = f"{frame['kernels']:,} kernels{calls}"
    names = _frame_names(chain[-_MOST_NAMES:])
    return f"{names}: {time_text(frame['seconds'])}, {share:.1%}{self_text}; {runs}"


def _frame_names(chain: Sequence[ProfileDocument]) -> str:
    return " > ".join(short_text(frame["name"], _LONGEST_FRAME) for frame in chain)


class RooflinePoint(Struct, frozen=True):
    """A product or kernel with known operations, below its roof."""

    name: str
    number_format: str
    calls: int
    seconds: float
    rate: float
    intensity: float
    roof: ChartRoof

    @property
    def reached(self) -> float:
        """Rate relative to the board's maximum."""
        return self.rate / min(self.roof.peak, self.intensity * self.roof.bandwidth)

    def row(self) -> Sequence[str]:
        """Return its table row."""
        time = f"{self.calls:,}", time_text(self.seconds)
        speed = rate_text(self.rate), f"{self.intensity:,.3g}", percent_text(self.reached)
        return (short_text(self.name, _LONGEST_FRAME), self.number_format, *time, *speed)


def roofline_points(device: ProfileDocument) -> list[RooflinePoint]:
    """Return the longest products, or counted kernels; empty without a roof."""
    if (roof := device["roof"]) is None:
        return []
    points = [
        (
            f"{product['name']} {product['shape']}",
            product["number_format"],
            product["calls"],
            product["seconds"],
            product["flops"] / product["seconds"],
            product["flops"] / product["bytes"],
        )
        for product in device["products"]
        if product["seconds"]
    ] or [
        (
            kernel["name"],
            "bf16" if kernel["uses_tensor_cores"] else "fp32",
            kernel["count"],
            kernel["seconds"],
            kernel["flops_per_second"],
            kernel["flops_per_second"] / kernel["dram_bytes_per_second"],
        )
        for kernel in device["kernels"]
        if kernel["flops_per_second"] and kernel["dram_bytes_per_second"]
    ]
    least = _SMALLEST_FRAME * sum(point[3] for point in points)
    return [
        RooflinePoint(*point, over)
        for point in points[:_MOST_POINTS]
        if point[3] >= least and (over := _roof_over(roof, point[1], point[4])) is not None
    ]


def _roof_over(roof: ProfileDocument, number_format: str, rate: float) -> ChartRoof | None:
    """Return a format's roof; fast 32-bit rates mean tensor cores."""
    peaks = roof["flops_per_second"]
    names = _PEAKS_OF.get(number_format, (number_format,))
    if not (format_peaks := [(peaks[name], name) for name in names if name in peaks]):
        return None
    peak, name = min(
        (format_peak for format_peak in format_peaks if format_peak[0] >= rate),
        default=max(format_peaks),
    )
    return ChartRoof(f"{name} {rate_text(peak)}", roof["bytes_per_second"], peak)


def roofline_chart(name: str, points: Sequence[RooflinePoint]) -> str:
    """Render points below their roofs."""
    whole = sum(point.seconds for point in points)
    return roofline(
        f"Roofline of {name}",
        list(dict.fromkeys(point.roof for point in points)),
        [
            ChartPoint(point.intensity, point.rate, point.seconds / whole, _point_tip(point))
            for point in points
        ],
    )


def _point_tip(point: RooflinePoint) -> str:
    name, number_format, calls, time, rate, intensity, reached = point.row()
    return (
        f"{name}, {number_format}: {rate}, {reached} of what the board reaches at {intensity} "
        f"FLOP a byte; {calls} calls, {time}"
    )
