"""Charts of the page of profiles, from their JSON."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from rightsizer.profiler.figures import CAUSES, ProfileForm, idle_parts, short_text, time_text
from rightsizer.report.charts import (
    ChartColumn,
    ChartFrame,
    ChartLane,
    flame,
    lanes,
    stacked_columns,
)

_COLORS: Final = {
    "compute": "working",
    "collective": "held",
    "copy": "waiting",
    "host_wait": "stalled",
    "kernel_wait": "free",
    "other_idle": "no_data",
}
"""Classes of the style sheet, which have a light and a dark form."""
WORDS: Final = {_COLORS[part]: words for part, words in CAUSES.items()}
_LANES: Final = {
    "compute": ("kernels", "working"),
    "collective": ("collectives", "held"),
    "copy": ("copies", "waiting"),
    "loader_wait": ("waits for the loader", "stalled"),
    "host_wait": ("waits for the host", "stalled"),
    "other_idle": ("idle otherwise", "no_data"),
}
"""Words and color of each lane, from the top."""
_TIMES: Final = 4
_MOST_FRAMES: Final = 1000
"""On a page."""
_FEWEST_FRAMES: Final = 20
_SMALLEST_FRAME: Final = 0.002
_MOST_ROWS: Final = 30
_LONGEST_FRAME: Final = 80
_MOST_NAMES: Final = 6


def colored(time: ProfileForm | None) -> dict[str, float]:
    """Parts of a time by the class of their color."""
    parts = {} if time is None else idle_parts(time)
    return {_COLORS[part]: value for part, value in parts.items()}


def timeline(name: str, form: ProfileForm) -> str:
    """What went on in each moment."""
    found = {lane: form["lanes"][lane] for lane in _LANES if lane in form["lanes"]}
    moment = form["moment_seconds"]
    count = max(map(len, found.values()), default=0)
    if not count:
        return ""
    tips = []
    for at in range(count):
        parts = [f"{_LANES[lane][0]} {row[at]:.0%}" for lane, row in found.items() if row[at]]
        tips.append(f"{time_text(at * moment)}: {', '.join(parts) or 'nothing'}")
    rows = [ChartLane(*_LANES[lane], shares=row) for lane, row in found.items()]
    ends = [time_text(count * moment * place / _TIMES) for place in range(_TIMES + 1)]
    told = f"What went on in each of {count} moments of {time_text(moment)}."
    return lanes(f"Time line of {name}", told, rows, ends, tips)


def steps_chart(name: str, steps: Sequence[ProfileForm]) -> str:
    """Where the time of each step went."""
    columns = []
    for each in steps:
        parts = colored(each["time"])
        whole = sum(parts.values())
        told = ", ".join(
            f"{WORDS[part]} {value / whole:.0%}" for part, value in parts.items() if value
        )
        tip = f"{each['name']}, {time_text(each['seconds'])}: {told}"
        columns.append(ChartColumn(each["name"].rpartition("#")[2][:12], parts, tip))
    return stacked_columns(f"Steps of {name}", "Where the time of each step goes.", columns)


def flame_chart(name: str, frames: Sequence[ProfileForm], count: int) -> str:
    """One of so many; of frames that launch all within one other, the innermost alone."""
    within: defaultdict[int | None, list[int]] = defaultdict(list)
    for place, frame in enumerate(frames):
        within[frame["parent"]].append(place)
    whole = sum(frames[place]["seconds"] for place in within[None])
    if not whole:
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
            share, around = frames[chain[0]]["seconds"] / whole, chain[-1]
            held = [frames[place] for place in chain]
            label, tip = _frame_names(held[-2:]), _frame_tip(held, share)
            boxes.append(ChartFrame(label, tip, row, start, share))
        inner = []
        for place in within[around] if row < _MOST_ROWS else ():
            share = frames[place]["seconds"] / whole
            if place in shown and share >= _SMALLEST_FRAME:
                inner.append((place, row + 1, start))
            start += share
        waiting += reversed(inner)
    return flame(f"Device time of {name} by what launched it", boxes)


def _frame_tip(chain: Sequence[ProfileForm], share: float) -> str:
    frame = chain[-1]
    own = f", of that {time_text(frame['self_seconds'])} itself" if frame["self_seconds"] else ""
    calls = f" in {frame['calls']:,} calls" if frame["calls"] else ""
    runs = f"{frame['kernels']:,} kernels{calls}"
    names = _frame_names(chain[-_MOST_NAMES:])
    return f"{names}: {time_text(frame['seconds'])}, {share:.1%}{own}; {runs}"


def _frame_names(chain: Sequence[ProfileForm]) -> str:
    return " > ".join(short_text(each["name"], _LONGEST_FRAME) for each in chain)
