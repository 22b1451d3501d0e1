"""What costs are reckoned with beside prices: how much power a load draws, how clean it is."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["CostSettings"]


@dataclass(frozen=True, slots=True)
class CostSettings:
    """Figures of energy; prices have files of their own."""

    carbon_grams_per_kilowatt_hour: float | None = setting(
        None,
        help="Carbon dioxide equivalents of a kilowatt-hour where the GPUs stand; without it "
        "nothing is said of carbon.",
        minimum=0.0,
        maximum=3000.0,
    )
    serving_power_ratio: float = setting(
        0.6,
        help="What serving draws above idle, of the limit above idle.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="decoding waits for memory and stays below the limit, prompts reach it; assumed",
    )
    training_power_ratio: float = setting(
        0.85,
        help="The same of training.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="large products run at the limit, steps end in communication; assumed",
    )
    power_error_factor: float = setting(
        1.3,
        help="How far off that draw may be either way, with a probability of 90 %; never above "
        "the limit.",
        minimum=1.0,
        source="assumed",
    )
    hours_per_month: float = setting(
        730.0,
        help="Hours of a month, in which GPUs that are rented or owned stand ready.",
        minimum=1.0,
        maximum=744.0,
    )
