"""One thing to do: which action, on which advice, who decided it, and why."""

from dataclasses import dataclass

from rightsizer.domain.advice import Advice
from rightsizer.domain.units import seconds
from rightsizer.domain.workload import Workload
from rightsizer.publish.json_form import Form, advice_form, workload_form
from rightsizer.runtime.actions.settings import ActionSettings

__all__ = ["ORDER_VERSION", "Order"]

ORDER_VERSION = 1
"""Grows when a key of the form changes its meaning or goes; keys are added without."""


@dataclass(frozen=True, slots=True)
class Order:
    """The facts, however it is done."""

    id: str
    """The same however often a message is sent, so that a receiver can tell."""
    settings: ActionSettings
    advice: Advice
    workload: Workload | None
    """Who holds the devices; `None` where nobody does."""
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
        """The same as plain values for JSON.

        Args:
            node: What the machine is called.
        """
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
