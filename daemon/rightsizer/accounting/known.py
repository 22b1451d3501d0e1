"""What is kept of a device beside its windows: its facts, and who holds it since when."""

import json
from dataclasses import asdict, dataclass
from typing import Any

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
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a device: {error!r}") from None


def _workload(form: dict[str, Any]) -> Workload:
    return Workload(
        **form
        | {
            "kind": WorkloadKind(form["kind"]),
            "workload_class": WorkloadClass(form["workload_class"]),
            "allocator": Allocator(form["allocator"]),
        }
    )
