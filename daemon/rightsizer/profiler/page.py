"""Page of profiles as one HTML document, from their JSON."""

from collections.abc import Sequence
from typing import Any, Final

from rightsizer.profiler.figures import (
    CAUSES,
    ProfileForm,
    beside,
    change_row,
    family_times,
    gain_text,
    host_step_rows,
    idle_parts,
    judged_time,
    kernel_rows,
    lost_text,
    rule_text,
    size_text,
    span_rows,
    time_text,
)
from rightsizer.report.charts import ChartColumn, ChartLane, bar, lanes, shares, stacked_columns
from rightsizer.report.labels import readable_name
from rightsizer.report.template import rendered, table_script

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
_MOST_KERNELS: Final = 200
_ALIKE_POINTS: Final = 2
"""Percentage points by which GPUs of one program may differ and be told of once."""
_LONGEST_NAME: Final = 160
_MOST_SPANS: Final = 12
_MOST_STEPS: Final = 200
_MOST_DEVICES: Final = 64


def profile_document(answer: ProfileForm) -> str:
    """All workloads of an answer, one after the other."""
    views = [_workload(each) for each in answer["workloads"]]
    return rendered(
        "profile.html",
        {},
        workloads=views,
        words=_WORDS,
        broken=answer["broken"],
        alike=f"{_ALIKE_POINTS} points of each share",
        **table_script(),
    )


def _workload(form: ProfileForm) -> dict[str, Any]:
    """What `profile.html` asks of a workload."""
    profiles = form["profiles"]
    devices = [(profile, each) for profile in profiles for each in profile["devices"]]
    findings = [
        {
            "title": rule if each["abstained"] is not None else next(iter(each["reasons"]), rule),
            "form": each,
            "do": " ".join(option["description"] for option in each["options"]) or rule,
            "gain": gain_text(each),
        }
        for each in form["findings"]
        if (rule := rule_text(each))
    ]
    against = form["against"] or {"workload": "", "changes": ()}
    host_steps = host_step_rows([each for profile in profiles for each in profile["host_steps"]])
    spans = span_rows([each for profile in profiles for each in profile["host_spans"]])
    return {
        "name": form["workload"],
        "profiles": profiles,
        "tiles": _tiles([each for _, each in devices]),
        "devices": _folded([_device(profile, each) for profile, each in devices[:_MOST_DEVICES]]),
        "more_devices": max(0, len(devices) - _MOST_DEVICES),
        "complaints": [each for each in findings if each["form"]["finding"] == "inefficient"],
        "lost": lost_text(form),
        "fine": [each for each in findings if each["form"]["finding"] == "optimized"],
        "silent": [each for each in findings if each["form"]["abstained"] is not None],
        "host_steps": host_steps[:_MOST_STEPS],
        "more_host_steps": max(0, len(host_steps) - _MOST_STEPS),
        "spans": spans[:_MOST_SPANS],
        "results": [row for profile in profiles for row in _results(profile["benchmark"])],
        "before": against["workload"],
        "changes": [change_row(each) for each in against["changes"]],
        "telemetry": beside(form["telemetry"]),
    }


_EXPOSED: Final = "exposed_collective_seconds"


def _tiles(devices: Sequence[ProfileForm]) -> list[tuple[str, str, str]]:
    """What matters most, over all devices that have a time line."""
    times = [time for each in devices if (time := judged_time(each)) is not None]
    span = sum(each["span_seconds"] for each in times)
    if not span:
        return []
    steps = [step for each in devices for step in each["steps"]]
    mean = sum(each["seconds"] for each in steps) / len(steps) if steps else None
    tiles = [
        (title, f"{sum(each[name] for each in times) / span:.0%}", detail)
        for name, title, detail in (
            ("kernel_seconds", "With a kernel", f"of {time_text(span)}, all GPUs"),
            ("host_wait_seconds", "Waiting for the host", "no kernel was launched"),
            (_EXPOSED, "Waiting for others", "collectives beside no other kernel"),
        )
    ]
    return [*tiles, ("A step", "-" if mean is None else time_text(mean), f"mean of {len(steps)}")]


