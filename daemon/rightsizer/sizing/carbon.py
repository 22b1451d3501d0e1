"""The carbon dioxide that goes with energy, where somebody says how much."""

from rightsizer.sizing.estimate import Interval

__all__ = ["carbon_kilograms"]


def carbon_kilograms(
    kilowatt_hours: Interval, grams_per_kilowatt_hour: float | None
) -> Interval | None:
    """Carbon dioxide equivalents; `None` without an intensity, which differs by place and hour."""
    if grams_per_kilowatt_hour is None:
        return None
    return kilowatt_hours.scaled(grams_per_kilowatt_hour / 1000.0)
