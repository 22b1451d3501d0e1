"""Display labels of states, causes, conditions, resources, actions, shares and times."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

from msgspec import Struct

from rightsizer.model.table import table_rows
from rightsizer.model.values import (
    Action,
    Cause,
    Condition,
    FindingKind,
    Nanoseconds,
    Reason,
    Resource,
    Risk,
    Savings,
    Severity,
    State,
    UnknownReason,
    dollars_text,
    format_duration,
    seconds,
    typical,
    utc_text,
)


class StateGroup(StrEnum):
    """States grouped by their meaning for cost."""

    WORKING = "working"
    WAITING = "waiting"
    STALLED = "stalled"
    HELD = "held"
    FREE = "free"
    NO_DATA = "no_data"


GROUPS: Final = tuple(StateGroup)
"""From productive to no data; charts stack in this order."""
_Word = TypeVar("_Word", bound=StrEnum)
_ROWS: Final = table_rows(__file__, "labels.csv")
"""One row per enumeration member, in legend order; the page has its own labels for some."""


def action_label(action: str, kind: str) -> str:
    """Return the label of a finding's action, such as `Release the GPU`; others as they are."""
    if action == Action.CHANGE_GPU_TYPE and kind == FindingKind.UNDERPROVISIONED:
        return _LARGER
    return ACTION_LABELS.get(action) or display_name(action)


def _labels(kind: type[_Word], column: str = "label") -> Mapping[_Word, str]:
    rows = (row for row in _ROWS if row["kind"] == kind.__name__)
    return {kind(row["word"]): row[column] or row["label"] for row in rows}


GROUP_MEANINGS: Final = _labels(StateGroup)
GROUP_OF: Final = {state: StateGroup(group) for state, group in _labels(State, "group").items()}
STATE_LABELS = _labels(State)
PAGE_STATE_LABELS = _labels(State, "page_label")
STATE_ORDER: Final = tuple(STATE_LABELS)
"""From work over waiting to idle: order of strips and legends."""
CAUSE_LABELS = _labels(Cause)
PAGE_CAUSE_LABELS = _labels(Cause, "page_label")
CONDITION_LABELS: Final = _labels(Condition)
UNKNOWN_LABELS: Final = _labels(UnknownReason)
ACTION_LABELS: Final[Mapping[str, str]] = dict(_labels(Action).items())
REASON_LABELS: Final[Mapping[str, str]] = dict(_labels(Reason).items())
EVIDENCE_LABELS: Final[Mapping[str, str]] = {
    row["word"]: row["label"] for row in _ROWS if row["kind"] == "Evidence"
}
"""By name in the evidence without its unit; other names are labels themselves."""
_LARGER: Final = "Move to a larger GPU"
SEVERITY_COLORS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "act",
    Severity.HIGH: "act",
    Severity.MEDIUM: "tight",
    Severity.LOW: "headroom",
}
"""Most urgent first; always shown with the word, never by color alone."""
HOURS_A_DAY: Final = 24.0
_LEAST_GPUS: Final = 0.005
"""Smaller values round to 0 in two decimals."""
ABSENT: Final = "\u2013"
"""Dash for unknown values."""
TIMES: Final = "\u00d7"
_CONFIDENCE: Final = ((0.95, "almost certain"), (0.8, "likely"), (0.6, "probable"))
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ABBREVIATIONS: Final = {
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "gpus": "GPUs",
    **{word: word.upper() for word in ("numa", "gpu", "mig", "cuda", "sm", "nvml", "dram", "mps")},
}


def interval_text(low: float, high: float | None, written: Callable[[float], str]) -> str:
    """Format both ends, as in `1 to 2`, or one number where they are written alike."""
    ends = map(written, (low, low if high is None else high))
    return " to ".join(dict.fromkeys(ends))


def gpus_label(low: float, high: float | None) -> str:
    """Format a number of GPUs, as in `0.22 to 0.28 GPUs`."""
    count = interval_text(low, high, lambda gpus: f"{gpus:,.2f}".rstrip("0").rstrip("."))
    return f"{count} {'GPU' if count.split()[-1] == '1' else 'GPUs'}"


