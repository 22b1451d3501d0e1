"""Text of `rightsizer profile` for a terminal, from its JSON."""

from collections.abc import Sequence
from typing import Any, Final

from rightsizer.io.terminal import aligned, wrapped
from rightsizer.profiler import figures
from rightsizer.profiler.figures import ProfileDocument
from rightsizer.report.figures import percent
from rightsizer.report.labels import readable_name

_MOST_KERNELS: Final = 10
_MOST_CHANGES: Final = 5
_MOST_STEPS: Final = 8
_MOST_SPANS: Final = 8
_MOST_LEADS: Final = 3
_NAME_WIDTH: Final = 60
_LEAD_WIDTH: Final = 100
_DOUBT: Final = "less sure: telemetry contradicts it"


def profile_text(answer: ProfileDocument) -> str:
    """Format all workloads."""
    parts = []
    for document in answer["workloads"]:
        lines = [document["workload"], *_lead(document)]
        for profile in document["profiles"]:
            lines += _profile(profile)
        lines += _telemetry(document["telemetry"])
        if against := document["against"]:
            for warning in against["warnings"]:
                lines += ["", *wrapped(warning, 2)]
            header = (f"  against {against['workload']}", "before", "after", "ratio")
            rows = [figures.change_row(each) for each in against["changes"]]
            lines += ["", *(_table(header, rows) or aligned(header, (), ()))]
            if changed := figures.kernels_changed_text(against):
                lines += ["", *wrapped(changed, 2)]
            for name, most, noun in (("families", None, ""), ("kernels", _MOST_CHANGES, "kernels")):
                header = (f"  {name}, per {against['per']}", "before", "after", "ratio")
                rows = [figures.family_change_row(each) for each in against[name]]
                lines += ["", *_table(header, rows, most, noun)]
        lines += _findings(document["findings"], figures.lost_text(document))
        parts.append("\n".join(lines))
    if answer["broken"]:
        lines = ["Could not be read, and is in none of the above:"]
        for each in answer["broken"]:
            lines += wrapped(f"{each['source']}: {each['reason']}", 2)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _lead(document: ProfileDocument) -> list[str]:
    """Return the verdict in at most three lines: what to change, and what that gains."""
    if document["against"] and (pace := figures.pace_text(document["against"])):
        return [*wrapped(pace, 2), *_verdict(document)][: _MOST_LEADS + 1]
    return _verdict(document)


def _verdict(document: ProfileDocument) -> list[str]:
    complaints = _complaints(document["findings"])
    if not complaints:
        if results := [each["benchmark"] for each in document["profiles"] if each["benchmark"]]:
            return [f"  {line}" for line in map(figures.result_text, results[:_MOST_LEADS])]
        is_judged = any(each["finding"] == "optimized" for each in document["findings"])
        nothing = figures.lost_text(document) or "Nothing to change"
        return wrapped(nothing if is_judged else "No verdict: the end says why", 2)
    lines = []
    for number, each in enumerate(complaints[:_MOST_LEADS], start=1):
        gain = figures.gain_text(each).partition(", ")[0] or "gain unknown"
        remedy = " ".join(option["description"] for option in each["options"])
        lines.append(f"  {number}. {each['reasons'][0]}, {gain}: {remedy}")
    return [figures.short_text(line, _LEAD_WIDTH) for line in lines]


def _complaints(findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in findings if each["finding"] == "inefficient"]


def _profile(document: ProfileDocument) -> list[str]:
    rank = "" if document["rank"] is None else f", rank {document['rank']}"
    of = f" of {document['world_size']}" if document["world_size"] else ""
    unread = ", ".join(f"{count:,} {what}" for what, count in document["unread"].items())
    unread = f"of them of no use here: {unread}" if unread else "all of use here"
    lines = [
        "",
        f"{document['source']}: {document['format']} {document['version']}".rstrip() + rank + of,
        f"  {document['events']:,} events read; {unread}",
    ]
    for note in document["notes"]:
        lines += wrapped(note, 2)
    for device in document["devices"]:
        lines += ["", *_device(device)]
    steps = figures.host_step_rows(document["host_steps"])
    spans = figures.span_rows(document["host_spans"])
    for header, rows, most, noun in (
        (figures.HOST_STEP_HEADER, steps, _MOST_STEPS, "steps"),
        (("on the host", "kind", "times", "time"), spans, _MOST_SPANS, "spans"),
    ):
        if rows:
            lines += ["", *_table((f"  {header[0]}", *header[1:]), rows, most, noun)]
    if result := document["benchmark"]:
        valid = {True: "valid", False: "INVALID", None: "validity not stated"}[result["is_valid"]]
        name = " ".join(filter(None, (result["benchmark"], result["scenario"])))
        lines += ["", f"  {name}: {valid}"]
        lines += [f"    {name}: {value:,.6g}" for name, value in result["figures"].items()]
    return lines


