"""Text of `rightsizer profile` for a terminal, from its JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.console.text import aligned, wrapped
from rightsizer.profiler.figures import (
    CAUSES,
    FIGURES,
    change_text,
    gain_text,
    idle_parts,
    size_text,
    time_text,
)
from rightsizer.profiler.page import beside
from rightsizer.report.figures import percent
from rightsizer.report.labels import readable_name


def telemetry_lines(form: Mapping[str, Any] | None) -> list[str]:
    """What the node's history says of the same GPUs and time; nothing where none was asked."""
    if form is None:
        return []
    lines = ["", "  Telemetry of the same GPUs and time"]
    if not form["devices"]:
        lines += wrapped(form["unmatched"] or "there is no GPU in it", 4)
    for each in beside(form):
        lines += wrapped(each.title, 4)
        for detail in each.details:
            lines += wrapped(detail, 6)
        for text in each.contradictions:
            lines += wrapped(f"CONTRADICTION: {text}", 6)
        for text in each.agreements:
            lines += wrapped(text, 6)
    return lines


_Form = Mapping[str, Any]
_MOST_KERNELS: Final = 10
_MOST_STEPS: Final = 8
_MOST_SPANS: Final = 8
_NAME_WIDTH: Final = 60


def profile_text(answer: _Form) -> str:
    """Every workload, one after the other."""
    parts = ["\n".join(_workload(each)) for each in answer["workloads"]]
    if answer["broken"]:
        parts.append("\n".join(_broken(answer["broken"])))
    return "\n\n".join(parts)


def _broken(files: Sequence[_Form]) -> list[str]:
    lines = ["Could not be read, and is in none of the above:"]
    return lines + [
        line for each in files for line in wrapped(f"{each['source']}: {each['reason']}", 2)
    ]


def _workload(form: _Form) -> list[str]:
    lines = [form["workload"]]
    for profile in form["profiles"]:
        lines += _profile(profile)
    lines += telemetry_lines(form["telemetry"])
    return [*lines, *_against(form["against"]), *_findings(form["findings"])]


def _profile(form: _Form) -> list[str]:
    rank = "" if form["rank"] is None else f", rank {form['rank']}"
    of = f" of {form['world_size']}" if form["world_size"] else ""
    lines = [
        "",
        f"{form['source']}: {form['format']} {form['version']}".rstrip() + rank + of,
        f"  {form['events']:,} events read; {_unread(form['unread'])}",
    ]
    for note in form["notes"]:
        lines += wrapped(note, 2)
    for device in form["devices"]:
        lines += ["", *_device(device)]
    spans, steps = _spans(form["host_spans"]), _host_steps(form["host_steps"])
    return [*lines, *steps, *spans, *_benchmark(form["benchmark"])]


def _unread(unread: Mapping[str, int]) -> str:
    if not unread:
        return "all of use here"
    named = ", ".join(f"{count:,} {what}" for what, count in unread.items())
    return f"of them of no use here: {named}"


def _device(form: _Form) -> list[str]:
    name = f" {form['name']}" if form["name"] else ""
    size = f", {size_text(form['memory_bytes'])}" if form["memory_bytes"] else ""
    lines = [f"  GPU {form['key']}{name}{size}"]
    if form["time"] is None:
        lines.append("    no time line")
    else:
        lines += _time(form["time"])
    if form["launches"]:
        launches = form["launches"]
        lines.append(
            f"    {launches['count']:,} launches in {time_text(launches['host_seconds'])} of the "
            f"host; {launches['short_kernels']:,} kernels shorter than their launch"
        )
    if form["memory_peak_bytes"] is not None:
        lines.append(f"    {size_text(form['memory_peak_bytes'])} of memory at the most")
    return [*lines, *_copies(form["copies"]), *_steps(form["steps"]), *_kernels(form["kernels"])]


def _time(time: dict[str, Any]) -> list[str]:
    span = time["span_seconds"]
    lines = [f"    {time_text(span)} from its first kernel to its last"]
    parts = {CAUSES[part]: value for part, value in idle_parts(time).items() if value > 0}
    rows = [
        (f"    {words}", time_text(value), f"{value / span:.1%}") for words, value in parts.items()
    ]
    return [*lines, *aligned(("    where it goes", "time", "share"), rows, ("    where it goes",))]


def _copies(copies: Sequence[_Form]) -> list[str]:
    return [
        f"    {each['count']:,} copies {readable_name(each['kind'])} ({each['memory']}): "
        f"{size_text(each['bytes'])} in {time_text(each['seconds'])}"
        for each in copies
    ]


def _steps(steps: Sequence[_Form]) -> list[str]:
    if not steps:
        return []
    header = ("    step", "time", "kernels", "host wait", "loader")
    rows = [
        (
            f"    {_short(each['name'])}",
            time_text(each["seconds"]),
            time_text(each["time"]["kernel_seconds"]),
            time_text(each["time"]["host_wait_seconds"]),
            time_text(each["loader_seconds"]),
        )
        for each in steps[:_MOST_STEPS]
    ]
    return [*aligned(header, rows, header[:1]), *_more(len(steps) - _MOST_STEPS, "steps")]


