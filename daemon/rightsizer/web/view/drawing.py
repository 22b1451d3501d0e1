"""Layout of the topology drawing: boxes in rows, rails of NVLink groups between them; no HTML."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.model.values import GpuLink, LinkKind, Topology


class LinkGroup(Struct, frozen=True):
    """GPUs connected over NVLink, directly or through others of the group."""

    uuids: tuple[str, ...]
    text: str


def nvlink_groups(topology: Topology, uuids: Sequence[str]) -> tuple[LinkGroup, ...]:
    """Return the groups among these GPUs, in order; a GPU without NVLink is in none."""
    links = [link for link in topology.links if link.kind is LinkKind.NVLINK]
    neighbors = topology.nvlink_peers(uuids)
    groups = []
    seen = set[str]()
    for uuid in uuids:
        if uuid not in seen and neighbors[uuid]:
            members = _reached(uuid, neighbors)
            seen |= members
            groups.append(_group([member for member in uuids if member in members], links))
    return tuple(groups)


def _reached(uuid: str, neighbors: Mapping[str, set[str]]) -> set[str]:
    reached = {uuid}
    ahead = [uuid]
    while ahead:
        new = neighbors[ahead.pop()] - reached
        reached |= new
        ahead += new
    return reached


def _group(uuids: Sequence[str], links: Sequence[GpuLink]) -> LinkGroup:
    inside = [link for link in links if link.uuid in uuids and link.peer_uuid in uuids]
    labels = sorted({link.label for link in inside})
    is_complete = len(inside) == len(uuids) * (len(uuids) - 1) // 2
    label = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
    if len(uuids) == 2:  # noqa: PLR2004 - a pair needs no word on how complete it is.
        return LinkGroup(tuple(uuids), f"NVLink {label}")
    return LinkGroup(tuple(uuids), f"NVLink {label}, {'all to all' if is_complete else 'in part'}")


_MARGIN: Final = 10
_BORDER: Final = 1
_APART: Final = 8
"""Between two GPUs of a row."""
_TRUNK: Final = 26
"""Width of the trunk at the left, per NVLink group."""
_BOX: Final = 62
_CHIP: Final = 22
_TITLE: Final = 28
_RAIL: Final = 18
_GAP: Final = 14


class DrawingPlace(Struct, frozen=True):
    """A GPU before layout."""

    uuid: str
    title: str
    detail: str
    state_key: str
    state_name: str
    is_degraded: bool
    chips: tuple[str, ...]
    """Adjacent adapters."""


class Frame(Struct, frozen=True):
    """A NUMA node with its GPUs before layout."""

    title: str
    places: tuple[DrawingPlace, ...]
    chips: tuple[str, ...]


class Box(Struct, frozen=True):
    """A positioned box; `kind` is its class in the style sheet."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    place: DrawingPlace | None = None
    text: str = ""


class DrawingLine(Struct, frozen=True):
    """A line as an SVG path; `text` is placed at its start."""

    kind: str
    path: str
    text: str = ""
    x: float = 0
    y: float = 0


