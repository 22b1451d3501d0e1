"""Blocks of `rightsizer profile`, from its JSON; charts are on a page alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from rightsizer.io.terminal import counted
from rightsizer.model.values import percent_text
from rightsizer.profiler import figures
from rightsizer.profiler.figures import ProfileDocument, judged_time, size_text, time_text
from rightsizer.profiler.page_charts import (
    COLORS,
    RooflinePoint,
    colored,
    flame_chart,
    ranks_chart,
    roofline_chart,
    roofline_points,
    steps_chart,
    timeline,
)
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    Cell,
    CellKind,
    Chart,
    Code,
    Column,
    Figure,
    Heading,
    Items,
    Key,
    KeyValues,
    Look,
    Section,
    Sentence,
    Table,
    Tile,
    Tiles,
    Tone,
    number_column,
    section,
    shown,
    table,
    table_of,
)
from rightsizer.report.figures import percent
from rightsizer.report.labels import readable_name, reason_label

_MOST_KERNELS: Final = 10
_MOST_COUNTED: Final = 3
_MOST_CHANGES: Final = 5
_MOST_STEPS: Final = 8
_MOST_SPANS: Final = 8
"""Rows that are not only on a page."""
_MOST_LEADS: Final = 3
_PAGE_ROWS: Final = 200
_REST: Final = " are in the JSON"
_PAGE_KERNELS: Final = 1200
"""Of all GPUs of a workload, of which each has at least the next."""
_FEWEST_KERNELS: Final = 15
_PAGE_CHANGES: Final = 12
_NAME_WIDTH: Final = 60
_PAGE_NAME_WIDTH: Final = 160
_ALIKE_POINTS: Final = 2
"""Difference in percentage points up to which GPUs of one program are shown as one."""
_MOST_DEVICES: Final = 64
_MOST_RANKS: Final = 16
"""Of different ones, on one clock."""
_DOUBT: Final = "less sure: telemetry contradicts it"
_CHANGES: Final = ("before", "after", "ratio")
_TILES: Final = (
    ("kernel_seconds", "With a kernel", "of {span}, all GPUs"),
    ("host_wait_seconds", "Waiting for the host", "no kernel was launched"),
    ("exposed_collective_seconds", "Waiting for others", "collectives beside no other kernel"),
)
_FOOTER: Final = (
    "Made by Rightsizer from profilers' files alone. What a change would give is bounded by the "
    "time that its cause exposes; it only advises."
)
_NamedDevice = tuple[str, ProfileDocument]


def profile_blocks(answer: ProfileDocument) -> Iterator[Block]:
    """Yield all workloads."""
    for document in answer["workloads"]:
        yield section(document["workload"], *_lead(document), _tiles(document))
        yield _findings(document)
        yield _telemetry(document["telemetry"])
        if document["against"]:
            yield _against(document["against"])
        yield section("Where the time goes", *_devices(document))
        yield section("Results", *_results(document["profiles"]))
        yield section("Steps of the host", *_host(document["profiles"]))
        yield section("What was read", *map(_source, document["profiles"]))
    broken = (f"{file['source']}: {file['reason']}" for file in answer["broken"])
    yield section("Could not be read, and is in none of the above:", Items(tuple(broken)))
    yield Key((), note=_FOOTER)


def _lead(document: ProfileDocument) -> list[str]:
    """Return the verdict in at most three lines: what to change, and what that gains."""
    if document["against"] and (pace := figures.pace_text(document["against"])):
        return [pace, *_verdict(document)][: _MOST_LEADS + 1]
    return _verdict(document)


def _verdict(document: ProfileDocument) -> list[str]:
    complaints = _with_verdict(document, "inefficient")
    if not complaints:
        if results := [file["benchmark"] for file in document["profiles"] if file["benchmark"]]:
            return [*map(figures.result_text, results[:_MOST_LEADS])]
        nothing = figures.lost_text(document) or "Nothing to change"
        is_judged = bool(_with_verdict(document, "optimized"))
        return [nothing if is_judged else "No verdict: what was not judged is below"]
    lines = []
    for number, finding in enumerate(complaints[:_MOST_LEADS], start=1):
        gain = figures.gain_text(finding).partition(", ")[0] or "gain unknown"
        first = finding["options"][0]["description"] if finding["options"] else ""
        lines.append(f"{number}. {reason_label(finding['reasons'][0])}, {gain}: {first}")
    return lines


def _with_verdict(document: ProfileDocument, kind: str) -> list[dict[str, Any]]:
    return [finding for finding in document["findings"] if finding["finding"] == kind]


def _remedy(finding: ProfileDocument) -> str:
    return " ".join(option["description"] for option in finding["options"])


def _every(profiles: Iterable[ProfileDocument], key: str) -> list[ProfileDocument]:
    return [value for profile in profiles for value in profile[key]]


def _tiles(document: ProfileDocument) -> Tiles:
    devices = _every(document["profiles"], "devices")
    times = [
        {**time, "host_wait_seconds": figures.idle_parts(time)["host_wait"]}
        for device in devices
        if (time := judged_time(device)) is not None
    ]
    span = sum(time["span_seconds"] for time in times)
    tiles = [
        Tile(
            title,
            percent_text(sum(time[name] for time in times) / span),
            detail.format(span=time_text(span)),
        )
        for name, title, detail in _TILES
        if span
    ]
    steps = [step["seconds"] for step in _every(devices, "steps")]
    if steps and span:
        tiles.append(Tile("A step", time_text(sum(steps) / len(steps)), f"mean of {len(steps)}"))
    return Tiles(tuple(tiles))


def _findings(document: ProfileDocument) -> Section:
    complaints = _with_verdict(document, "inefficient")
    fine = _with_verdict(document, "optimized")
    silent: dict[str, list[str]] = {}
    for finding in document["findings"]:
        if finding["abstained"] is not None:
            silent.setdefault(finding["abstained"], []).append(figures.rule_text(finding))
    nothing = ""
    if not complaints:
        lost = figures.lost_text(document) or "No rule has a finding"
        nothing = f"{lost}." if fine or not silent else f"No verdict: {next(iter(silent))}."
    texts = [
        f"not {figures.rule_text(finding)}: {finding['summary']}{_doubt(finding)}"
        for finding in fine
    ]
    texts += (f"no verdict on {', '.join(rules)}: {why}" for why, rules in silent.items())
    rest = section("Ruled out, and not judged", Items(tuple(texts)), look=Look.FOLDED)
    return section("What to change", nothing, *map(_problem, complaints), rest)


def _doubt(finding: ProfileDocument) -> str:
    return f" ({_DOUBT})" if figures.is_contradicted(finding) else ""


def _problem(finding: dict[str, Any]) -> Section:
    gain = figures.gain_text(finding)
    facts = {
        "Finding": reason_label(finding["reasons"][0]),
        "Gain": gain,
        "Confidence": f"{percent(finding['confidence'])}{_doubt(finding)}",
    }
    pairs = KeyValues(tuple((name, text) for name, text in facts.items() if text))
    title = _remedy(finding) or figures.rule_text(finding)
    steps = map(_step, finding["instructions"])
    return section(title, finding["summary"], pairs, *steps, look=Look.CARD)


def _step(step: ProfileDocument) -> Section:
    is_text = step["language"] == "text"
    text = step["text"]
    return section(f"{step['title']}:", Items(tuple(text.splitlines())) if is_text else Code(text))


def _telemetry(document: ProfileDocument | None) -> Block:
    if document is None:
        return ""
    unmatched = "" if document["devices"] else document["unmatched"] or "there is no GPU in it"
    blocks = list[Block]()
    for device in figures.beside(document):
        warnings = (
            Sentence(f"CONTRADICTION: {text}", Tone.WARNING) for text in device["contradictions"]
        )
        details = Items(tuple(device["details"]))
        agreements = Items(tuple(device["agreements"]))
        device_section = section(device["title"], details, *warnings, agreements)
        blocks.append(device_section if shown((device_section,)) else device["title"])
    return section("Telemetry of the same GPUs and time", unmatched, *blocks)


def _against(against: ProfileDocument) -> Section:
    per = against["per"]
    families = map(figures.family_change_row, against["families"])
    kernels = map(figures.family_change_row, against["kernels"])
    return section(
        f"against {against['workload']}",
        *(Sentence(warning, Tone.WARNING) for warning in against["warnings"]),
        _rows(("figure", *_CHANGES), map(figures.change_row, against["changes"])),
        _sentence(figures.kernels_changed_text(against)),
        _rows((f"families, per {per}", *_CHANGES), families),
        _rows(
            (f"kernels, per {per}", *_CHANGES),
            kernels,
            _MOST_CHANGES,
            page_row_maximum=_PAGE_CHANGES,
        ),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _rows(
    header: Sequence[str],
    rows: Iterable[Iterable[Cell]],
    row_maximum: int | None = None,
    **options: Any,
) -> Table:
    """Make a table whose first column and kinds are texts, all others numbers."""
    first, *others = header
    columns: list[Heading] = [Column(first, widest=_NAME_WIDTH)]
    columns += (Column(name) if name == "kind" else number_column(name) for name in others)
    cut: dict[str, Any] = {"page_row_maximum": _PAGE_ROWS, "rest": _REST, **options}
    return table(columns, rows, row_maximum=row_maximum, **cut)


def _devices(document: ProfileDocument) -> Iterator[Block]:
    profiles = document["profiles"]
    devices = _every(profiles, "devices")
    groups = _groups_of(profiles)
    if any(device["time"] for device in devices):
        colors = ((f"g-{color}", figures.CAUSES[part]) for part, color in COLORS.items())
        yield Key(tuple(colors), note="Drag across a timeline to zoom in.")
    yield _ranks(groups, document["clock_offsets_seconds"])
    kernels = min(_PAGE_ROWS, max(_FEWEST_KERNELS, _PAGE_KERNELS // max(1, len(devices))))
    for (first, device), *others in groups:
        drawings = _drawings(first, device, len(groups))
        yield section(first, *_measured(first, device, kernels, drawings))
        for name, like in others:
            title = f"{name}: like {first}, within {_ALIKE_POINTS} points of each share"
            yield section(title, *_measured(name, like, kernels), look=Look.FOLDED)
    more = len(devices) - _MOST_DEVICES
    yield Sentence(f"{more} more GPUs are in the JSON." if more > 0 else "", Tone.FAINT)


def _groups_of(profiles: Iterable[ProfileDocument]) -> list[list[_NamedDevice]]:
    """Group devices that spend their time alike."""
    devices = (
        (f"{_rank(profile)}GPU {device['key']}", device)
        for profile in profiles
        for device in profile["devices"]
    )
    groups: list[list[_NamedDevice]] = []
    for name, device in islice(devices, _MOST_DEVICES):
        alike = next((group for group in groups if _are_alike(group[0][1], device)), None)
        if alike is None:
            groups.append([(name, device)])
        else:
            alike.append((name, device))
    return groups


def _rank(profile: ProfileDocument) -> str:
    return "" if profile["rank"] is None else f"rank {profile['rank']}, "


def _are_alike(one: ProfileDocument, other: ProfileDocument) -> bool:
    """Whether two devices have the same board and spend their time alike."""
    ours = colored(judged_time(one))
    theirs = colored(judged_time(other))
    our_span = sum(ours.values())
    their_span = sum(theirs.values())
    if one["name"] != other["name"] or not our_span or not their_span:
        return False
    return all(
        abs(ours[part] / our_span - theirs[part] / their_span) * 100 <= _ALIKE_POINTS
        for part in ours
    )


def _ranks(groups: Sequence[Sequence[_NamedDevice]], offsets: Mapping[str, float]) -> Section:
    """Draw the first of each group on one clock; empty without two whose clocks are known."""
    named = []
    of_named = {}
    for (key, device), *others in groups[:_MOST_RANKS]:
        name = f"{key.partition(',')[0]}{f' +{len(others)}' if others else ''}"
        if key in offsets and device["timeline"] is not None:
            named.append((name, device))
            of_named[name] = offsets[key]
    note = (
        "Aligned by the ends of their collectives, which are at once on all: the rank that is in a "
        "collective for the shortest time came last, and the others waited for it. Loader and host "
        "are waits for them; +1 is another rank like it."
    )
    drawn = (Key((), note=note), Chart(partial(ranks_chart, named, of_named)))
    return section("All ranks on one clock", *(drawn if len(named) > 1 else ()))


def _measured(
    name: str, device: ProfileDocument, kernels: int, drawings: Iterable[Block] = ()
) -> Iterator[Block]:
    size = size_text(device["memory_bytes"]) if device["memory_bytes"] else ""
    peak = device["memory_peak_bytes"]
    used = "" if peak is None else f"{size_text(peak)} used at the most"
    yield ", ".join(filter(None, (device["name"], size, used)))
    yield from _time(name, device)
    yield _sentence(figures.older_text(device))
    if launches := device["launches"]:
        took = time_text(launches["host_seconds"])
        short = f"{counted(launches['short_kernels'], 'kernel')} shorter than a launch"
        many = counted(launches["count"], "launch", "launches")
        yield f"{many} in {took} of the host; {short}"
    steps = device["steps"][:_PAGE_ROWS]
    rows = map(_step_row, device["steps"])
    header = ("step", "time", "kernels", "host wait", "loader")
    yield Chart(partial(steps_chart, name, steps)) if steps else ""
    yield _rows(header, rows, _MOST_STEPS, rest=f" steps{_REST}")
    yield from drawings
    copies = ("copies", "host memory", "times", "size", "time", "rate")
    yield _rows(copies, map(_copy_row, device["copies"]))
    collectives = figures.collective_rows(device)
    yield _rows(figures.COLLECTIVE_HEADER, collectives, _MOST_KERNELS)
    yield from _kernels(device["kernels"], kernels)
    yield from _speed_of_light(device["kernels"])


def _time(name: str, device: ProfileDocument) -> Iterator[Block]:
    if device["time"] is None:
        yield "no timeline: how long it was idle is not known"
        return
    of_kernels = device["time"]["span_seconds"]
    time = judged_time(device) or device["time"]
    span = time["span_seconds"]
    whole = time_text(span)
    steps = f", {whole} from its first step" if whole != time_text(of_kernels) else ""
    if device["timeline"] is not None and (drawn := timeline(name, device["timeline"])):
        yield Chart(lambda: drawn)
    yield f"{time_text(of_kernels)} from its first kernel to its last{steps}"
    parts = {part: value for part, value in figures.idle_parts(time).items() if value > 0}
    bar = (
        BarPart(figures.CAUSES[part], f"g-{COLORS[part]}", value / span)
        for part, value in parts.items()
    )
    yield Bar(name, tuple(bar))
    yield table_of(
        parts,
        {
            "where it goes": figures.CAUSES.__getitem__,
            number_column("time"): lambda part: time_text(parts[part]),
            number_column("share"): lambda part: f"{parts[part] / span:.1%}",
        },
    )


def _step_row(step: ProfileDocument) -> Sequence[str]:
    of_host = figures.idle_parts(step["time"])["host_wait"], step["loader_seconds"]
    times = step["seconds"], step["time"]["kernel_seconds"], *of_host
    return step["name"], *map(time_text, times)


def _copy_row(copies: ProfileDocument) -> Sequence[str]:
    size = copies["bytes"]
    seconds = copies["seconds"]
    return (
        readable_name(copies["kind"]),
        copies["memory"],
        f"{copies['count']:,}",
        figures.copied_text(size),
        time_text(seconds),
        f"{size_text(size / seconds)}/s" if seconds and size else "-",
    )


def _drawings(name: str, device: ProfileDocument, count: int) -> Iterator[Block]:
    """Yield charts of one of `count` different GPUs, or how to record them."""
    if device["frames"]:
        how = "Click a frame to zoom in, one above to zoom out; or use arrows, Enter and Escape."
        flame = Chart(partial(flame_chart, name, device["frames"], count))
        yield section("Device time by operator, module and line", Key((), note=how), flame)
    elif device["time"]:
        yield Key((), note=_NO_FRAMES)
    points = roofline_points(device)
    if points:
        least = " Traffic is the least that a product needs." if device["products"] else ""
        below = (
            "What is below the slope waits for memory, what is below a level for arithmetic; the "
            f"larger a point, the more time.{least}"
        )
        what = "product" if device["products"] else "kernel"
        header = (what, "format", "calls", "time", "rate", "FLOP a byte", "of the roof")
        rows = map(RooflinePoint.row, points)
        yield section(
            f"Roofline of {device['roof']['board']}",
            Key((), note=below),
            Chart(partial(roofline_chart, name, points)),
            _rows(header, rows, _MOST_CHANGES, page_row_maximum=_PAGE_CHANGES),
        )
    elif device["kernels"]:
        yield Key((), note=f"No roofline: {figures.no_roof_text(device)}.")


_NO_FRAMES: Final = (
    "By operator or line the time is not known: record host activities, with stacks and modules "
    "(PyTorch: with_stack=True, with_modules=True), or NVTX ranges."
)
_TENSOR: Final = {True: "yes", False: "no", None: "-"}


def _kernels(kernels: Sequence[ProfileDocument], kernel_maximum: int) -> Iterator[Block]:
    whole = sum(kernel["seconds"] for kernel in kernels) or 1.0
    families = figures.family_times(kernels)
    yield table_of(
        families if families[1:] else (),
        {
            "kernels, by what they are for": lambda family: family[0],
            "share": lambda family: _share(family[0], family[2]),
            number_column("time"): lambda family: time_text(family[1]),
        },
    )
    columns: dict[Heading, Callable[[ProfileDocument], Cell]] = {
        Column("kernel", widest=_NAME_WIDTH): lambda kernel: figures.short_text(
            kernel["name"], _PAGE_NAME_WIDTH
        ),
        "family": lambda kernel: readable_name(kernel["family"]),
        number_column("runs"): lambda kernel: kernel["count"],
        number_column("time"): lambda kernel: Figure(
            kernel["seconds"], time_text(kernel["seconds"])
        ),
        "share": lambda kernel: _share("share of the time", kernel["seconds"] / whole),
        "tensor cores": lambda kernel: _TENSOR[kernel["uses_tensor_cores"]],
        ("occupancy", CellKind.PERCENT): lambda kernel: kernel["occupancy_ratio"],
        ("DRAM", CellKind.PERCENT): lambda kernel: kernel["dram_ratio"],
    }
    yield table_of(
        kernels,
        columns,
        caption="Kernels by their summed time",
        row_maximum=_MOST_KERNELS,
        page_row_maximum=kernel_maximum,
        rest=_REST,
        search="kernel, family",
    )


def _speed_of_light(kernels: Iterable[ProfileDocument]) -> Iterator[Block]:
    """Yield what the longest counted kernels reach of their board's peaks."""
    with_counters = (kernel for kernel in kernels if kernel["compute_ratio"] is not None)
    for kernel in islice(with_counters, _MOST_COUNTED):
        ratios = {
            "multiprocessors": kernel["compute_ratio"],
            "busiest part of the memory": (kernel["counters"] or {}).get("memory_ratio"),
            "DRAM": kernel["dram_ratio"],
            "warps in flight": kernel["occupancy_ratio"],
        }
        name = figures.short_text(kernel["name"], _NAME_WIDTH)
        bars = [(part, _share(part, ratio)) for part, ratio in ratios.items() if ratio is not None]
        yield table(
            (Column("speed of light"), Column("of the peak")), bars, caption=f"{name} reaches"
        )