def _device(document: ProfileDocument) -> list[str]:
    name = f" {document['name']}" if document["name"] else ""
    size = f", {figures.size_text(document['memory_bytes'])}" if document["memory_bytes"] else ""
    lines = [f"  GPU {document['key']}{name}{size}"]
    lines += ["    no timeline"] if document["time"] is None else _time(document)
    if launches := document["launches"]:
        took = figures.time_text(launches["host_seconds"])
        short = f"{launches['short_kernels']:,} kernels shorter than their launch"
        lines.append(f"    {launches['count']:,} launches in {took} of the host; {short}")
    if document["kernels"]:
        lines += wrapped(f"kernels by family: {figures.family_text(document['kernels'])}", 4)
    if older := figures.older_text(document):
        lines += wrapped(older, 4)
    if document["memory_peak_bytes"] is not None:
        lines.append(f"    peak memory {figures.size_text(document['memory_peak_bytes'])}")
    lines += [
        f"    {each['count']:,} copies {readable_name(each['kind'])} ({each['memory']}): "
        f"{figures.copied_text(each['bytes'])} in {figures.time_text(each['seconds'])}"
        for each in document["copies"]
    ]
    collectives = figures.collective_rows(document)
    header = (f"    {figures.COLLECTIVE_HEADER[0]}", *figures.COLLECTIVE_HEADER[1:])
    lines += _table(header, collectives, _MOST_KERNELS, "collectives")
    header = ("    kernel", "runs", "time", "share", "tensor cores", "occupancy")
    kernels = [row[:-1] for row in figures.kernel_rows(document["kernels"], _NAME_WIDTH)]
    return [*lines, *_steps(document["steps"]), *_table(header, kernels, _MOST_KERNELS, "kernels")]


def _time(document: ProfileDocument) -> list[str]:
    kernels = document["time"]["span_seconds"]
    time = figures.judged_time(document) or document["time"]
    span = time["span_seconds"]
    whole = figures.time_text(span)
    steps = f", {whole} from its first step" if whole != figures.time_text(kernels) else ""
    lines = [f"    {figures.time_text(kernels)} from its first kernel to its last{steps}"]
    rows = [
        (figures.CAUSES[part], figures.time_text(value), f"{value / span:.1%}")
        for part, value in figures.idle_parts(time).items()
        if value > 0
    ]
    return [*lines, *_table(("    where it goes", "time", "share"), rows)]


def _steps(steps: Sequence[ProfileDocument]) -> list[str]:
    header = ("    step", "time", "kernels", "host wait", "loader")
    rows = []
    for each in steps:
        of_host = figures.idle_parts(each["time"])["host_wait"], each["loader_seconds"]
        times = each["seconds"], each["time"]["kernel_seconds"], *of_host
        rows.append((each["name"], *map(figures.time_text, times)))
    return _table(header, rows, _MOST_STEPS, "steps")


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], most: int | None = None, noun: str = ""
) -> list[str]:
    """Return the first rows, indented like the header, and the number of others; empty if none."""
    if not rows:
        return []
    names = [name.lstrip() for name in header]
    cut = [(figures.short_text(first, _NAME_WIDTH), *others) for first, *others in rows[:most]]
    lines = aligned(
        names, cut, names[: 1 + ("kind" in names)], indent=len(header[0]) - len(names[0])
    )
    more = len(rows) - len(cut)
    return [*lines, *([f"    and {more:,} more {noun}"] if more else [])]


def _telemetry(document: ProfileDocument | None) -> list[str]:
    if document is None:
        return []
    lines = ["", "  Telemetry of the same GPUs and time"]
    if not document["devices"]:
        lines += wrapped(document["unmatched"] or "there is no GPU in it", 4)
    for each in figures.beside(document):
        lines += wrapped(each["title"], 4)
        contradictions = (f"CONTRADICTION: {text}" for text in each["contradictions"])
        for text in (*each["details"], *contradictions, *each["agreements"]):
            lines += wrapped(text, 6)
    return lines


def _findings(findings: Sequence[dict[str, Any]], lost: str) -> list[str]:
    complaints = _complaints(findings)
    fine = [each for each in findings if each["finding"] == "optimized"]
    nothing = f"  {lost or 'Nothing to change'}" if fine else "  No verdict"
    lines = ["", "  What to change" if complaints else nothing]
    for each in complaints:
        lines += _problem(each)
    for each in fine:
        doubt = f" ({_DOUBT})" if figures.is_contradicted(each) else ""
        lines += wrapped(f"not {figures.rule_text(each)}: {each['summary']}{doubt}", 2)
    # Group abstaining rules by reason.
    silent: dict[str, list[str]] = {}
    for each in findings:
        if each["abstained"] is not None:
            silent.setdefault(each["abstained"], []).append(figures.rule_text(each))
    for why, rules in silent.items():
        lines += wrapped(f"no verdict on {', '.join(rules)}: {why}", 2)
    return lines


def _problem(document: dict[str, Any]) -> list[str]:
    lines = wrapped(f"{document['reasons'][0]}: {document['summary']}", 2)
    lines += [line for option in document["options"] for line in wrapped(option["description"], 4)]
    if gain := figures.gain_text(document):
        doubt = f"; {_DOUBT}" if figures.is_contradicted(document) else ""
        sure = f"confidence {percent(document['confidence'])}{doubt}"
        lines += wrapped(f"gain: {gain} ({sure})", 4)
    for each in document["instructions"]:
        is_prose = each["language"] == "text"
        texts = each["text"].splitlines()
        lines.append(f"    {each['title']}:")
        lines += [
            line
            for text in texts
            for line in (wrapped(text, 6, 0) if is_prose else [" " * 6 + text])
        ]
    return [*lines, ""]