class Drawing(Struct, frozen=True):
    """The whole drawing, with the size of its canvas."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[DrawingLine, ...]


def draw(
    frames: Sequence[Frame], groups: Sequence[LinkGroup], width: float, columns: int
) -> Drawing:
    """Lay out NUMA nodes in a column, GPUs in rows, and NVLink rails above each row."""
    canvas = _Canvas(groups, width, columns)
    for number, frame in enumerate(frames):
        if number:
            canvas.join()
        canvas.add(frame)
    return canvas.drawing()


class _Canvas:
    def __init__(self, groups: Sequence[LinkGroup], width: float, columns: int) -> None:
        self._groups = groups
        self._width = width
        self._columns = columns
        self._left = _TRUNK * len(groups) + (6 if groups else 0)
        self._step = (width - self._left - 2 * _MARGIN + _APART) / columns
        self._boxes: list[Box] = []
        self._lines: list[DrawingLine] = []
        self._rails: dict[int, list[float]] = {}
        self._y = 16.0 if groups else 2.0

    def join(self) -> None:
        x = self._left + (self._width - self._left) / 2
        path = f"M{x:g} {self._y:g}v26"
        self._lines.append(
            DrawingLine("system", path, "SYS: between the NUMA nodes", x + 8, self._y + 17)
        )
        self._y += 26

    def add(self, frame: Frame) -> None:
        top = self._y
        index = len(self._boxes)
        self._y += _TITLE
        for at in range(0, len(frame.places), self._columns):
            self._row(frame.places[at : at + self._columns])
        if frame.chips:
            self._chips_of_node(frame.chips)
        self._y += _GAP - 4
        # Half of a border lies outside of its box, and nothing may exceed the canvas.
        inner = self._width - self._left - 2 * _BORDER
        box = Box("numa", self._left + _BORDER, top, inner, self._y - top, text=frame.title)
        self._boxes.insert(index, box)

    def drawing(self) -> Drawing:
        for number, group in enumerate(self._groups):
            if ys := self._rails.get(number, []):
                x = 8 + number * _TRUNK
                kind = f"rail rail-{number % 4}"
                path = f"M{x} {min(ys):g}V{max(ys):g}" if len(ys) > 1 else f"M{x} {ys[0]:g}h1"
                first = DrawingLine(kind, f"M{x} {min(ys):g}V12", group.text, x, 9)
                self._lines += [DrawingLine(kind, path), first]
        return Drawing(self._width, self._y + 2, tuple(self._boxes), tuple(self._lines))

    def _row(self, row: Sequence[DrawingPlace]) -> None:
        step = self._step
        lanes = sorted(
            {n for n, group in enumerate(self._groups) for p in row if p.uuid in group.uuids}
        )
        top = self._y + _RAIL * len(lanes)
        for at, place in enumerate(row):
            x = self._left + _MARGIN + at * step
            self._boxes.append(Box("gpu", x, top, step - _APART, _BOX, place))
            self._drop(place, x + (step - _APART) / 2, top, lanes)
            for number, chip in enumerate(place.chips):
                y = top + _BOX + 6 + number * (_CHIP + 4)
                self._lines.append(DrawingLine("near", f"M{x + 14:g} {y - 6:g}v6"))
                self._boxes.append(Box("chip", x, y, step - _APART, _CHIP, text=chip))
        self._rail(row, lanes)
        tallest = max((len(place.chips) for place in row), default=0)
        self._y = top + _BOX + tallest * (_CHIP + 4) + 8

    def _drop(self, place: DrawingPlace, x: float, top: float, lanes: Sequence[int]) -> None:
        for lane, number in enumerate(lanes):
            if place.uuid in self._groups[number].uuids:
                y = self._y + lane * _RAIL + 4
                self._lines.append(DrawingLine(f"rail rail-{number % 4}", f"M{x:g} {y:g}V{top:g}"))

    def _rail(self, row: Sequence[DrawingPlace], lanes: Sequence[int]) -> None:
        for lane, number in enumerate(lanes):
            last = max(at for at, p in enumerate(row) if p.uuid in self._groups[number].uuids)
            y = self._y + lane * _RAIL + 4
            end = self._left + _MARGIN + last * self._step + (self._step - _APART) / 2
            path = f"M{8 + number * _TRUNK} {y:g}H{end:g}"
            self._lines.append(DrawingLine(f"rail rail-{number % 4}", path))
            self._rails.setdefault(number, []).append(y)

    def _chips_of_node(self, chips: Sequence[str]) -> None:
        step = self._step
        for at, chip in enumerate(chips):
            row, column = divmod(at, self._columns)
            x = self._left + _MARGIN + column * step
            y = self._y + row * (_CHIP + 4)
            self._boxes.append(Box("chip", x, y, step - _APART, _CHIP, text=chip))
        self._y += -(-len(chips) // self._columns) * (_CHIP + 4)