def _device(profile: ProfileForm, form: ProfileForm) -> dict[str, Any]:
    """What `profile.html` asks of a device."""
    rank = "" if profile["rank"] is None else f"rank {profile['rank']}, "
    name = f"{rank}GPU {form['key']}"
    size = size_text(form["memory_bytes"]) if form["memory_bytes"] else ""
    peak = form["memory_peak_bytes"]
    peak_text = "" if peak is None else f"{size_text(peak)} used at the most"
    time = judged_time(form)
    parts = {} if time is None else _colored(time)
    span, launches = sum(parts.values()), form["launches"]
    return {
        "name": name,
        "board": form["name"],
        "detail": ", ".join(filter(None, (form["name"], size, peak_text))),
        "shares": {color: value / span for color, value in parts.items()} if span else {},
        "families": _families(form["kernels"]),
        "parts": shares(name, parts, _WORDS) if span else "",
        "causes": [
            (color, _WORDS[color], time_text(value), f"{value / span:.1%}")
            for color, value in parts.items()
            if value
        ],
        "timeline": "" if form["timeline"] is None else _timeline(name, form["timeline"]),
        "steps": _steps(name, form["steps"][:_MOST_STEPS]),
        "more_steps": max(0, len(form["steps"]) - _MOST_STEPS),
        "launches": ""
        if launches is None
        else f"{launches['count']:,} launches took {time_text(launches['host_seconds'])} of the "
        f"host; {launches['short_kernels']:,} kernels are shorter than their launch.",
        "copies": [_copy(each) for each in form["copies"]],
        "kernels": _kernels(form["kernels"]),
        "more_kernels": max(0, len(form["kernels"]) - _MOST_KERNELS),
    }


def _folded(devices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Devices after the first of their like, with its name; of those that differ, none."""
    found: list[dict[str, Any]] = []
    for device in devices:
        first = next((each for each in found if not each["like"] and _alike(each, device)), None)
        found.append({**device, "like": first["name"] if first else ""})
    # What is alike stands together.
    firsts = [each for each in found if not each["like"]]
    return [
        each
        for first in firsts
        for each in (first, *(other for other in found if other["like"] == first["name"]))
    ]


def _alike(one: ProfileForm, other: ProfileForm) -> bool:
    """Whether two devices are of one board and spend their time in the same way."""
    ours, theirs = one["shares"], other["shares"]
    is_of_one_kind = ours and one["board"] == other["board"] and ours.keys() == theirs.keys()
    return bool(is_of_one_kind) and all(
        abs(ours[part] - theirs[part]) * 100 <= _ALIKE_POINTS for part in ours
    )


def _families(kernels: Sequence[ProfileForm]) -> Sequence[Sequence[str]]:
    """What kernels are for, with a bar, the time, and its share of all."""
    return [
        (name, bar(name, share, "g-working"), time_text(time), f"{share:.1%}")
        for name, time, share in family_times(kernels)
    ]


def _colored(time: ProfileForm) -> dict[str, float]:
    return {_COLORS[part]: value for part, value in idle_parts(time).items()}


def _timeline(name: str, form: ProfileForm) -> str:
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


def _steps(name: str, steps: Sequence[ProfileForm]) -> str:
    columns = []
    for each in steps:
        parts = _colored(each["time"])
        whole = sum(parts.values())
        told = ", ".join(
            f"{_WORDS[part]} {value / whole:.0%}" for part, value in parts.items() if value
        )
        tip = f"{each['name']}, {time_text(each['seconds'])}: {told}"
        columns.append(ChartColumn(each["name"].rpartition("#")[2][:12], parts, tip))
    told = "Where the time of each step goes."
    return stacked_columns(f"Steps of {name}", told, columns) if columns else ""


def _copy(form: ProfileForm) -> Sequence[str]:
    rate = form["bytes"] / form["seconds"] if form["seconds"] and form["bytes"] else None
    return (
        readable_name(form["kind"]),
        form["memory"],
        f"{form['count']:,}",
        size_text(form["bytes"]),
        time_text(form["seconds"]),
        "-" if rate is None else f"{size_text(rate)}/s",
    )


def _kernels(kernels: Sequence[ProfileForm]) -> Sequence[Sequence[Any]]:
    """Rows of the table, then the family and what numbers are sorted by."""
    whole = sum(each["seconds"] for each in kernels) or 1.0
    rows = zip(kernels, kernel_rows(kernels, _LONGEST_NAME), strict=True)
    return [
        (
            *row[:3],
            bar(row[0], each["seconds"] / whole, "g-working"),
            *row[3:],
            readable_name(each["family"]),
            each["count"],
            each["seconds"],
        )
        for each, row in rows
    ][:_MOST_KERNELS]


def _results(form: ProfileForm | None) -> list[Sequence[str]]:
    if form is None:
        return []
    valid = {True: "valid", False: "invalid", None: "not stated"}[form["is_valid"]]
    name = " ".join(filter(None, (form["benchmark"], form["scenario"])))
    return [
        (name, valid, readable_name(figure), f"{value:,.6g}")
        for figure, value in form["figures"].items()
    ] or [(name, valid, "", "")]
