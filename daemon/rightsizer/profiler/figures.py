"""Figures and rows of a profile as text, for terminal and report."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import asdict

from rightsizer.model.profile import CollectiveUse
from rightsizer.model.values import percent_text, utc_text
from rightsizer.profiles.names import kernel_architecture
from rightsizer.report.figures import NOTHING, percent
from rightsizer.report.labels import readable_name

ProfileDocument: TypeAlias = Mapping[str, Any]
_MOST_STATES: Final = 3
_NUMBA_TAG: Final = re.compile(r"\[(?:abi:)?v\d+,c\w+\]")
"""Version and flags that Numba puts into kernel names."""

CAUSES: Final = {
    "compute": "kernels",
    "collective": "collectives, exposed",
    "copy": "copies and fills, exposed",
    "host_wait": "waiting for the host",
    "kernel_wait": "between kernels",
    "other_idle": "idle for other causes",
}
"""Uses of a device's time, in drawing order."""

FIGURES: Final = {
    "step_seconds": "a step",
    "kernel_seconds_per_step": "kernels of a step",
    "loader_seconds_per_step": "loader of a step",
    "collective_seconds_per_step": "collectives of a step",
    "dispatch_seconds_per_step": "dispatch of a step",
    "pause_seconds_per_step": "pauses of a step",
    "operators_per_step": "operators of a step",
    "read_backs_per_step": "values read back in a step",
    "kernel_ratio": "with a kernel",
    "host_wait_ratio": "waiting for the host",
    "kernel_wait_ratio": "between kernels",
    "other_idle_ratio": "idle for other causes",
    "exposed_collective_ratio": "collectives, exposed",
    "exposed_copy_ratio": "copies, exposed",
    "launches_per_second": "launches a second",
    "kernels_per_second": "kernels a second",
}

_SCALES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SIZES: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_NEARLY_ALL: Final = 0.95
_LONGEST_KERNEL: Final = 80
_FORMER_WIDTH: Final = 30
_WHOLE_FROM: Final = 1000
"""Numbers from which fractions tell nothing."""
_RESULTS: Final = {
    "time_to_train_seconds": "s to train",
    "tokens_per_second": "tokens/s",
    "samples_per_second": "samples/s",
    "latency_p90_seconds": "s at the 90th percentile",
    "latency_p99_seconds": "s at the 99th percentile",
}
"""Figures by which a benchmark is compared, the most telling first."""
_HALF_PERCENT: Final = 0.005
_WORTH_NAMING: Final = 0.1
"""Of the kernels' time."""
_ARCHITECTURES: Final = ("volta", "turing", "ampere", "hopper", "blackwell")
"""With different matrix units; Ada runs kernels written for Ampere."""
COLLECTIVE_HEADER: Final = ("collective", "times", "time", "bus", "at best", "of the link")


def time_text(value: float | None) -> str:
    """Format seconds, as in `1.23 s`, `45.6 ms`, `7.8 µs`."""
    if not value:
        return NOTHING if value is None else "0 s"
    scale, unit = next((scale for scale in _SCALES if value >= scale[0]), _SCALES[-1])
    return f"{value / scale:,.4g} {unit}"


def size_text(value: float | None) -> str:
    """Format bytes, as in `1.2 GB`."""
    if value is None:
        return NOTHING
    sizes = (f"{value / scale:,.3g} {unit}" for scale, unit in _SIZES if value >= scale)
    return next(sizes, f"{value:.0f} B")


def copied_text(value: int | None) -> str:
    """Format the bytes of copies, whose sizes some profilers leave out."""
    return "size not recorded" if value is None else size_text(value)


def idle_parts(time: ProfileDocument) -> dict[str, float]:
    """Return the parts of a span by cause; they sum to the span.

    Copies and fills without a kernel overlap idle time of unknown cause; they are subtracted from
    the causes in order.
    """
    parts = {
        "compute": time["kernel_seconds"] - time["exposed_collective_seconds"],
        "collective": time["exposed_collective_seconds"],
        "copy": min(
            time["exposed_copy_seconds"] + time["exposed_fill_seconds"], time["idle_seconds"]
        ),
    }
    left = parts["copy"]
    for cause in ("host_wait", "kernel_wait", "other_idle"):
        seconds = time[f"{cause}_seconds"]
        parts[cause] = max(0.0, seconds - left)
        left = max(0.0, left - seconds)
    return parts


