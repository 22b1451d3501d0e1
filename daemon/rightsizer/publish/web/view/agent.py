"""The agent itself: what it runs on, and what of it fails."""

from dataclasses import dataclass

from rightsizer.domain.report import Report
from rightsizer.publish.web.view.words import spoken

__all__ = ["AgentView", "agent_view"]


@dataclass(frozen=True, slots=True)
class AgentView:
    """What the template shows of the agent."""

    versions: tuple[tuple[str, str], ...]
    failing: tuple[str, ...]
    """Collectors without success at the last tick."""
    jobs: tuple[str, ...]
    """Jobs whose last run failed."""
    released: str
    """What was let go on request, empty where nothing was."""


def agent_view(report: Report) -> AgentView:
    """The agent of a report; errors are told in its log, where paths may be read."""
    return AgentView(
        versions=tuple(
            (spoken(name.removesuffix("_version")), version)
            for name, version in report.node.driver.items()
        ),
        failing=tuple(
            name for name, outcome in report.agent.collectors.items() if not outcome.success
        ),
        jobs=tuple(job.name for job in report.agent.jobs if job.last_error is not None),
        released=report.node.released or "",
    )