def _share(name: str, share: float) -> Bar:
    return Bar(name, (BarPart(name, "g-working", share),), f"{share:>6.1%}")


def _results(profiles: Iterable[ProfileDocument]) -> Iterator[Section | str]:
    for result in (file["benchmark"] for file in profiles if file["benchmark"]):
        valid = {True: "valid", False: "INVALID", None: "validity not stated"}[result["is_valid"]]
        name = " ".join(filter(None, (result["benchmark"], result["scenario"])))
        pairs = tuple((figure, f"{value:,.6g}") for figure, value in result["figures"].items())
        title = f"{name}: {valid}"
        yield section(title, KeyValues(pairs)) if pairs else title


def _host(profiles: Sequence[ProfileDocument]) -> Iterator[Block]:
    for profile in profiles:
        steps = figures.host_step_rows(profile["host_steps"])
        caption = profile["source"] if profiles[1:] else ""
        yield _rows(figures.HOST_STEP_HEADER, steps, _MOST_STEPS, caption=caption)
    spans = figures.span_rows(
        [
            {**span, "name": f"{_rank(profile) if profiles[1:] else ''}{span['name']}"}
            for profile in profiles
            for span in profile["host_spans"]
        ]
    )
    header = ("on the host", "kind", "times", "time")
    yield _rows(header, spans, _MOST_SPANS, page_row_maximum=_PAGE_CHANGES)


def _source(file: ProfileDocument) -> Section:
    rank = "" if file["rank"] is None else f", rank {file['rank']}"
    of = f" of {file['world_size']}" if file["world_size"] else ""
    unread = ", ".join(f"{what} ({count:,})" for what, count in file["unread"].items())
    unread = f"of them of no use here: {unread}" if unread else "all of use here"
    title = f"{file['source']}: {file['format']} {file['version']}".rstrip() + rank + of
    read = counted(file["events"], "event")
    return section(title, Items((f"{read} read; {unread}", *file["notes"])))