def _host_steps(steps: Sequence[_Form]) -> list[str]:
    if not steps:
        return []
    header = ("  step of the host", "time", "loader")
    rows = [
        (
            f"  {_short(each['name'])}",
            time_text(each["seconds"]),
            time_text(each["loader_seconds"]),
        )
        for each in steps[:_MOST_STEPS]
    ]
    return ["", *aligned(header, rows, header[:1]), *_more(len(steps) - _MOST_STEPS, "steps")]


def _kernels(kernels: Sequence[_Form]) -> list[str]:
    if not kernels:
        return []
    whole = sum(each["seconds"] for each in kernels) or 1.0
    header = ("    kernel", "runs", "time", "share", "tensor cores", "occupancy")
    rows = [
        (
            f"    {_short(each['name'])}",
            f"{each['count']:,}",
            time_text(each["seconds"]),
            f"{each['seconds'] / whole:.1%}",
            {True: "yes", False: "no", None: "-"}[each["uses_tensor_cores"]],
            "-" if each["occupancy_ratio"] is None else f"{each['occupancy_ratio']:.0%}",
        )
        for each in kernels[:_MOST_KERNELS]
    ]
    return [*aligned(header, rows, header[:1]), *_more(len(kernels) - _MOST_KERNELS, "kernels")]


def _spans(spans: Sequence[_Form]) -> list[str]:
    if not spans:
        return []
    longest = sorted(spans, key=lambda each: (each["kind"] == "annotation", -each["seconds"]))
    header = ("  on the host", "kind", "times", "time")
    rows = [
        (
            f"  {_short(each['name'])}",
            each["kind"],
            f"{each['count']:,}",
            time_text(each["seconds"]),
        )
        for each in longest[:_MOST_SPANS]
    ]
    return ["", *aligned(header, rows, header[:2]), *_more(len(spans) - _MOST_SPANS, "spans")]


def _benchmark(form: _Form | None) -> list[str]:
    if form is None:
        return []
    valid = {True: "valid", False: "INVALID", None: "validity not stated"}[form["is_valid"]]
    lines = ["", f"  {' '.join(filter(None, (form['benchmark'], form['scenario'])))}: {valid}"]
    return lines + [f"    {name}: {value:,.6g}" for name, value in form["figures"].items()]


def _against(form: _Form | None) -> list[str]:
    if form is None:
        return []
    header = (f"  against {form['workload']}", "before", "after", "ratio")
    rows = [
        (
            f"  {FIGURES[each['figure']]}",
            change_text(each["figure"], each["before"]),
            change_text(each["figure"], each["after"]),
            "-" if each["ratio"] is None else f"{each['ratio']:.2f}",
        )
        for each in form["changes"]
    ]
    return ["", *aligned(header, rows, header[:1])]


def _findings(findings: Sequence[dict[str, Any]]) -> list[str]:
    complaints = [each for each in findings if _is_complaint(each)]
    fine = [each for each in findings if each["finding"] == "optimized"]
    if not complaints:
        return ["", "  Nothing to change" if fine else "  No verdict", *_others(fine, findings)]
    lines = ["", "  What to change"]
    for each in complaints:
        lines += _complaint(each)
    return [*lines, *_others(fine, findings)]


def _others(fine: Sequence[_Form], findings: Sequence[_Form]) -> list[str]:
    """What is no trouble, and what cannot be said: rules with the same reason together."""
    lines = [line for each in fine for line in wrapped(f"not {_rule(each)}: {each['summary']}", 2)]
    silent: dict[str, list[str]] = {}
    for each in findings:
        if each["abstained"] is not None:
            silent.setdefault(each["abstained"], []).append(_rule(each))
    for why, rules in silent.items():
        lines += wrapped(f"no verdict on {', '.join(rules)}: {why}", 2)
    return lines


def _complaint(form: dict[str, Any]) -> list[str]:
    lines = wrapped(f"{form['reasons'][0]}: {form['summary']}", 2)
    lines += [line for option in form["options"] for line in wrapped(option["description"], 4)]
    if gain := gain_text(form):
        lines += wrapped(f"would give: {gain} (confidence {percent(form['confidence'])})", 4)
    for each in form["instructions"]:
        lines += [f"    {each['title']}:", *(f"      {line}" for line in each["text"].splitlines())]
    return [*lines, ""]


def _is_complaint(form: _Form) -> bool:
    return bool(form["finding"] == "inefficient")


def _rule(form: _Form) -> str:
    return readable_name(str(form["rule"]).removeprefix("profile_"))


def _more(count: int, what: str) -> list[str]:
    return [f"    and {count:,} more {what}"] if count > 0 else []


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 3]}..."
