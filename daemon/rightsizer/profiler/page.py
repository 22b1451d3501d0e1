"""HTML page of profiles, from their JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from rightsizer.model.units import percent_text
from rightsizer.profiler import figures
from rightsizer.profiler.figures import (
    ProfileDocument,
    change_row,
    copied_text,
    judged_time,
    size_text,
    time_text,
)
from rightsizer.profiler.page_charts import (
    WORDS,
    RooflinePoint,
    colored,
    flame_chart,
    ranks_chart,
    roofline_chart,
    roofline_points,
    steps_chart,
    timeline,
)
from rightsizer.report import charts
from rightsizer.report.labels import readable_name
from rightsizer.report.template import rendered, scripts

_ALIKE_POINTS: Final = 2
"""Difference in percentage points up to which GPUs of one program are shown as one."""
_MOST_DEVICES: Final = 64
_MOST_RANKS: Final = 16
"""Of different ones, on one clock."""
_TILES: Final = (
    ("kernel_seconds", "With a kernel", "of {span}, all GPUs"),
    ("host_wait_seconds", "Waiting for the host", "no kernel was launched"),
    ("exposed_collective_seconds", "Waiting for others", "collectives beside no other kernel"),
)
_NamedDevice = tuple[str, ProfileDocument]


def profile_document(answer: ProfileDocument) -> str:
    """Render all workloads of an answer."""
    return rendered(
        "profile.html",
        {
            "change_row": change_row,
            "copy_row": _copy_row,
            "family_change_row": figures.family_change_row,
            "point_row": RooflinePoint.row,
            "size": size_text,
            "time": time_text,
        },
        alike=f"{_ALIKE_POINTS} points of each share",
        answer=answer,
        charts=charts,
        colored=colored,
        every=lambda profiles, key: [each for profile in profiles for each in profile[key]],
        figures=figures,
        flame=flame_chart,
        groups_of=_groups_of,
        most_devices=_MOST_DEVICES,
        ranks=_ranks,
        roofline_chart=roofline_chart,
        roofline_points=roofline_points,
        results_of=_results_of,
        steps_chart=steps_chart,
        tiles=_tiles,
        timeline=timeline,
        words=WORDS,
        **scripts("tables.js", "charts.js"),
    )


def _tiles(devices: Sequence[ProfileDocument]) -> Iterator[tuple[str, str, str]]:
    times = [
        {**time, "host_wait_seconds": figures.idle_parts(time)["host_wait"]}
        for device in devices
        if (time := judged_time(device)) is not None
    ]
    if not (span := sum(each["span_seconds"] for each in times)):
        return
    for name, title, detail in _TILES:
        share = sum(each[name] for each in times) / span
        yield title, percent_text(share), detail.format(span=time_text(span))
    steps = [step["seconds"] for device in devices for step in device["steps"]]
    if steps:
        yield "A step", time_text(sum(steps) / len(steps)), f"mean of {len(steps)}"


def _groups_of(profiles: Iterable[ProfileDocument]) -> list[list[_NamedDevice]]:
    """Group devices that spend their time alike."""
    devices = (
        (f"{'' if rank is None else f'rank {rank}, '}GPU {device['key']}", device)
        for profile in profiles
        for rank, device in ((profile["rank"], each) for each in profile["devices"])
    )
    groups: list[list[_NamedDevice]] = []
    for name, device in islice(devices, _MOST_DEVICES):
        group = next((each for each in groups if _are_alike(each[0][1], device)), None)
        if group is None:
            groups.append([(name, device)])
        else:
            group.append((name, device))
    return groups


def _ranks(groups: Sequence[Sequence[_NamedDevice]], offsets: Mapping[str, float]) -> str:
    """Render the first of each group on one clock; empty without two whose clocks are known."""
    named = []
    of_named = {}
    for (key, device), *others in groups[:_MOST_RANKS]:
        name = f"{key.partition(',')[0]}{f' +{len(others)}' if others else ''}"
        if key in offsets and device["timeline"] is not None:
            named.append((name, device))
            of_named[name] = offsets[key]
    return ranks_chart(named, of_named) if len(named) > 1 else ""


def _are_alike(one: ProfileDocument, other: ProfileDocument) -> bool:
    """Whether two devices have the same board and spend their time alike."""
    ours, theirs = (colored(judged_time(each)) for each in (one, other))
    our_span = sum(ours.values())
    their_span = sum(theirs.values())
    if one["name"] != other["name"] or not our_span or not their_span:
        return False
    return all(
        abs(ours[part] / our_span - theirs[part] / their_span) * 100 <= _ALIKE_POINTS
        for part in ours
    )


def _copy_row(document: ProfileDocument) -> Sequence[str]:
    rate = (
        document["bytes"] / document["seconds"]
        if document["seconds"] and document["bytes"]
        else None
    )
    return (
        readable_name(document["kind"]),
        document["memory"],
        f"{document['count']:,}",
        copied_text(document["bytes"]),
        time_text(document["seconds"]),
        "-" if rate is None else f"{size_text(rate)}/s",
    )


def _results_of(profiles: Iterable[ProfileDocument]) -> Iterator[Sequence[str]]:
    for document in (
        profile["benchmark"] for profile in profiles if profile["benchmark"] is not None
    ):
        valid = {True: "valid", False: "invalid", None: "not stated"}[document["is_valid"]]
        name = " ".join(filter(None, (document["benchmark"], document["scenario"])))
        for figure, value in document["figures"].items():
            yield name, valid, readable_name(figure), f"{value:,.6g}"
        if not document["figures"]:
            yield name, valid, "", ""
