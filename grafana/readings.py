"""What the driver reads, and what holds the clocks back."""

from grafana.panels import Sized, time_series
from grafana.queries import Json, query, select, share

__all__ = ["readings"]


def readings() -> list[Sized]:
    """Conditions first, then the readings that explain them."""
    conditions = share(
        "rightsizer_condition_seconds_total", "condition", "rightsizer_state_seconds_total"
    )
    reasons = f"sum by (reason) ({select('rightsizer_clock_event_reason')}) > 0"
    received = select("rightsizer_pcie_receive_bytes_per_second")
    sent = select("rightsizer_pcie_transmit_bytes_per_second")
    panels = [
        time_series(
            "Conditions",
            "Share of each step during which a condition held; they may overlap.",
            [query(f"{conditions} > 0", "{{uuid}} {{condition}}")],
            "percentunit",
            maximum=1,
        ),
        time_series(
            "Clock event reasons",
            "Devices whose clocks are held where they are, by the driver's reason.",
            [query(reasons, "{{reason}}")],
            "none",
        ),
        _readings_panel("GPU busy", "Share of time with a kernel resident.", "gpu_busy_ratio"),
        _readings_panel("Memory used", "Framebuffer used of its total.", "memory_used_ratio"),
        _readings_panel("Power", "Draw of the board.", "power_watts", "watt"),
        _readings_panel("Temperature", "Of the GPU.", "temperature_celsius", "celsius"),
        _readings_panel("SM clock", "Clock of the multiprocessors.", "sm_clock_hertz", "hertz"),
        time_series(
            "PCIe traffic",
            "Received by and sent from each device.",
            [query(received, "{{uuid}} receive"), query(sent, "{{uuid}} transmit", letter="B")],
            "Bps",
        ),
    ]
    return [(panel, 12, 7) for panel in panels]


def _readings_panel(title: str, description: str, name: str, unit: str = "percentunit") -> Json:
    maximum = 1 if unit == "percentunit" else None
    targets = [query(select(f"rightsizer_{name}"), "{{uuid}}")]
    return time_series(title, description, targets, unit, maximum=maximum)
