"""What is kept of a device beside its windows: its facts, its holder, the range of its draw."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from rightsizer.accounting.power import LearnedPower
from rightsizer.domain.device import Device, MigInstance
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Allocator, Workload, WorkloadClass, WorkloadKind

__all__ = ["KnownDevice", "from_text", "to_text"]


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device with its holder."""

    device: Device
    holder: Workload | None = None
    held_since: Nanoseconds = 0
    power: LearnedPower | None = None
    """The range of its draw as far as it was learned."""


def to_text(known: KnownDevice) -> str:
    """The device as JSON."""
    return json.dumps(asdict(known))


def from_text(text: str) -> KnownDevice:
    """The device that `to_text` wrote.

    Raises:
        ValueError: the text is not such a device.
    """
    try:
        form: dict[str, Any] = json.loads(text)
        facts, holder = form["device"], form["holder"]
        power = form.get("power")  # Former versions did not keep it.
        mig = facts["mig"]
        return KnownDevice(
            device=Device(
                **facts
                | {
                    "mig": None if mig is None else MigInstance(**mig),
                    "assumed": tuple(facts.get("assumed", ())),
                }
            ),
            holder=None if holder is None else _workload(holder),
            held_since=form["held_since"],
            power=None if power is None else _power(power),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a device: {error!r}") from None


def _power(form: dict[str, Any]) -> LearnedPower:
    idle_watts = form["idle_watts"]
    return LearnedPower(
        lowest_watts=float(form["lowest_watts"]),
        highest_watts=float(form["highest_watts"]),
        idle_watts=None if idle_watts is None else float(idle_watts),
        empty_seconds=float(form["empty_seconds"]),
    )


def _workload(form: dict[str, Any]) -> Workload:
    return Workload(
        **form
        | {
            "kind": WorkloadKind(form["kind"]),
            "workload_class": WorkloadClass(form["workload_class"]),
            "allocator": Allocator(form["allocator"]),
        }
    )
