"""An option of a piece of advice, as a row of its table."""

import re
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.finding import Option, Risk
from rightsizer.publish.web.view.money import interval, savings_words
from rightsizer.publish.web.view.words import ABSENT, TIMES, percent, spoken

__all__ = ["OptionView", "option_view", "risk_words"]

_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class OptionView:
    """What the template shows of an option."""

    description: str
    expected: str
    """Mean shares that are expected there, empty where nothing was projected."""
    risk: str
    risks: str
    """By resource, where that tells more."""
    time: str
    cost: str
    saves: str


def option_view(option: Option) -> OptionView:
    """An option in words; what is not known is a dash."""
    fits = {True: "", False: "its memory does not fit", None: ""}[option.fits]
    expected = ", ".join(
        f"{spoken(signal)} {percent(share)}" for signal, share in option.utilization.items()
    )
    return OptionView(
        description=option.description,
        expected="; ".join(filter(None, (fits, expected and f"expected: {expected}"))),
        risk="not known" if option.risk is Risk.UNKNOWN else risk_words(option.risk),
        risks=", ".join(f"{spoken(name)} {risk_words(risk)}" for name, risk in option.risks.items())
        if len(set(option.risks.values())) > 1
        else "",
        time=_time(option),
        cost=_cost(option),
        saves=savings_words(option.savings) if option.savings is not None else ABSENT,
    )


def risk_words(risk: Risk) -> str:
    """`very low` of `VeryLow`."""
    return _WORD_START.sub(" ", risk).lower()


def _time(option: Option) -> str:
    if option.time_ratio is None:
        return ABSENT
    low = option.time_ratio if option.time_ratio_low is None else option.time_ratio_low
    return f"{TIMES} {interval(low, option.time_ratio_high, '{:.2f}')}"


def _cost(option: Option) -> str:
    if option.dollars_per_hour_low is None:
        return ABSENT
    low, high = option.dollars_per_hour_low, option.dollars_per_hour_high
    return f"${interval(low, high, '{:,.2f}')} an hour"
