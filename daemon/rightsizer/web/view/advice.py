"""View of advice: action, reason, confidence, evidence, options, outcome."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.model.values import (
    Action,
    Advice,
    Finding,
    Nanoseconds,
    Option,
    format_duration,
    percent_text,
)
from rightsizer.report.advice_groups import GroupKey, Unit, advice_groups, to_do
from rightsizer.report.labels import (
    ABSENT,
    TIMES,
    action_label,
    display_name,
    interval_text,
    moment_label,
    reason_label,
    risk_word,
    uncapitalized,
)


def expected_label(option: Option) -> str:
    """Return the mean usage expected with an option, empty without a projection."""
    shares = (
        f"{display_name(signal)} {percent_text(share)}"
        for signal, share in option.utilization.items()
    )
    expected = ", ".join(shares)
    misfit = "its memory does not fit" if option.fits is False else ""
    return "; ".join(filter(None, (misfit, expected and f"expected: {expected}")))


def risks_label(option: Option) -> str:
    """Return the risk by resource, if they differ."""
    if len(set(option.risks.values())) <= 1:
        return ""
    return ", ".join(
        f"{display_name(name)} {risk_word(risk)}" for name, risk in option.risks.items()
    )


def time_label(option: Option) -> str:
    """Return the relative time of the same work."""
    if option.time_ratio is None:
        return ABSENT
    low = option.time_ratio if option.time_ratio_low is None else option.time_ratio_low
    return f"{TIMES} {interval_text(low, option.time_ratio_high, '{:.2f}'.format)}"


def cost_label(option: Option) -> str:
    """Return the hourly cost."""
    if option.dollars_per_hour_low is None:
        return ABSENT
    ends = option.dollars_per_hour_low, option.dollars_per_hour_high
    return f"${interval_text(*ends, '{:,.2f}'.format)} an hour"


_THE_GPU: Final = "the GPU"
_TITLE_GPUS: Final = 3
"""Titles count GPUs beyond this number instead of naming them."""


def title_label(finding: Finding, names: Mapping[str, str]) -> str:
    """Return the action and its object: `Release GPU 7`."""
    action = action_label(finding.action, finding.kind)
    uuids = finding.culprits or finding.devices
    gpus = names_label(uuids, names) if len(uuids) <= _TITLE_GPUS else f"{len(uuids)} GPUs"
    if gpus and re.search(rf"\b{_THE_GPU}\b(?!')", action):
        return action.replace(_THE_GPU, gpus)
    subject = finding.workload.rpartition("/")[2] if finding.workload else gpus
    return f"{action}: {subject}" if subject else action


_TO_A_BOARD: Final = frozenset({Action.CHANGE_GPU_TYPE, Action.SHARE_MIG})


def target_label(finding: Finding) -> str:
    """Return the best board or MIG slice to change to, such as `NVIDIA A30`; empty for others."""
    if finding.action not in _TO_A_BOARD:
        return ""
    best = next((option.description for option in finding.options if option.target), "")
    return best.partition(":")[0]


def grouped(advice: Sequence[Advice]) -> tuple[tuple[Unit[Advice], ...], ...]:
    """Group advice as it is displayed, preserving order."""
    return advice_groups(advice, _group_key)


def due(advice: Sequence[Advice]) -> list[Advice]:
    """Return advice without the alternatives of others."""
    return to_do(advice, lambda piece: (piece.finding.exclusive_group, piece.id))


def _group_key(piece: Advice) -> GroupKey:
    finding = piece.finding
    return GroupKey(
        piece.id,
        finding.exclusive_group,
        finding.kind,
        finding.workload,
        finding.action,
        finding.reasons,
    )


def group_label(group: Sequence[Unit[Advice]], names: Mapping[str, str]) -> str:
    """Return a title such as `Release 8 GPUs`."""
    finding = group[0][0].finding
    uuids = {uuid for first, *_ in group for uuid in first.finding.devices}
    are_instances = all(names.get(uuid, "").startswith("MIG") for uuid in uuids)
    gpus = f"{len(uuids)} {'MIG instances' if are_instances else 'GPUs'}"
    action = action_label(finding.action, finding.kind)
    return action.replace(_THE_GPU, gpus) if _THE_GPU in action else f"{action}: {gpus}"


def outcome_label(advice: Advice) -> str:
    """Return the outcome, or the reason given for its state; empty if neither is known."""
    parts = [advice.why.rstrip(".")] if advice.why else []
    if advice.realized_gpu_hours is not None:
        saved = format_duration(max(0.0, advice.realized_gpu_hours) * 3600.0)
        parts.append(f"{saved} of GPU time saved while before and after were compared")
    return "; ".join(parts)


def ended_label(advice: Advice, now: Nanoseconds) -> str:
    """Return an action that is no longer due: `expired 6 h ago: use CUDA graphs`."""
    action = uncapitalized(action_label(advice.finding.action, advice.finding.kind))
    when = "" if advice.closed is None else f" {moment_label(advice.closed, now).age} ago"
    return f"{advice.state}{when}: {action}"


def reasons_label(finding: Finding) -> str:
    """Return the reasons, such as `Idle, but held`."""
    return ", ".join(map(reason_label, finding.reasons)) or display_name(finding.kind)


def culprits_label(finding: Finding, names: Mapping[str, str]) -> str:
    """Return the devices that cause the problem, unless all of them do."""
    is_all = set(finding.culprits) == set(finding.devices)
    return "" if is_all else names_label(finding.culprits, names)


def names_label(uuids: Sequence[str], names: Mapping[str, str]) -> str:
    """Return devices by their names on the page."""
    return ", ".join(names.get(uuid, uuid) for uuid in uuids)
