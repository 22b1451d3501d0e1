"""Blocks of `rightsizer profile`, from its JSON."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rightsizer.profiler import figures
from rightsizer.profiler.figures import ProfileDocument
from rightsizer.report.blocks import (
    Block,
    CellKind,
    Code,
    Items,
    KeyValues,
    Section,
    Table,
    section,
    table,
)
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
_CHANGES: Final = ("before", "after", "ratio")


def profile_blocks(answer: ProfileDocument) -> Iterator[Block]:
    """Yield all workloads."""
    for document in answer["workloads"]:
        yield section(document["workload"], *_lead(document))
        yield from map(_profile, document["profiles"])
        yield _telemetry(document["telemetry"])
        if document["against"]:
            yield _against(document["against"])
        yield _findings(document["findings"], figures.lost_text(document))
    broken = (f"{each['source']}: {each['reason']}" for each in answer["broken"])
    yield section("Could not be read, and is in none of the above:", Items(tuple(broken)))


def _against(against: ProfileDocument) -> Section:
    per = against["per"]
    families = [figures.family_change_row(each) for each in against["families"]]
    kernels = [figures.family_change_row(each) for each in against["kernels"]]
    return section(
        f"against {against['workload']}",
        *against["warnings"],
        _table(("", *_CHANGES), [figures.change_row(each) for each in against["changes"]]),
        figures.kernels_changed_text(against) or "",
        _table((f"families, per {per}", *_CHANGES), families),
        _table((f"kernels, per {per}", *_CHANGES), kernels, _MOST_CHANGES, "kernels"),
    )


def _lead(document: ProfileDocument) -> list[str]:
    """Return the verdict in at most three lines: what to change, and what that gains."""
    if document["against"] and (pace := figures.pace_text(document["against"])):
        return [pace, *_verdict(document)][: _MOST_LEADS + 1]
    return _verdict(document)


def _verdict(document: ProfileDocument) -> list[str]:
    complaints = _complaints(document["findings"])
    if not complaints:
        if results := [each["benchmark"] for each in document["profiles"] if each["benchmark"]]:
            return [*map(figures.result_text, results[:_MOST_LEADS])]
        is_judged = any(each["finding"] == "optimized" for each in document["findings"])
        nothing = figures.lost_text(document) or "Nothing to change"
        return [nothing if is_judged else "No verdict: the end says why"]
    lines = []
    for number, complaint in enumerate(complaints[:_MOST_LEADS], start=1):
        gain = figures.gain_text(complaint).partition(", ")[0] or "gain unknown"
        remedy = " ".join(option["description"] for option in complaint["options"])
        lines.append(f"{number}. {complaint['reasons'][0]}, {gain}: {remedy}")
    return [figures.short_text(line, _LEAD_WIDTH - 2) for line in lines]


def _complaints(findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["finding"] == "inefficient"]


def _profile(document: ProfileDocument) -> Section:
    rank = "" if document["rank"] is None else f", rank {document['rank']}"
    of = f" of {document['world_size']}" if document["world_size"] else ""
    unread = ", ".join(f"{count:,} {what}" for what, count in document["unread"].items())
    unread = f"of them of no use here: {unread}" if unread else "all of use here"
    steps = figures.host_step_rows(document["host_steps"])
    spans = figures.span_rows(document["host_spans"])
    return section(
        f"{document['source']}: {document['format']} {document['version']}".rstrip() + rank + of,
        f"{document['events']:,} events read; {unread}",
        *document["notes"],
        *map(_device, document["devices"]),
        _table(figures.HOST_STEP_HEADER, steps, _MOST_STEPS, "steps"),
        _table(("on the host", "kind", "times", "time"), spans, _MOST_SPANS, "spans"),
        _benchmark(document["benchmark"]),
    )


def _benchmark(result: ProfileDocument | None) -> Block:
    if not result:
        return ""
    valid = {True: "valid", False: "INVALID", None: "validity not stated"}[result["is_valid"]]
    name = " ".join(filter(None, (result["benchmark"], result["scenario"])))
    pairs = tuple((name, f"{value:,.6g}") for name, value in result["figures"].items())
    title = f"{name}: {valid}"
    return section(title, KeyValues(pairs)) if pairs else title


def _device(document: ProfileDocument) -> Section:
    name = f" {document['name']}" if document["name"] else ""
    size = f", {figures.size_text(document['memory_bytes'])}" if document["memory_bytes"] else ""
    return section(f"GPU {document['key']}{name}{size}", *_measured(document))


def _measured(document: ProfileDocument) -> Iterator[Block]:
    if document["time"] is None:
        yield "no timeline"
    else:
        yield from _time(document)
    if launches := document["launches"]:
        took = figures.time_text(launches["host_seconds"])
        short = f"{launches['short_kernels']:,} kernels shorter than their launch"
        yield f"{launches['count']:,} launches in {took} of the host; {short}"
    if document["kernels"]:
        yield f"kernels by family: {figures.family_text(document['kernels'])}"
    yield figures.older_text(document) or ""
    if document["memory_peak_bytes"] is not None:
        yield f"peak memory {figures.size_text(document['memory_peak_bytes'])}"
    for each in document["copies"]:
        yield (
            f"{each['count']:,} copies {readable_name(each['kind'])} ({each['memory']}): "
            f"{figures.copied_text(each['bytes'])} in {figures.time_text(each['seconds'])}"
        )
    collectives = figures.collective_rows(document)
    yield _table(figures.COLLECTIVE_HEADER, collectives, _MOST_KERNELS, "collectives")
    yield _steps(document["steps"])
    header = ("kernel", "runs", "time", "share", "tensor cores", "occupancy")
    kernels = [row[:-1] for row in figures.kernel_rows(document["kernels"], _NAME_WIDTH)]
    yield _table(header, kernels, _MOST_KERNELS, "kernels")


def _time(document: ProfileDocument) -> Iterator[Block]:
    kernels = document["time"]["span_seconds"]
    time = figures.judged_time(document) or document["time"]
    span = time["span_seconds"]
    whole = figures.time_text(span)
    steps = f", {whole} from its first step" if whole != figures.time_text(kernels) else ""
    yield f"{figures.time_text(kernels)} from its first kernel to its last{steps}"
    rows = [
        (figures.CAUSES[part], figures.time_text(value), f"{value / span:.1%}")
        for part, value in figures.idle_parts(time).items()
        if value > 0
    ]
    yield _table(("where it goes", "time", "share"), rows)


def _steps(steps: Sequence[ProfileDocument]) -> Table:
    header = ("step", "time", "kernels", "host wait", "loader")
    rows = []
    for step in steps:
        of_host = figures.idle_parts(step["time"])["host_wait"], step["loader_seconds"]
        times = step["seconds"], step["time"]["kernel_seconds"], *of_host
        rows.append((step["name"], *map(figures.time_text, times)))
    return _table(header, rows, _MOST_STEPS, "steps")


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], most: int | None = None, noun: str = ""
) -> Table:
    """Return the first rows, and the number of others; names and kinds are texts."""
    cut = [(figures.short_text(first, _NAME_WIDTH), *others) for first, *others in rows[:most]]
    more = len(rows) - len(cut)
    columns = (
        name if not place or name == "kind" else (name, CellKind.NUMBER)
        for place, name in enumerate(header)
    )
    return table(columns, cut, f"and {more:,} more {noun}" if more else "")


def _telemetry(document: ProfileDocument | None) -> Block:
    if document is None:
        return ""
    unmatched = "" if document["devices"] else document["unmatched"] or "there is no GPU in it"
    blocks = list[Block]()
    for each in figures.beside(document):
        contradictions = (f"CONTRADICTION: {text}" for text in each["contradictions"])
        texts = (*each["details"], *contradictions, *each["agreements"])
        blocks.append(section(each["title"], Items(texts)) if texts else each["title"])
    return section("Telemetry of the same GPUs and time", unmatched, *blocks)


def _findings(findings: Sequence[dict[str, Any]], lost: str) -> Section:
    complaints = _complaints(findings)
    fine = [each for each in findings if each["finding"] == "optimized"]
    nothing = (lost or "Nothing to change") if fine else "No verdict"
    lines = []
    for each in fine:
        doubt = f" ({_DOUBT})" if figures.is_contradicted(each) else ""
        lines.append(f"not {figures.rule_text(each)}: {each['summary']}{doubt}")
    # Group abstaining rules by reason.
    silent: dict[str, list[str]] = {}
    for finding in findings:
        if finding["abstained"] is not None:
            silent.setdefault(finding["abstained"], []).append(figures.rule_text(finding))
    lines += (f"no verdict on {', '.join(rules)}: {why}" for why, rules in silent.items())
    title = "What to change" if complaints else nothing
    return section(title, *map(_problem, complaints), Items(tuple(lines)))


def _problem(document: dict[str, Any]) -> Section:
    gain = figures.gain_text(document)
    doubt = f"; {_DOUBT}" if figures.is_contradicted(document) else ""
    sure = f"confidence {percent(document['confidence'])}{doubt}"
    blocks = list[Block]()
    for each in document["instructions"]:
        title = f"{each['title']}:"
        if each["language"] == "text":
            blocks.append(section(title, Items(tuple(each["text"].splitlines()))))
        else:
            blocks += (title, Code(each["text"]))
    return section(
        f"{document['reasons'][0]}: {document['summary']}",
        *(option["description"] for option in document["options"]),
        f"gain: {gain} ({sure})" if gain else "",
        *blocks,
    )
