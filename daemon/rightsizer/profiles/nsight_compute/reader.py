"""Reader of Nsight Compute's files: CSV pages, and reports through NVIDIA's module."""

import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.model.profile import DeviceProfile, Profile, ProfiledDevice, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_compute.launch import (
    DEVICE_NAME,
    DURATION,
    MULTIPROCESSORS,
    KernelLaunch,
    LaunchMetric,
    ProfilerRule,
    counts_tensor_cores,
    extremes,
    is_wanted,
    measured,
    stalls,
)
from rightsizer.profiles.nsight_compute.pages import ComputePages, table_of
from rightsizer.profiles.nsight_compute.printed import begins_launch
from rightsizer.profiles.printed_text import seconds_in
from rightsizer.profiles.reader import Head, ProfileReader, beginning_of
from rightsizer.profiles.tables import KernelTable, short_name

_KEPT_MAXIMUM: Final = 500
_NOTES_MAXIMUM: Final = 12
_KERNEL_CHARACTERS: Final = 80
_TEXT_CHARACTERS: Final = 2000
_ERRORS_SHOWN: Final = 5
_LINK: Final = re.compile(r"@\w+:[^@:]*:([^@]*)@")
"""Links of rules to other sections; only the last part is shown."""
_ADDRESS: Final = re.compile(r"\s*\(https?://[^\s)]*\)|\s*https?://[^\s)]+")
_ABOUT_ITSELF: Final = re.compile(r"The optional metric \S+ could not be found")
MODULE: Final = "ncu_report"
_REPORT_MAGIC: Final = b"NVR\0"
_REPORT_ENDINGS: Final = (".ncu-rep", ".ncu-repz")
_SAID: Final = re.compile(
    r"==PROF== (?:Connected|Disconnected|Attach|Profiling|Report|Target|Trying|Creat|Collected)"
    r"|==(?:ERROR|WARNING)== \S"
)
_FENCE: Final = re.compile(r"\s{0,3}(?:```|~~~)")
"""Delimits profiler output quoted in Markdown."""
_FIRST_ROWS: Final = 3
"""Lines after a table's titles that are checked for a row; units and rules may precede it."""
_NO_TIME_LINE: Final = (
    "Nsight Compute runs each kernel by itself, several times over and with its clocks fixed: "
    "durations are of single kernels, and how long a GPU was idle is not known."
)


class MeasuredKernels:
    """Sums of launches by kernel and device."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._kernels: dict[str, KernelTable] = {}
        self._counted: set[tuple[str, str]] = set()
        """Device and name of kernels with counted tensor cores; counters override names."""
        self._names: dict[str, str] = {}
        self._multiprocessors: dict[str, int] = {}
        self._speedups: dict[str, float] = {}
        self.untimed = 0
        """Launches without a measured duration."""

    def add(self, launch: KernelLaunch) -> None:
        """Add a launch, weighted by its duration."""
        mean = launch.first(DURATION, seconds_in)
        self.untimed += launch.count if mean is None else 0
        kernels = self._kernels.setdefault(launch.device, KernelTable(self._limits, 1))
        row = kernels.row(launch.kernel)
        row.add_sum(launch.count, (mean or 0.0) * launch.count, extremes(launch))
        for name, value in measured(launch).items():
            row.measure(name, value, (mean or 1e-9) * launch.count)
        for why, share in stalls(launch).items():
            row.stall(why, share * (mean or 1e-9) * launch.count)
        if (uses := counts_tensor_cores(launch)) is not None:
            counted = (launch.device, row.name)
            row.uses_tensor_cores = uses or (counted in self._counted and row.uses_tensor_cores)
            self._counted.add(counted)
        if launch.device_name:
            self._names.setdefault(launch.device, launch.device_name)
        count = launch.first(MULTIPROCESSORS, lambda _: 1.0)
        if count is not None and count >= 1:
            self._multiprocessors.setdefault(launch.device, round(count))
        for rule in launch.rules:
            if _ABOUT_ITSELF.match(rule.text):
                continue
            text = " ".join(_ADDRESS.sub("", _LINK.sub(r"\1", rule.text)).split())
            where = f" ({rule.section})" if rule.section else ""
            kernel = short_name(launch.kernel, _KERNEL_CHARACTERS)
            note = f"{kernel}{where}: {text[:_TEXT_CHARACTERS]}"
            former = self._speedups.get(note)
            if former is not None or len(self._speedups) < _KEPT_MAXIMUM:
                self._speedups[note] = max(rule.speedup_percent, former or 0.0)

    def rule_notes(self) -> list[str]:
        """Return the rules by estimated speed-up, highest first."""
        return sorted(self._speedups, key=lambda note: -self._speedups[note])[:_NOTES_MAXIMUM]

    def devices(self) -> tuple[DeviceProfile, ...]:
        """Return each device's kernels, longest first."""
        return tuple(
            DeviceProfile(
                ProfiledDevice(
                    key=key,
                    index=int(key) if key.isascii() and key.isdigit() else None,
                    name=self._names.get(key, ""),
                    multiprocessors=self._multiprocessors.get(key),
                ),
                time=None,
                kernels=kernels.uses(),
            )
            for key, kernels in sorted(self._kernels.items())
        )


