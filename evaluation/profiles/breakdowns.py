"""Profilers' files, read by the product and straight from their raw events, side by side."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from evaluation.options import Options
from evaluation.profiles.findings import beside_gpu, beside_labels, beside_planted
from evaluation.profiles.peer import beside_peer
from evaluation.profiles.raw_events import Interval, Raw, raw_totals
from measured import table
from rightsizer.model.profile import DeviceProfile, Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

_FOLDER: Final = "profiles"
_ENDINGS: Final = (".gz", ".sqlite", ".pb", ".csv", ".log", "summary.txt", "result_0.txt")
_HEADINGS: Final = (
    "file",
    "device or figure",
    "busy, read",
    "busy, raw",
    "span, read",
    "span, raw",
    "equal",
    "kernel + idle = span",
    "events",
)
_NANOSECONDS: Final = 5e-9
"""What sums of doubles and of whole nanoseconds may differ by."""


def evaluate(options: Options) -> Iterator[str]:
    """Every file beside its raw events, labels, planted faults, and another reader."""
    folder = None if options.truth is None else options.truth / _FOLDER
    if folder is None or not folder.is_dir():
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{_FOLDER}`.\n"
    else:
        yield from beside_raw(folder)
        yield from beside_labels(folder)
    yield from beside_planted()
    yield from beside_gpu()
    if folder is not None and folder.is_dir():
        yield from beside_peer(folder / "pytorch")


def beside_raw(folder: Path) -> Sequence[str]:
    """Number of files that agree with their raw events, and the others."""
    rows = [row for path in _files(folder) for row in _rows(folder, path)]
    wrong = [row for row in rows if "no" in row[6:8] or "of" in row[8]]
    how = (
        "Busy time and span of each device, or the figures of a benchmark, from the reader and "
        "from the raw events by a few lines of their own. What differs is listed.\n"
    )
    return [
        how,
        table(_by_format(rows, wrong), ("format", "files", "totals", "equal")) + "\n",
        *([table(wrong, _HEADINGS) + "\n"] if wrong else []),
        f"{len(rows) - len(wrong)} of {len(rows)} rows agree.\n",
    ]


def _by_format(
    rows: Sequence[Sequence[str]], wrong: Sequence[Sequence[str]]
) -> Iterator[Sequence[str]]:
    """Number of totals equal to those of the raw events, by format."""
    formats = [row[0].partition("/")[0] for row in rows]
    totals = Counter(formats)
    failed = Counter(row[0].partition("/")[0] for row in wrong)
    files = Counter(name.partition("/")[0] for name in {row[0] for row in rows})
    for each, count in totals.items():
        yield each, f"{files[each]}", f"{count}", f"{count - failed[each]}"


def _files(folder: Path) -> Sequence[Path]:
    return sorted(each for each in folder.rglob("*") if each.name.endswith(_ENDINGS))


def _rows(folder: Path, path: Path) -> Iterator[Sequence[str]]:
    raw = raw_totals(path)
    profile = open_profile(path, ReadLimits())
    name = str(path.relative_to(folder))
    events = _events(profile, raw)
    devices = {device.device.key: device for device in profile.devices if device.time is not None}
    for key in sorted({*devices, *raw.devices}):
        yield (name, key, *_times(devices.get(key), list(raw.devices.get(key, ()))), events)
    for figure, expected in raw.figures.items():
        found = profile.benchmark.figures.get(figure) if profile.benchmark else None
        is_equal = found is not None and abs(found - expected) <= 1e-9 * abs(expected)
        yield (name, figure, _plain(found), _plain(expected), "-", "-", _yes(is_equal), "-", events)
    if raw.kernel_seconds is not None:
        summed = sum(kernel.seconds for device in profile.devices for kernel in device.kernels)
        is_equal = abs(summed - raw.kernel_seconds) <= _NANOSECONDS
        kernels = (_milliseconds(summed), _milliseconds(raw.kernel_seconds))
        yield (name, "kernels", *kernels, "-", "-", _yes(is_equal), "-", events)
    if not devices and not raw.devices and not raw.figures and raw.kernel_seconds is None:
        yield (name, "no kernel", "-", "-", "-", "-", "yes", "-", events)


def _times(device: DeviceProfile | None, raw: Sequence[Interval]) -> Sequence[str]:
    busy, span = _union(raw)
    time = None if device is None else device.time
    if time is None:
        return ("-", _milliseconds(busy), "-", _milliseconds(span), "no", "no")
    is_equal = (
        abs(time.kernel_seconds - busy) <= _NANOSECONDS * max(1, len(raw))
        and abs(time.span_seconds - span) <= _NANOSECONDS * 1e3
    )
    is_whole = abs(time.kernel_seconds + time.idle_seconds - time.span_seconds) <= _NANOSECONDS
    shown = (time.kernel_seconds, busy, time.span_seconds, span)
    return (*map(_milliseconds, shown), _yes(is_equal), _yes(is_whole))


def _union(intervals: Sequence[Interval]) -> tuple[float, float]:
    """Length with any of them, and from the first start to the last end."""
    if not intervals:
        return 0.0, 0.0
    ordered: list[tuple[Any, Any]] = sorted(intervals)
    first = reached = ordered[0][0]
    busy = reached - first
    for start, end in ordered:
        if end > reached:
            busy += end - max(start, reached)
            reached = end
    return float(busy), float(reached - first)


def _events(profile: Profile, raw: Raw) -> str:
    """Events read, unread ones included, against those of the file."""
    if raw.events is None or profile.events == raw.events:
        return f"{profile.events:,}"
    return f"{profile.events:,} of {raw.events:,}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _yes(is_so: bool) -> str:  # noqa: FBT001 - a value to show.
    return "yes" if is_so else "no"
