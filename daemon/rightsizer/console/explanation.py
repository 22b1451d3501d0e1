"""Explanation as text: headings, and lines for a terminal of 100 columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.io.codec import JsonObject
from rightsizer.io.terminal import wrapped
from rightsizer.model.advice import AdviceState
from rightsizer.model.device import BY_INDEX
from rightsizer.model.units import format_duration, percent_text, utc_text
from rightsizer.report.evidence_labels import evidence_labels, value_label
from rightsizer.report.explanation import risk_word, risks_text
from rightsizer.report.labels import action_label, dollars_label, gpus_label

_INDENT: Final = "  "
_EXPIRED: Final = "over, superseded, or its workload is gone"
_SHOWN_APART: Final = ("window_seconds", "known_seconds", "coverage_ratio", "tier")
"""Evidence shown in the first line."""


def explanation_text(document: JsonObject) -> str:
    """Format the whole explanation; empty sections are omitted."""
    advice = document["advice"]
    options = (
        f"{each['rank']}. {each['description']}: {each['why']}" for each in document["options"]
    )
    sections = (
        ("Evidence", _evidence(document)),
        ("Savings", _savings(advice["savings"])),
        ("Options", options),
        ("How to", _instructions(advice["instructions"])),
        ("Confidence", [document["confidence"]["product"]]),
        ("Risk", _risk(advice)),
        ("Thresholds", map(_threshold, document["thresholds"])),
        ("Lifecycle", _lifecycle(document["lifecycle"])),
        (
            "The same numbers from a Prometheus with this agent",
            _queries(document["queries"]),
        ),
    )
    blocks = [list(_wrapped(_head(advice), ""))]
    blocks += ([title, *_wrapped(lines, _INDENT)] for title, lines in sections)
    return "\n\n".join("\n".join(lines) for lines in blocks if len(lines) > 1)


def _head(advice: JsonObject) -> Iterator[str]:
    reasons = ", ".join(advice["reasons"]) or "nothing to complain of"
    where = advice["workload"] or "no known workload"
    yield f"{advice['id']}  {advice['finding']} ({reasons}), severity {advice['severity']}"
    yield advice["summary"]
    names = _names(advice["devices"])
    yield f"Where: {where} on {', '.join(names.get(uuid, uuid) for uuid in advice['devices'])}"
    yield f"Action: {action_label(advice['action'], advice['finding'])}"


def _threshold(threshold: JsonObject) -> str:
    value = threshold["value"]
    source = threshold["source"]
    is_time = threshold["unit"] == "seconds" and isinstance(value, int | float)
    value_text = format_duration(value) if is_time else value_label("", value, {})
    end = f" Source: {source}." if source else ""
    return f"{threshold['setting']}: {value_text}. {threshold['help']}{end}"


def _risk(advice: JsonObject) -> Iterator[str]:
    risk = risk_word(advice["risk"])
    if not advice["options"] or not advice["options"][0]["risks"]:
        yield f"{risk}: that the workload fails after the change"
    else:
        yield f"{risk} (of the first option: {risks_text(advice['options'][0]['risks'])})"


def _evidence(document: JsonObject) -> Iterator[str]:
    window = document["window"]
    if window["seconds"] is not None:
        lasted = format_duration(window["seconds"])
        known = format_duration(window["known_seconds"])
        tier = ", ".join(sorted(set(window["tier"] or ())))
        span = (
            ""
            if window["to"] is None
            else f"from {_when(window['from'])} to {_when(window['to'])}: "
        )
        yield (
            f"{span}{lasted}, of which {known} are known "
            f"({percent_text(window['coverage_ratio'])}), {tier} tier"
        )
    advice = document["advice"]
    evidence = {
        name: _of_only_device(value, advice["devices"])
        for name, value in advice["evidence"].items()
        if name not in _SHOWN_APART
    }
    facts = evidence_labels(evidence, _names(advice["devices"]))
    yield from (f"{name}: {value}" for name, value in facts)


def _names(devices: Sequence[str]) -> Mapping[str, str]:
    """Return names of the devices that a log names by index."""
    by_index = (uuid for uuid in devices if uuid.startswith(BY_INDEX))
    return {uuid: f"GPU {uuid.removeprefix(BY_INDEX)}" for uuid in by_index}


def _of_only_device(value: object, devices: Sequence[str]) -> object:
    """Return the value by device itself, if there is one device."""
    if isinstance(value, Mapping) and len(devices) == 1 and [*value] == [*devices]:
        return value[devices[0]]
    return value


def _savings(savings: JsonObject) -> Iterator[str]:
    if savings["reason"]:
        yield f"n/a ({savings['reason']})"
    if savings["dollars_per_hour_low"] is not None:
        ends = savings["dollars_per_hour_low"], savings["dollars_per_hour_high"]
        yield dollars_label(*ends, savings.get("dollars_per_hour_typical"))
    if savings["gpus_low"] is not None:
        yield gpus_label(savings["gpus_low"], savings["gpus_high"])
    for name, unit in (
        ("gpu_hours_per_month", "GPU-hours a month"),
        ("kilowatt_hours_per_month", "kWh a month, at the GPUs"),
    ):
        if savings[f"{name}_high"]:
            low, high = (f"{savings[f'{name}_{end}']:,.0f}" for end in ("low", "high"))
            yield f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
    if savings["price_source"]:
        date = f" of {savings['price_date']}" if savings["price_date"] else ""
        yield f"prices{date}, not quotes, from: {savings['price_source']}"


def _instructions(instructions: Sequence[JsonObject]) -> Iterator[str]:
    for each in instructions:
        yield f"{each['title']}:"
        # Commands are never wrapped.
        yield from (f"\t{line}" for line in each["text"].splitlines())


def _lifecycle(lifecycle: JsonObject | None) -> Iterator[str]:
    if lifecycle is None:
        yield "no advice: this is what the rule says now"
        return
    by = f" by {lifecycle['actor']}" if lifecycle["actor"] else ""
    usual = _EXPIRED if lifecycle["state"] == AdviceState.EXPIRED else ""
    why = f": {lifecycle['why'] or usual}" if lifecycle["why"] or usual else ""
    yield f"{lifecycle['state']}{by}{why}"
    for name in ("opened", "updated", "expires", "closed", "verified"):
        if lifecycle[name] is not None:
            yield f"{name} {_when(lifecycle[name])}"
    if lifecycle["realized_gpu_hours"] is not None:
        yield f"saved {lifecycle['realized_gpu_hours']:.1f} GPU-hours so far"


def _queries(queries: Sequence[JsonObject]) -> Iterator[str]:
    for each in queries:
        of = " ".join(filter(None, (each["resource"], each["device"])))
        yield f"{each['name']}{f' of {of}' if of else ''} = {each['value']:g}"
        yield f"\t{each['promql']}"


def _wrapped(lines: Iterable[str], indent: str) -> Iterator[str]:
    for line in lines:
        if line.startswith("\t"):
            yield f"{indent}{_INDENT}{line[1:]}"
        else:
            yield from wrapped(line, len(indent))


def _when(time: float) -> str:
    return utc_text(time, "%H:%M:%S")
