"""View of advice: what, why, confidence, evidence, options, outcome."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.model.advice import Advice
from rightsizer.model.finding import Finding, Option, Risk
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds, format_duration
from rightsizer.report.labels import (
    ABSENT,
    PAGE_ACTION_LABELS,
    TIMES,
    MomentLabel,
    display_name,
    moment_label,
    percent_label,
    reason_label,
)
from rightsizer.web.view.totals import interval


def risk_label(risk: Risk) -> str:
    """`very low` of `VeryLow`."""
    return "not known" if risk is Risk.UNKNOWN else reason_label(risk).lower()


def expected_label(option: Option) -> str:
    """Mean shares that are expected with an option, empty where nothing was projected."""
    shares = (
        f"{display_name(signal)} {percent_label(share)}"
        for signal, share in option.utilization.items()
    )
    expected = ", ".join(shares)
    misfit = "its memory does not fit" if option.fits is False else ""
    return "; ".join(filter(None, (misfit, expected and f"expected: {expected}")))


def risks_label(option: Option) -> str:
    """The risk by resource, where that tells more."""
    if len(set(option.risks.values())) <= 1:
        return ""
    return ", ".join(
        f"{display_name(name)} {risk_label(risk)}" for name, risk in option.risks.items()
    )


def time_label(option: Option) -> str:
    """The time of the same work."""
    if option.time_ratio is None:
        return ABSENT
    low = option.time_ratio if option.time_ratio_low is None else option.time_ratio_low
    return f"{TIMES} {interval(low, option.time_ratio_high, '{:.2f}')}"


def cost_label(option: Option) -> str:
    """What it costs an hour."""
    if option.dollars_per_hour_low is None:
        return ABSENT
    low, high = option.dollars_per_hour_low, option.dollars_per_hour_high
    return f"${interval(low, high, '{:,.2f}')} an hour"


_GIB: Final = 2.0**30
_UNITS: Final = {"watts": "W", "celsius": "°C", "hertz": "Hz", "joules": "J"}


def facts_of(
    evidence: Mapping[str, object], names: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The evidence of a finding in words; devices go by the names they have on the page."""
    parts = zip(map(_split, evidence), evidence.values(), strict=True)
    return tuple(
        (display_name(plain), _value(unit, value, names)) for (plain, unit), value in parts
    )


def _split(name: str) -> tuple[str, str]:
    """A name without the unit at its end, and that unit; empty where there is none."""
    plain, _, last = name.rpartition("_")
    is_unit = last in {"ratio", "seconds", "bytes", *_UNITS}
    return (plain or name, last) if is_unit else (name, "")


def _value(unit: str, value: object, names: Mapping[str, str]) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(unit, float(value))
    if isinstance(value, Mapping):
        keys = (_split(str(key)) for key in value)
        parts = (
            f"{names.get(str(key)) or display_name(plain).lower()} "
            f"{_value(own_unit or unit, inside, names)}"
            for (plain, own_unit), (key, inside) in zip(keys, value.items(), strict=True)
        )
        return ", ".join(parts) or "none"
    if isinstance(value, (list, tuple, set, frozenset)):
        between = "; " if any(isinstance(each, Mapping) for each in value) else ", "
        return between.join(_value(unit, inside, names) for inside in value) or "none"
    return names.get(str(value), str(value))


def _number(unit: str, value: float) -> str:
    if unit == "ratio":
        return percent_label(value)
    if unit == "seconds":
        return format_duration(value) if value >= 0 else f"{value:,.4g} s"
    if unit == "bytes":
        return f"{value / _GIB:,.3g}\u00a0GiB"
    number = f"{value:,.4g}" if abs(value) < 1e4 or value % 1 else f"{value:,.0f}"  # noqa: PLR2004 - what `g` would write with an exponent.
    return f"{number}\u00a0{_UNITS[unit]}" if unit else number


@dataclass(frozen=True, slots=True)
class AdviceView:
    """What the template shows of advice beside the advice itself."""

    advice: Advice
    title: str
    """The action and its object: `Release GPU 7`."""
    devices: str
    culprits: str
    """The devices that the trouble comes from, where these are not all of them."""
    action: str
    evidence: tuple[tuple[str, str], ...]
    opened: MomentLabel
    expires: MomentLabel | None
    closed: MomentLabel | None
    is_exclusive: bool
    """Others are open of which only one can be followed."""


def advice_view(
    advice: Advice,
    names: Mapping[str, str],
    now: Nanoseconds,
    exclusive_groups: frozenset[str] = frozenset(),
) -> AdviceView:
    """Advice in words; ages are at `now`, devices by their `names` on the page."""
    finding = advice.finding
    is_all = set(finding.culprits) == set(finding.devices)
    action = PAGE_ACTION_LABELS.get(finding.action, display_name(finding.action))
    return AdviceView(
        advice,
        title=_title(action, finding, names),
        devices=_listed(finding.devices, names),
        culprits="" if is_all else _listed(finding.culprits, names),
        action=action,
        evidence=facts_of(finding.evidence, names),
        opened=moment_label(advice.opened, now),
        expires=moment_label(advice.expires, now) if advice.expires is not None else None,
        closed=moment_label(advice.closed, now) if advice.closed is not None else None,
        is_exclusive=finding.exclusive_group in exclusive_groups,
    )


_THE_GPU: Final = "the GPU"
_TITLE_GPUS: Final = 3
"""More GPUs than this are counted in a title, not named."""


def _title(action: str, finding: Finding, names: Mapping[str, str]) -> str:
    uuids = finding.culprits or finding.devices
    gpus = _listed(uuids, names) if len(uuids) <= _TITLE_GPUS else f"{len(uuids)} GPUs"
    if gpus and re.search(rf"\b{_THE_GPU}\b(?!')", action):
        return action.replace(_THE_GPU, gpus)
    subject = finding.workload.rpartition("/")[2] if finding.workload else gpus
    return f"{action}: {subject}" if subject else action


def outcome_label(advice: Advice) -> str:
    """What came of it, or the reason that was given for its state; empty where neither is known."""
    parts = [advice.why.rstrip(".")] if advice.why else []
    if advice.realized_gpu_hours is not None:
        saved = format_duration(max(0.0, advice.realized_gpu_hours) * 3600.0)
        parts.append(f"{saved} of GPU time saved while before and after were compared")
    return "; ".join(parts)


def reasons_label(finding: Finding) -> str:
    """`Idle held`."""
    return ", ".join(map(reason_label, finding.reasons)) or display_name(finding.kind)


def _listed(uuids: Sequence[str], names: Mapping[str, str]) -> str:
    return ", ".join(names.get(uuid, uuid) for uuid in uuids)