def dollars_label(low: float, high: float | None, point: float | None = None) -> str:
    """Format hourly money per day, as in `$87 a day ($41 to $233)`; negative is a cost."""
    least, greatest = (dollars * HOURS_A_DAY for dollars in (low, low if high is None else high))
    if least < 0 < greatest:
        return f"from {dollars_text(-least)} more to {dollars_text(greatest)} less a day"
    costs, more = ("costs ", "more ") if least < 0 else ("", "")
    largest = max(abs(least), abs(greatest))
    amounts = abs(least), abs(greatest), abs(typical(low, high, point)) * HOURS_A_DAY
    first, last, middle = (dollars_text(amount, beside=largest) for amount in amounts)
    near, far = (first, last) if costs == "" else (last, first)
    ends = "" if near == far else f" ({near} to {far})"
    return f"{costs}{middle} {more}a day{ends}"


def saved_gpus_label(savings: Savings, gpus: int) -> str:
    """GPUs saved, or what becomes of those that stay as many; empty if that saves nothing."""
    if savings.gpus_low is None:
        return ""
    if (savings.gpus_high or savings.gpus_low) >= _LEAST_GPUS:
        return gpus_label(savings.gpus_low, savings.gpus_high)
    return replaced_label(savings, gpus)


def replaced_label(savings: Savings, gpus: int) -> str:
    """Say that as many cheaper GPUs take the place of these; empty if they are not cheaper."""
    if savings.dollars_per_hour <= 0:
        return ""
    return "a cheaper GPU in place of this one" if gpus == 1 else "cheaper GPUs in place of these"


def savings_label(savings: Savings) -> str:
    """Money and GPUs, or why there is no figure."""
    parts = []
    if savings.dollars_per_hour_low is not None:
        ends = savings.dollars_per_hour_low, savings.dollars_per_hour_high
        parts.append(dollars_label(*ends, savings.dollars_per_hour))
    if savings.gpus_low is not None and (savings.gpus_high or 0.0) >= _LEAST_GPUS:
        parts.append(gpus_label(savings.gpus_low, savings.gpus_high))
    return ", ".join(parts) or (f"n/a ({savings.reason})" if savings.reason else "n/a")


def headroom_text(amount: str) -> str:
    """Say how much headroom there is besides what is wasted, and what that is."""
    return f"; {amount} more is headroom, left by GPUs at work" if amount else ""


def confidence_label(confidence: float) -> str:
    """Return a confidence as a word."""
    return next((word for least, word in _CONFIDENCE if confidence >= least), "uncertain")


def _spelled(words: Iterable[str]) -> str:
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


def reason_label(reason: str) -> str:
    """Return the label of a finding's reason, such as `Waiting for the CPU`; others as they are."""
    return REASON_LABELS.get(reason, reason)


def risk_word(risk: str) -> str:
    """Format a risk, as in `very low` for `VeryLow`."""
    return "unknown" if risk == Risk.UNKNOWN else _WORD_START.sub(" ", risk).lower()


def display_name(word: str) -> str:
    """Convert an identifier to a label, such as `pcie_bound` to `PCIe bound`."""
    text = readable_name(word)
    return text[:1].upper() + text[1:]


def uncapitalized(name: str) -> str:
    """Lower a label's first letter for use in a sentence, except in abbreviations like PCIe."""
    return name if name[1:2].isupper() else name[:1].lower() + name[1:]


def readable_name(name: str) -> str:
    """Convert `power_cap` to `power cap`, and `add_gpus` to `add GPUs`."""
    return _spelled(name.split("_"))


GROUP_NAMES: Final[Mapping[str, str]] = {
    **{group: readable_name(group) for group in GROUPS},
    StateGroup.HELD: "held but unused",
}
RESOURCE_LABELS: Final[Mapping[Resource, str]] = {
    resource: _spelled(resource.split("_")) for resource in Resource
}


def first_names(names: Sequence[str], shown_maximum: int) -> str:
    """Join the first names, and add how many more there are."""
    more = len(names) - shown_maximum
    return ", ".join(names[:shown_maximum]) + (f" and {more} more" if more > 0 else "")


def unknown_parts(reasons: Mapping[UnknownReason, float]) -> list[tuple[str, float]]:
    """Return the reasons of unknown time with labels, longest first."""
    by_time = sorted(reasons.items(), key=lambda item: -item[1])
    return [(UNKNOWN_LABELS[reason], time) for reason, time in by_time]


class MomentLabel(Struct, frozen=True):
    """A time for people, and for `<time datetime>`."""

    text: str
    machine: str
    age: str


def moment_label(time: Nanoseconds, now: Nanoseconds) -> MomentLabel:
    """Return the label of a wall time in UTC, with its age."""
    utc = datetime.fromtimestamp(seconds(time), UTC)
    age = format_duration(max(0.0, seconds(now - time)))
    return MomentLabel(utc_text(seconds(time)), utc.strftime("%Y-%m-%dT%H:%M:%SZ"), age)
