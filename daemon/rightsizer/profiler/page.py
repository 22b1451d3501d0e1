"""Page of profiles as one HTML document.

Where time goes, why GPUs idle, telemetry beside, what to change.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rightsizer.model.frozen import dataclass
from rightsizer.profiler.figures import (
    CAUSES,
    FIGURES,
    change_text,
    gain_text,
    idle_parts,
    size_text,
    time_text,
)
from rightsizer.report.charts import ChartColumn, bar, shares, stacked_columns
from rightsizer.report.figures import percent
from rightsizer.report.labels import readable_name
from rightsizer.report.template import rendered

_Form = Mapping[str, Any]
_MOST_STATES: Final = 3


@dataclass(frozen=True, slots=True)
class BesideView:
    """One device of a profile."""

    title: str
    details: Sequence[str]
    contradictions: Sequence[str]
    agreements: Sequence[str]


def beside(form: _Form | None) -> tuple[BesideView, ...]:
    """Every device with what telemetry says of it; none where no history was looked at."""
    if form is None:
        return ()
    return tuple(_view(each, form["workload"]) for each in form["devices"])


def _view(form: _Form, workload: str | None) -> BesideView:
    told = form["comparisons"]
    return BesideView(
        title=_title(form),
        details=_details(form, workload),
        contradictions=[each["text"] for each in told if each["is_contradiction"]],
        agreements=[each["text"] for each in told if not each["is_contradiction"]],
    )


def _title(form: _Form) -> str:
    if form["uuid"] is None:
        return f"{form['key']}: {form['unmatched']}"
    note = f" ({form['note']})" if form["note"] else ""
    told = f"told by {form['matched_by']}{note}"
    name = f"{form['key']}: GPU {form['index']} of the node, {form['uuid']}, {told}"
    return f"{name}: {form['unmatched']}" if form["unmatched"] else name


def _details(form: _Form, workload: str | None) -> list[str]:
    telemetry = form["telemetry"]
    if telemetry is None:
        return []
    holder = telemetry["workload"] or workload
    held = f", held by {holder}" if holder and holder != form["uuid"] else ""
    ours, theirs = (
        f"{time_text(each['end'] - each['start'])} from {_time(each['start'])}"
        for each in (form, telemetry)
    )
    active = f"active for {time_text(telemetry['active_seconds'])}"
    return [
        f"the profile: {ours}{held}",
        f"telemetry: {theirs}, {active}{_states(telemetry)}",
    ]


def _states(telemetry: _Form) -> str:
    shares = sorted(telemetry["states"].items(), key=lambda each: (-each[1], each[0]))
    told = [f"{readable_name(state)} {percent(share)}" for state, share in shares[:_MOST_STATES]]
    told += [
        f"{readable_name(condition)} {percent(share)}"
        for condition, share in telemetry["conditions"].items()
    ]
    return f", of that {', '.join(told)}" if told else ""


def _time(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_COLORS: Final = {
    "compute": "working",
    "collective": "held",
    "copy": "waiting",
    "host_wait": "stalled",
    "kernel_wait": "free",
    "other_idle": "no_data",
}
"""Classes of the style sheet, which have a light and a dark form."""
_WORDS: Final = {_COLORS[part]: words for part, words in CAUSES.items()}
_MOST_KERNELS: Final = 15
_LONGEST_NAME: Final = 160
"""Signatures of templates go on for lines; the JSON has them whole."""
_MOST_SPANS: Final = 12
_MOST_STEPS: Final = 200
_MOST_DEVICES: Final = 64


@dataclass(frozen=True, slots=True)
class ProfileDeviceView:
    """A device of the page."""

    name: str
    detail: str
    parts: str
    """One bar from left to right."""
    causes: Sequence[Sequence[str]]
    steps: str
    """A column a step; empty where no step is marked."""
    more_steps: int
    launches: str
    copies: Sequence[Sequence[str]]
    kernels: Sequence[Sequence[str]]
    more_kernels: int


@dataclass(frozen=True, slots=True)
class FindingView:
    """A verdict of the page."""

    title: str
    form: _Form
    gain: str


@dataclass(frozen=True, slots=True)
class ProfileWorkloadView:
    """A workload of the page."""

    name: str
    profiles: Sequence[_Form]
    tiles: Sequence[tuple[str, str, str]]
    devices: Sequence[ProfileDeviceView]
    more_devices: int
    complaints: Sequence[FindingView]
    fine: Sequence[FindingView]
    silent: Sequence[FindingView]
    host_steps: Sequence[Sequence[str]]
    """Of the host, where no device has a time line."""
    more_host_steps: int
    spans: Sequence[Sequence[str]]
    results: Sequence[Sequence[str]]
    before: str
    changes: Sequence[Sequence[str]]
    telemetry: Sequence[BesideView]


def profile_document(answer: _Form) -> str:
    """All workloads of an answer, one after the other."""
    views = [_workload(each) for each in answer["workloads"]]
    return rendered("profile.html", {}, workloads=views, words=_WORDS, broken=answer["broken"])


def _workload(form: _Form) -> ProfileWorkloadView:
    devices = [(profile, each) for profile in form["profiles"] for each in profile["devices"]]
    findings = [_finding(each) for each in form["findings"]]
    against = form["against"]
    host_steps = _host_steps(form["profiles"])
    return ProfileWorkloadView(
        name=form["workload"],
        profiles=form["profiles"],
        tiles=_tiles([each for _, each in devices]),
        devices=[_device(profile, each) for profile, each in devices[:_MOST_DEVICES]],
        more_devices=max(0, len(devices) - _MOST_DEVICES),
        complaints=[each for each in findings if each.form["finding"] == "inefficient"],
        fine=[each for each in findings if each.form["finding"] == "optimized"],
        silent=[each for each in findings if each.form["abstained"] is not None],
        host_steps=host_steps[:_MOST_STEPS],
        more_host_steps=max(0, len(host_steps) - _MOST_STEPS),
        spans=_spans(form["profiles"]),
        results=[row for profile in form["profiles"] for row in _results(profile)],
        before="" if against is None else against["workload"],
        changes=[] if against is None else [_change(each) for each in against["changes"]],
        telemetry=beside(form["telemetry"]),
    )


def _tiles(devices: Sequence[_Form]) -> list[tuple[str, str, str]]:
    """What matters most, over all devices that have a time line."""
    times = [each["time"] for each in devices if each["time"] is not None]
    span = sum(each["span_seconds"] for each in times)
    if not span:
        return []
    steps = [step for each in devices for step in each["steps"]]
    mean = sum(each["seconds"] for each in steps) / len(steps) if steps else None
    shares_of = {
        name: sum(each[name] for each in times) / span
        for name in ("kernel_seconds", "host_wait_seconds", "exposed_collective_seconds")
    }
    return [
        ("With a kernel", f"{shares_of['kernel_seconds']:.0%}", f"of {time_text(span)}, all GPUs"),
        ("Waiting for the host", f"{shares_of['host_wait_seconds']:.0%}", "no kernel was launched"),
        (
            "Waiting for others",
            f"{shares_of['exposed_collective_seconds']:.0%}",
            "collectives beside no other kernel",
        ),
        ("A step", "-" if mean is None else time_text(mean), f"mean of {len(steps)}"),
    ]


def _device(profile: _Form, form: _Form) -> ProfileDeviceView:
    rank = "" if profile["rank"] is None else f"rank {profile['rank']}, "
    name = f"{rank}GPU {form['key']}"
    size = size_text(form["memory_bytes"]) if form["memory_bytes"] else ""
    peak = form["memory_peak_bytes"]
    peak_text = "" if peak is None else f"{size_text(peak)} used at the most"
    parts = {} if form["time"] is None else _colored(form["time"])
    span = sum(parts.values())
    return ProfileDeviceView(
        name=name,
        detail=", ".join(filter(None, (form["name"], size, peak_text))),
        parts=shares(name, parts, _WORDS) if span else "",
        causes=[
            (color, _WORDS[color], time_text(value), f"{value / span:.1%}")
            for color, value in parts.items()
            if value
        ],
        steps=_steps(name, form["steps"][:_MOST_STEPS]),
        more_steps=max(0, len(form["steps"]) - _MOST_STEPS),
        launches=_launches(form["launches"]),
        copies=[_copy(each) for each in form["copies"]],
        kernels=_kernels(form["kernels"]),
        more_kernels=max(0, len(form["kernels"]) - _MOST_KERNELS),
    )


def _colored(time: dict[str, Any]) -> dict[str, float]:
    return {_COLORS[part]: value for part, value in idle_parts(time).items()}


def _steps(name: str, steps: Sequence[_Form]) -> str:
    columns = []
    for each in steps:
        parts = _colored(each["time"])
        whole = sum(parts.values())
        told = ", ".join(
            f"{_WORDS[part]} {value / whole:.0%}" for part, value in parts.items() if value
        )
        tip = f"{each['name']}, {time_text(each['seconds'])}: {told}"
        columns.append(ChartColumn(each["name"].rpartition("#")[2][:12], parts, tip))
    if not columns:
        return ""
    return stacked_columns(f"Steps of {name}", "Where the time of each step goes.", columns)


def _launches(form: _Form | None) -> str:
    if form is None:
        return ""
    return (
        f"{form['count']:,} launches took {time_text(form['host_seconds'])} of the host; "
        f"{form['short_kernels']:,} kernels are shorter than their launch."
    )


def _copy(form: _Form) -> Sequence[str]:
    rate = form["bytes"] / form["seconds"] if form["seconds"] and form["bytes"] else None
    return (
        readable_name(form["kind"]),
        form["memory"],
        f"{form['count']:,}",
        size_text(form["bytes"]),
        time_text(form["seconds"]),
        "-" if rate is None else f"{size_text(rate)}/s",
    )


def _kernels(kernels: Sequence[_Form]) -> list[Sequence[str]]:
    whole = sum(each["seconds"] for each in kernels) or 1.0
    return [
        (
            _short(each["name"]),
            f"{each['count']:,}",
            time_text(each["seconds"]),
            bar(_short(each["name"]), each["seconds"] / whole, "g-working"),
            f"{each['seconds'] / whole:.1%}",
            {True: "yes", False: "no", None: "-"}[each["uses_tensor_cores"]],
            _percent(each["occupancy_ratio"]),
            _percent(each["dram_ratio"]),
        )
        for each in kernels[:_MOST_KERNELS]
    ]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _host_steps(profiles: Sequence[_Form]) -> list[Sequence[str]]:
    return [
        (each["name"], time_text(each["seconds"]), time_text(each["loader_seconds"]))
        for profile in profiles
        for each in profile["host_steps"]
    ]


def _spans(profiles: Sequence[_Form]) -> list[Sequence[str]]:
    spans = [each for profile in profiles for each in profile["host_spans"]]
    spans.sort(key=lambda each: (each["kind"] == "annotation", -each["seconds"]))
    return [
        (each["name"], each["kind"], f"{each['count']:,}", time_text(each["seconds"]))
        for each in spans[:_MOST_SPANS]
    ]


def _results(profile: _Form) -> list[Sequence[str]]:
    form = profile["benchmark"]
    if form is None:
        return []
    valid = {True: "valid", False: "invalid", None: "not stated"}[form["is_valid"]]
    name = " ".join(filter(None, (form["benchmark"], form["scenario"])))
    return [
        (name, valid, readable_name(figure), f"{value:,.6g}")
        for figure, value in form["figures"].items()
    ] or [(name, valid, "", "")]


def _finding(form: dict[str, Any]) -> FindingView:
    name = readable_name(str(form["rule"]).removeprefix("profile_"))
    title = form["reasons"][0] if form["reasons"] and form["abstained"] is None else name
    return FindingView(title, form, gain_text(form))


def _change(form: _Form) -> Sequence[str]:
    figure, ratio = form["figure"], form["ratio"]
    return (
        FIGURES[figure],
        change_text(figure, form["before"]),
        change_text(figure, form["after"]),
        "-" if ratio is None else f"{ratio:.2f}",
    )
