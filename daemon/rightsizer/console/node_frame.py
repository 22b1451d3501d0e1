"""A node's GPUs as an agent describes them: one row each, with its past and its advice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.console.advice import dearest_first, dollars_per_day
from rightsizer.console.command import printable
from rightsizer.io.codec import convert
from rightsizer.model.served_load import ServedLoad, ServedNeed
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.report.labels import action_label
from rightsizer.report.rows import GPU_COLUMNS, GpuRow, RowColumn, SubjectUse, savings_fields

JsonMapping = Mapping[str, Any]

_STRIP_CELLS: Final = 24


class NodeFrame(Struct, frozen=True):
    """An agent's answers at one time."""

    report: JsonMapping
    strip: JsonMapping


class NodeRow(GpuRow, frozen=True, kw_only=True):
    """A GPU or MIG instance as an agent describes it."""

    cells: tuple[str, ...]
    """Dominant state of each interval; empty if unknown."""
    processes: tuple[JsonMapping, ...]
    advice: JsonMapping | None
    """First open recommendation, in the order of `advise`."""

    @property
    def text(self) -> str:
        """Text that a filter searches."""
        models = (load.model for load in self.served)
        return " ".join((self.title, self.model, self.state, *self.holders, *models)).lower()


def node_rows(frame: NodeFrame) -> list[NodeRow]:
    """Return a row for each device with states of its own."""
    past = {device["uuid"]: device for device in frame.strip["devices"]}
    opened = [advice for advice in frame.report["advice"] if advice["closed"] is None]
    # Agents of former versions tell no models.
    served = convert(frame.report.get("served", ()), tuple[ServedLoad, ...])
    needs = convert(frame.report["agent"].get("served_needs", ()), tuple[ServedNeed, ...])
    return [
        replace(
            _row(device, past.get(device["uuid"], {}), opened),
            served=tuple(load for load in served if device["uuid"] in load.devices),
            needs=tuple(need for need in needs if device["uuid"] in need.devices),
        )
        for device in frame.report["devices"]
        if not device["has_mig_instances"]
    ]


def _row(device: JsonMapping, past: JsonMapping, opened: Sequence[JsonMapping]) -> NodeRow:
    uuid = device["uuid"]
    down = device["down"]
    waste: Mapping[str, float] = past.get("waste_seconds", {})
    hours = device.get("capacity_ratio", 1.0) / HOUR_SECONDS
    unused = {cause: seconds * hours for cause, seconds in waste.items()}
    about = [advice for advice in opened if uuid in advice["devices"]]
    advice = min(about, key=dearest_first, default=None)
    return NodeRow(
        uuid=uuid,
        title=printable(device["title"]),
        model=printable(_model(device)),
        state=device["state"],
        cells=_stretches(past.get("cells", ())),
        readings=device["signals"],
        holders=tuple(printable(workload["workload"]) for workload in device["workloads"]),
        processes=tuple(device["processes"] or ()),
        down="" if down is None else printable(str(down.get("detail") or down.get("reason"))),
        advice=advice,
        use=SubjectUse.of(past.get("used_seconds", 0.0) * hours, unused),
        **({} if advice is None else _advised(uuid, advice)),
    )


def _advised(uuid: str, advice: JsonMapping) -> dict[str, Any]:
    """Return what a row says of its recommendation."""
    return {
        "to_do": action_label(advice["action"], advice["finding"]),
        "severity": advice["severity"],
        "rank": dearest_first(advice),
        "is_cause": uuid in advice["culprits"],
        **savings_fields(dollars_per_day(advice), len(advice["devices"])),
    }


def _model(device: JsonMapping) -> str:
    """Return the model's name, without the vendor and without the profile of an instance."""
    name = str(device["name"] or device["board"] or "").removeprefix("NVIDIA ")
    return name.removesuffix(f" MIG {device['mig_profile']}")


def _stretches(cells: Sequence[JsonMapping]) -> tuple[str, ...]:
    """Reduce the strip to the number of cells that fit a row."""
    size = max(1, -(-len(cells) // _STRIP_CELLS))
    states = list[str]()
    for at in range(0, len(cells), size):
        seconds = Counter[str]()
        for cell in cells[at : at + size]:
            seconds.update(cell["state_seconds"])
        states.append(max(seconds, key=seconds.__getitem__, default=""))
    return tuple(states)


def _by(column: RowColumn, row: NodeRow) -> tuple[float | str, str]:
    value = column.sort(row) if column.sort else 0.0
    return value if isinstance(value, str) else -value, row.title


SORTS: Final = {"urgency": lambda row: (*row.order, row.title)} | {
    column.name.lower(): partial(_by, column) for column in GPU_COLUMNS if column.sort
}
"""Sort orders by name; the first one is the default."""
