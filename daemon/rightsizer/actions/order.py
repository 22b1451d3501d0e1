"""Action order and its result, and the context that decisions rest on."""

from collections.abc import Callable, Mapping, Sequence

from rightsizer.actions.repository import ActionOutcome
from rightsizer.actions.settings import ActionSettings
from rightsizer.model.advice import Advice
from rightsizer.model.frozen import dataclass
from rightsizer.model.report import Report
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.workload import Workload
from rightsizer.report.json_encoder import Form, advice_form, workload_form


@dataclass(frozen=True, slots=True)
class ActionContext:
    """Asked again at every look, from a job's thread."""

    report: Callable[[], Report | None]
    """The latest."""
    advice: Callable[[], Sequence[Advice]]
    """All of it, what was closed too."""
    claims: Callable[[], Mapping[str, Nanoseconds]]
    """Since when advice is claimed, by its id."""
    claim: Callable[[str, str, str], object]
    """Claims advice, by whom and why, so that before and after are compared."""


def holders(report: Report | None) -> dict[str, Workload]:
    """The workloads that hold a device now, by key."""
    if report is None:
        return {}
    return {
        held.workload.key: held.workload for device in report.devices for held in device.holdings
    }


ORDER_VERSION = 1
"""Grows when a key of the form changes its meaning or goes; keys are added without."""


@dataclass(frozen=True, slots=True)
class ActionOrder:
    """The facts, however it is done."""

    id: str
    """The same however often a message is sent, so that a receiver can tell."""
    settings: ActionSettings
    advice: Advice
    workload: Workload | None
    """Who holds the devices; `None` where the devices are free."""
    actor: str

    @property
    def placeholders(self) -> dict[str, str]:
        """What stands for the words in braces of a command; empty where there is nothing."""
        finding = self.advice.finding
        return {
            "id": finding.id,
            "reason": str(finding.reasons[0]),
            "workload": "" if self.workload is None else self.workload.name,
            "namespace": "" if self.workload is None else self.workload.namespace,
            "devices": ",".join(finding.devices),
            "action": str(finding.action),
            "target": finding.options[0].target if finding.options else "",
        }

    def form(self, node: str) -> Form:
        """The same as plain values for JSON, with the name of the machine."""
        return {
            "version": ORDER_VERSION,
            "delivery": self.id,
            "action": self.settings.name,
            "actor": self.actor,
            "node": node,
            "time": seconds(self.advice.updated),
            "workload": None if self.workload is None else workload_form(self.workload),
            "advice": advice_form(self.advice),
        }


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What a program or a receiver made of it."""

    outcome: ActionOutcome
    why: str = ""
    """What went wrong, in our words."""
    status: int | None = None
    said: str = ""