def _launches_of_report(path: Path) -> Iterator[KernelLaunch]:
    by_hand = f"run `ncu --import {path.name} --csv --page raw` and name a file with what it prints"
    try:
        module = importlib.import_module(MODULE)
    except ImportError:
        raise ProfileError(
            f"a report that only Nsight Compute can read, and its module `{MODULE}` is not "
            f"installed; {by_hand}, or put the folder extras/python of Nsight Compute on PYTHONPATH"
        ) from None
    try:
        report = module.load_report(str(path))
        for part in range(report.num_ranges()):
            launches = report.range_by_idx(part)
            for place in range(launches.num_actions()):
                yield _launch(launches.action_by_idx(place))
    except Exception as error:  # noqa: BLE001 - a foreign module, over a file of unknown origin.
        raise ProfileError(
            f"`{MODULE}` cannot read it ({type(error).__name__}); {by_hand}"
        ) from None


def _launch(action: Any) -> KernelLaunch:
    launch = KernelLaunch(kernel=str(action.name()))
    for name in action.metric_names():
        is_used = name == DEVICE_NAME or is_wanted(("", name))
        if not is_used or (metric := action.metric_by_name(name)) is None:
            continue
        if name == DEVICE_NAME:
            launch.device_name = str(metric.as_string() or "")
        else:
            unit = str(metric.unit() or "")
            launch.metrics["", name] = LaunchMetric(float(metric.as_double()), unit)
    launch.rules.extend(_rules(action))
    return launch


def _rules(action: Any) -> Iterator[ProfilerRule]:
    """Yield the rules; none with module versions that lack access to them."""
    results: Any = getattr(action, "rule_results_as_dicts", list)()
    for result in results:
        message = result.get("rule_message")
        speedup = result.get("speedup_estimation")
        text = message.get("message") if isinstance(message, dict) else None
        if isinstance(text, str) and text:
            said = speedup.get("speedup") if isinstance(speedup, dict) else None
            section = result.get("section_identifier")
            yield ProfilerRule(
                text,
                float(said) if isinstance(said, int | float) else 0.0,
                section if isinstance(section, str) else "",
            )


def recognizes(head: Head) -> bool:
    """Whether the head has a page's titles or a line only `ncu` prints, or is a report."""
    if _is_report(head.name, head.data):
        return True
    lines = head.text.splitlines()
    is_quoted = False
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            is_quoted = not is_quoted
        elif not is_quoted and (
            _SAID.match(line) or begins_launch(line) or _begins_table(lines, place)
        ):
            return True
    return False


def read(path: Path, limits: ReadLimits) -> Profile:
    """Read a CSV page or a report; raises `ProfileError` if it has no launch."""
    pages = ComputePages(path, limits)
    is_report = _is_report(path.name, beginning_of(path, 512))
    launches = _launches_of_report(path) if is_report else pages.launches()
    kernels = MeasuredKernels(limits)
    events = 0
    for launch in launches:
        kernels.add(launch)
        events += launch.count
        limits.check_events(events)
    devices = kernels.devices()
    errors = sorted(pages.errors)
    if not devices:
        raise ProfileError(_nothing(errors))
    notes = [_NO_TIME_LINE]
    if untimed := kernels.untimed:
        notes.append(f"Of {untimed} launches no duration was measured; they count as 0 seconds.")
    if errors:
        notes.append(f"The profiler reported: {'; '.join(errors[:_ERRORS_SHOWN])}.")
    rows = pages.events + pages.unread["line that is no row of its table"]
    return Profile(
        format=ProfileFormat.NSIGHT_COMPUTE,
        source=path.name,
        devices=devices,
        events=events if is_report else rows,
        unread=dict(pages.unread),
        notes=(*notes, *kernels.rule_notes()),
    )


def _is_report(name: str, beginning: bytes) -> bool:
    if beginning.startswith(_REPORT_MAGIC):
        return True
    return name.lower().endswith(_REPORT_ENDINGS) and b"\0" in beginning


def _begins_table(lines: Sequence[str], place: int) -> bool:
    """Whether a line is a page's titles, followed by a row or by nothing."""
    titles = [cell.strip('" ') for cell in lines[place].split(",")]
    if table_of(titles) is None:
        return False
    rest = [line for line in lines[place + 1 : place + 1 + _FIRST_ROWS] if line.strip()]
    # Rows may be shorter, and quoted names may contain commas.
    return not rest or any(line.count(",") >= len(titles) // 2 for line in rest)


def _nothing(errors: Sequence[str]) -> str:
    why = f" ({'; '.join(errors[:_ERRORS_SHOWN])})" if errors else ""
    why += "; write one with `ncu --csv --page details` or `ncu --csv --page raw`"
    if "No kernels were profiled" in errors:
        why = (
            ": Nsight Compute profiled none; add --target-processes all for programs that start "
            "others, and check -k, --launch-skip and --launch-count"
        )
    if "ERR_NVGPUCTRPERM" in errors:
        why = (
            ": the profiler was not allowed to read the GPU's counters (ERR_NVGPUCTRPERM); run it "
            "as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        )
    return f"no table of kernels is in it{why}"


NSIGHT_COMPUTE: Final = ProfileReader(ProfileFormat.NSIGHT_COMPUTE, recognizes, read)
