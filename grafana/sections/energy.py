"""What is drawn, and what it was drawn for."""

from grafana.colors import CAUSE_COLORS, USED_COLOR
from grafana.panels import Panel, fixed, lines, stack
from grafana.queries import named, over, per_second, select

__all__ = ["energy_by_cause", "power"]


def power() -> Panel:
    """Draw under its limit."""
    return lines(
        "Power and its limit",
        "Draw of the board, and enforced limit.",
        "watt",
        over(named(select("rightsizer_power_watts")), "GPU {{gpu}} draw"),
        over(named(select("rightsizer_power_limit_watts")), "GPU {{gpu}} limit", letter="B"),
    )


def energy_by_cause() -> Panel:
    """Draw by use."""
    used = per_second("rightsizer_used_joules_total")
    wasted = per_second("rightsizer_waste_joules_total")
    return fixed(
        stack(
            "Power by use",
            "Watts used, and wasted by cause.",
            "watt",
            over(f"sum({used})", "used"),
            over(f"sum by (cause) ({wasted})", "{{cause}}", letter="B"),
        ),
        {"used": USED_COLOR, **CAUSE_COLORS},
    )
