"""What the driver reads, and what holds the clocks back."""

from grafana.colors import CONDITION_COLORS
from grafana.panels import Panel, fixed, lines
from grafana.queries import named, over, select, share

__all__ = ["conditions", "reading", "readings", "throttle_reasons"]

_DEVICE = "{{instance}} GPU {{gpu}} {{mig_profile}}"


def readings() -> list[Panel]:
    """Conditions first, then the readings that explain them."""
    used = select("rightsizer_memory_used_bytes")
    received = named(select("rightsizer_pcie_receive_bytes_per_second"))
    sent = named(select("rightsizer_pcie_transmit_bytes_per_second"))
    return [
        conditions(),
        throttle_reasons(),
        reading("GPU busy", "Share of time with a kernel resident.", "gpu_busy_ratio").max(1),
        lines(
            "Memory used",
            "Framebuffer used of its total.",
            "percentunit",
            over(named(f"({used} / {select('rightsizer_memory_total_bytes')})"), _DEVICE),
        ).max(1),
        reading("Power", "Draw of the board.", "power_watts", "watt"),
        reading("Temperature", "Of the GPU.", "temperature_celsius", "celsius"),
        reading("SM clock", "Clock of the multiprocessors.", "sm_clock_hertz", "hertz"),
        lines(
            "PCIe traffic",
            "Received by and sent from each device.",
            "Bps",
            over(received, f"{_DEVICE} received"),
            over(sent, f"{_DEVICE} sent", letter="B"),
        ),
    ]


def conditions() -> Panel:
    """Shares of time, which may overlap."""
    held = share("rightsizer_condition_seconds_total", "condition")
    panel = lines(
        "Conditions",
        "Share of each step in which a condition held, on the device with most; they may overlap.",
        "percentunit",
        over(f"max by (condition) ({held}) > 0", "{{condition}}"),
    )
    return fixed(panel, CONDITION_COLORS).max(1).no_value("No condition held")


def throttle_reasons() -> Panel:
    """The driver's own words."""
    reasons = f"sum by (reason) ({select('rightsizer_clock_event_reason')}) > 0"
    return lines(
        "Clock event reasons",
        "Devices whose clocks are limited, by the driver's reason.",
        "short",
        over(reasons, "{{reason}}"),
    ).no_value("No clock is limited")


def reading(title: str, description: str, name: str, unit: str = "percentunit") -> Panel:
    """One line for each device."""
    return lines(title, description, unit, over(named(select(f"rightsizer_{name}")), _DEVICE))