def judged_time(device: ProfileDocument) -> ProfileDocument | None:
    """Return the time use of a device, including the wait of its first step for a kernel."""
    time_use: ProfileDocument | None = device["steps_time"] or device["time"]
    return time_use


def lost_text(workload: ProfileDocument) -> str:
    """Describe the time of the device that computes least; empty if it nearly always computes.

    The sum of causes may matter even if no rule complains of a single one.
    """
    parts_of = [
        {part: seconds / time["span_seconds"] for part, seconds in idle_parts(time).items()}
        for profile in workload["profiles"]
        for device in profile["devices"]
        if (time := judged_time(device)) and time["span_seconds"]
    ]
    parts = min(parts_of, key=lambda part: part["compute"], default={"compute": 1.0})
    if parts["compute"] >= _NEARLY_ALL:
        return ""
    rest = sorted(parts.items() - {("compute", parts["compute"])}, key=lambda item: -item[1])
    parts_text = [
        f"{CAUSES[part]} {percent_text(ratio)}" for part, ratio in rest if ratio >= _HALF_PERCENT
    ]
    whose = "The GPU that computes least does so" if len(parts_of) > 1 else "The GPU computes"
    return f"{whose} {percent_text(parts['compute'])} of the time; {', '.join(parts_text)}"


def gain_text(finding: dict[str, Any]) -> str:
    """Describe the possible gain; empty if unknown."""
    for option in finding["options"]:
        low = option["time_ratio_low"]
        high = option["time_ratio_high"]
        if low is not None and high is not None:
            least = percent_text(1 - high)
            upper = percent_text(1 - low)
            step = _per_step(finding["evidence"])
            return (
                f"{_range_text(least if 1 - high >= _HALF_PERCENT else '', upper)} less time{step}"
            )
    return ""


def _range_text(least: str, greatest: str) -> str:
    """Return a range, or its one value; an empty `least` is none."""
    return (
        f"{least} to {greatest}" if least not in ("", greatest) else (least or f"up to {greatest}")
    )


def _per_step(evidence: dict[str, Any]) -> str:
    low = evidence.get("saved_seconds_per_step_low")
    high = evidence.get("saved_seconds_per_step_high")
    if low is None or high is None:
        return ""
    saved = _range_text(time_text(low) if low else "", time_text(high))
    return f", {saved} of a step's {time_text(evidence['step_seconds'])}"


def change_row(document: ProfileDocument) -> Sequence[str]:
    """Return a row of the comparison: name, before, after, ratio."""
    figure = document["figure"]
    ratio = document["ratio"]
    ends = (_change_text(figure, document[end]) for end in ("before", "after"))
    return (FIGURES[figure], *ends, "-" if ratio is None else f"{ratio:.2f}")


def _change_text(figure: str, value: float | None) -> str:
    if value is None or figure.endswith("_seconds") or "_seconds_per_" in figure:
        return time_text(value)
    return f"{value:.1%}" if figure.endswith("_ratio") else f"{value:,.0f}"


def family_change_row(document: ProfileDocument) -> Sequence[str]:
    """Return a row of a kernel family or kernel: name, before, after, ratio."""
    ends = time_text(document["before"] or 0.0), time_text(document["after"] or 0.0)
    ratio = "new" if document["ratio"] is None else f"{document['ratio']:.2f}"
    name = document.get("name") or readable_name(document["family"])
    if document.get("former_name"):
        name = f"{name} (was {short_text(document['former_name'], _FORMER_WIDTH)})"
    return (name, *ends, ratio)


def result_text(result: ProfileDocument) -> str:
    """Describe a benchmark's result by its first figure; whether it counts comes with it."""
    validity = {True: "valid", False: "invalid", None: "not said to be valid"}[result["is_valid"]]
    rates = (
        f"{_rounded(result['figures'][name])} {unit}"
        for name, unit in _RESULTS.items()
        if name in result["figures"]
    )
    what = " ".join(filter(None, (result["benchmark"], result["scenario"]))) or "A benchmark"
    return f"{what}: {next(rates, 'no result')}, {validity}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.4g}"


