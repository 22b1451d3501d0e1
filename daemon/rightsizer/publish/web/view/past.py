"""What a report itself knows of the past: the states of the last day."""

from rightsizer.domain.report import Report
from rightsizer.domain.span import DeviceSpan, Span
from rightsizer.publish.web.view.strip import state_times

__all__ = ["past_of_report"]


def past_of_report(report: Report, span: Span) -> dict[str, DeviceSpan]:
    """The cells of the report's own strips that lie in a span."""
    since = report.wall_time - span.length
    found = {}
    for device in report.devices:
        if not device.device.has_mig_instances:
            cells = tuple(cell for cell in device.strip if cell.end > since)
            found[device.device.uuid] = DeviceSpan(cells, state_times(cells))
    return found
