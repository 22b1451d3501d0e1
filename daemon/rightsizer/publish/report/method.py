"""How the numbers of a report were made, in words that every format shares."""

from collections.abc import Iterator

from rightsizer.publish.report.model import ReportModel

__all__ = ["method"]


def method(model: ReportModel) -> Iterator[str]:
    """What whoever doubts a figure wants to know."""
    tiers = sorted({row.tier for row in model.devices if row.used_hours or row.wasted.gpu_hours})
    yield (
        "An agent looked at every GPU about once a second and gave each second one state; the "
        "report adds these seconds up. States, used and unused time sum to what is accounted for; "
        "what is not known is listed as such and is never counted as idle."
    )
    yield (
        f"The telemetry was of the {'tiers' if len(tiers) > 1 else 'tier'} "
        f"{', '.join(tiers) or 'none'}: profiling sees pipes and memory traffic, power infers the "
        "work from the draw, basic sees utilization alone and can tell least."
    )
    yield (
        "Windows older than two days are kept by the hour, so that the span is of whole hours and "
        "a window counts for the hour and the day in which it begins. Energy is that of the GPUs; "
        "a building takes more. GPU time is priced whether it was used or not."
    )
    yield (
        "Savings by the month are of 730 hours. Of advice that excludes other advice only the one "
        "that saves most is counted. What past advice saved was measured, workload before against "
        "workload after, within the time compared."
    )