def pace_text(against: ProfileDocument) -> str:
    """Say how much longer a step takes, and which part of it changed most; empty without steps."""
    changes = {
        change["figure"]: (change["before"], change["after"]) for change in against["changes"]
    }
    before, after = changes.get("step_seconds", (None, None))
    if not before or not after:
        return ""
    ratio = after / before - 1.0
    is_of_gpu = "kernel_seconds_per_step" in changes
    parts = {
        **{
            FIGURES[name]: pair
            for name, pair in changes.items()
            if name.endswith("_seconds_per_step") and not is_of_gpu
        },
        CAUSES["compute"]: changes.get("kernel_seconds_per_step", (None, None)),
        **{
            FIGURES[name]: tuple(
                None if share is None else share * step
                for share, step in zip(changes[name], (before, after), strict=True)
            )
            for name in ("host_wait_ratio", "other_idle_ratio", "exposed_copy_ratio")
            if name in changes
        },
    }
    measured = {name: pair for name, pair in parts.items() if None not in pair}
    largest_change = max(
        measured, key=lambda name: abs(measured[name][1] - measured[name][0]), default=""
    )
    named = (
        f"; {largest_change}: {' to '.join(map(time_text, measured[largest_change]))}"
        if largest_change
        else ""
    )
    pace = (
        "as long"
        if abs(ratio) < _HALF_PERCENT
        else (f"{percent_text(abs(ratio))} {'more' if ratio > 0 else 'less'} time")
    )
    return f"A step takes {pace}, {time_text(before)} to {time_text(after)}{named}"


def kernels_changed_text(against: ProfileDocument) -> str:
    """Name the family that changed most, and its kernel; empty without a notable change."""
    families = against["families"]
    whole = sum(family["before"] for family in families)
    if not families or abs(families[0]["after"] - families[0]["before"]) < _HALF_PERCENT * whole:
        return ""
    # Regressions first, even if another family gained more.
    slower = [
        family for family in families if family["after"] - family["before"] >= _HALF_PERCENT * whole
    ]
    first = (slower or families)[0]
    change = first["after"] - first["before"]
    kernels = [kernel for kernel in against["kernels"] if kernel["family"] == first["family"]]
    largest = max(
        kernels, key=lambda kernel: (kernel["after"] - kernel["before"]) / change, default=None
    )
    named = (
        "" if largest is None else f", most of it in {short_text(largest['name'], _LONGEST_KERNEL)}"
    )
    ratio = "" if first["ratio"] is None else f" (x{first['ratio']:.2f})"
    return (
        f"{readable_name(first['family'])} kernels take {time_text(abs(change))} "
        f"{'more' if change > 0 else 'less'} per {against['per']}{ratio}{named}"
    )


def collective_text(use: CollectiveUse | ProfileDocument) -> str:
    """Return kind, size and group: `all_reduce of 23.5 MB among 8`."""
    collective = use if isinstance(use, Mapping) else asdict(use)
    return (
        f"{collective['kind']} of {size_text(collective['bytes'])} among {collective['group_size']}"
    )


def collective_rows(document: ProfileDocument) -> list[Sequence[str]]:
    """Return collective, count, time, and bandwidth: mean, peak, and the link's peak."""
    link = document["link_bytes_per_second"]
    return [
        (
            collective_text(collective),
            f"{collective['count']:,}",
            time_text(collective["seconds"]),
            f"{size_text(collective['bus_bytes_per_second'])}/s",
            f"{size_text(collective['best_bus_bytes_per_second'])}/s",
            percent_text(collective["best_bus_bytes_per_second"] / link) if link else "-",
        )
        for collective in document["collectives"]
    ]


def older_text(document: ProfileDocument) -> str:
    """Return the share of kernel time in kernels for an older architecture than the board's."""
    whole = sum(kernel["seconds"] for kernel in document["kernels"])
    order = _ARCHITECTURES
    if document["architecture"] not in order or not whole:
        return ""
    times = Counter[str]()
    for kernel_use in document["kernels"]:
        times[kernel_architecture(kernel_use["name"])] += kernel_use["seconds"]
    newest = order.index(document["architecture"])
    older = [name for name in order[:newest] if times[name] >= _WORTH_NAMING * whole]
    parts = ", ".join(f"{percent_text(times[name] / whole)} for {name}" for name in older)
    return (
        f"kernels written for an older architecture, of all kernels' time: {parts}; the board is "
        f"of {document['architecture']}, and newer CUDA libraries may have kernels for it"
        if older
        else ""
    )


