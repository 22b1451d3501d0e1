"""A replay for people: where each device's time went, and what was found."""

from collections.abc import Iterator

from rightsizer.cli.counted import counted
from rightsizer.domain.finding import Finding
from rightsizer.domain.units import format_duration, seconds
from rightsizer.runtime.replay import DeviceSummary, Replay

__all__ = ["finding_line", "replay_text"]

_STATES_SHOWN = 4


def replay_text(result: Replay) -> str:
    """The replay in a few lines for each device."""
    lines = [line for summary in result.devices for line in _device_lines(summary)]
    complaints = [finding for finding in result.findings if finding.is_complaint]
    abstained = sum(finding.abstained is not None for finding in result.findings)
    lines.append("")
    lines.extend(finding_line(finding) for finding in complaints)
    lines.append(
        f"{counted(len(complaints), 'finding')}, {counted(abstained, 'abstention')}, "
        f"{counted(len(result.advice), 'piece of advice', 'pieces of advice')} "
        "opened over the recording."
    )
    return "\n".join(lines)


def finding_line(finding: Finding) -> str:
    """One finding in one line."""
    return f"{finding.id}  {finding.summary} [{finding.action}, {finding.confidence:.2f}]"


def _device_lines(summary: DeviceSummary) -> Iterator[str]:
    device, window, fit = summary.device, summary.window, summary.provisioning
    yield (
        f"{device.uuid}  {device.name or 'unknown board'}  "
        f"{format_duration(seconds(window.accounted))}  {window.tier} tier"
    )
    accounted = window.accounted
    if not accounted:
        yield "  nothing to account for: a single reading has no length"
        return
    longest = sorted(window.states.items(), key=lambda item: -item[1])[:_STATES_SHOWN]
    shares = ", ".join(f"{state} {time / accounted:.1%}" for state, time in longest)
    yield f"  {shares}"
    if fit.overprovisioned is not None:
        yield f"  {fit.overprovisioned:.0%} over-provisioned by the largest need"