def span_rows(spans: Sequence[ProfileDocument]) -> list[Sequence[str]]:
    """Return rows of host spans: name, kind, count, time; longest first, annotations last."""
    ranked = sorted(spans, key=lambda span: (span["kind"] == "annotation", -span["seconds"]))
    return [
        (span["name"], span["kind"], f"{span['count']:,}", time_text(span["seconds"]))
        for span in ranked
    ]


_HOST_COUNTS: Final = "operators", "read_backs"
HOST_STEP_HEADER: Final = (
    "step of the host",
    "time",
    "loader",
    "collectives",
    "dispatch",
    "pauses",
    "operators",
    "read back",
)


def host_step_rows(steps: Sequence[ProfileDocument]) -> list[Sequence[str]]:
    """Return rows below `HOST_STEP_HEADER` for steps without a device."""
    keys = "seconds", "loader_seconds", "collective_seconds", "dispatch_seconds", "pause_seconds"
    return [
        (
            step["name"],
            *(time_text(step[key]) for key in keys),
            *("-" if step["operators"] is None else f"{step[key]:,}" for key in _HOST_COUNTS),
        )
        for step in steps
    ]


def is_contradicted(finding: ProfileDocument) -> bool:
    """Whether telemetry lowered the confidence of a finding."""
    return "telemetry" in finding["confidence_factors"]


def rule_text(finding: ProfileDocument) -> str:
    """Return the display name of the rule."""
    return readable_name(str(finding["rule"]).removeprefix("profile_"))


def family_times(kernels: Sequence[ProfileDocument]) -> list[tuple[str, float, float]]:
    """Return families with seconds and share of all kernels' time, largest first."""
    sums: Counter[str] = Counter()
    for kernel in kernels:
        sums[kernel["family"]] += kernel["seconds"]
    whole = sum(sums.values()) or 1.0
    return [(readable_name(name), time, time / whole) for name, time in sums.most_common()]


def short_text(name: str, longest: int) -> str:
    """Shorten a name; template signatures can be very long, and JSON has them in full."""
    name = _NUMBA_TAG.sub("", name)
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def beside(document: ProfileDocument | None) -> list[ProfileDocument]:
    """Return devices with telemetry's statements; empty without a history."""
    compared: list[ProfileDocument] = []
    for device in document["devices"] if document else ():
        texts: dict[bool, list[str]] = {True: [], False: []}
        for one in device["comparisons"]:
            texts[one["is_contradiction"]].append(one["text"])
        comparisons = {"contradictions": texts[True], "agreements": texts[False]}
        details = _details(device, document["workload"] if document else None)
        compared.append({"title": _title(device), "details": details, **comparisons})
    return compared


def _title(device: ProfileDocument) -> str:
    name = device["key"]
    note = f" ({device['note']})" if device["note"] else ""
    if device["uuid"] is not None:
        name += f": GPU {device['index']} of the node, {device['uuid']}, "
        name += f"matched by {device['matched_by']}{note}"
    return f"{name}: {device['unmatched']}" if device["unmatched"] else str(name)


def _details(device: ProfileDocument, workload: str | None) -> list[str]:
    if (telemetry := device["telemetry"]) is None:
        return []
    holder = telemetry["workload"] or workload
    held = f", held by {holder}" if holder and holder != device["uuid"] else ""
    ours, theirs = (
        f"{time_text(window['end'] - window['start'])} from {utc_text(window['start'], '%H:%M:%S')}"
        for window in (device, telemetry)
    )
    active = f"active for {time_text(telemetry['active_seconds'])}"
    shares = sorted(telemetry["states"].items(), key=lambda item: (-item[1], item[0]))
    shares = [*shares[:_MOST_STATES], *telemetry["conditions"].items()]
    parts = ", ".join(f"{readable_name(name)} {percent(share)}" for name, share in shares)
    states = f", of that {parts}" if parts else ""
    return [f"the profile: {ours}{held}", f"telemetry: {theirs}, {active}{states}"]


def no_roof_text(device: ProfileDocument) -> str:
    """Explain why there is no roofline."""
    if device["products"] or any(kernel["flops_per_second"] for kernel in device["kernels"]):
        if not device["name"]:
            return "the profile does not name the board"
        if device["roof"] is None:
            return f"no board of the catalogue is called '{device['name']}'"
        return "the bytes of its kernels were not counted, or its board has no peak of the format"
    return (
        "no operator has shapes (PyTorch: record_shapes=True) and no operations were counted "
        "(Nsight Compute: --set full --page raw)"
    )
