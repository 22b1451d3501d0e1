"""Incidents: one finding of the part of a node that devices share, in place of one for each.

A part is the likely cause if most devices below it complain of what it can cause, or if their rule
says that a part's complaints are one matter, as of a GPU's free MIG instances. A fault of a GPU's
hardware is an incident of that GPU, whoever holds it; several sick GPUs of one workload are as many
incidents. An open incident keeps its id while devices and workloads join and leave, and ends when
too few devices complain.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.engine import Failed, Tuned, reraise
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    INCIDENT,
    Advice,
    Case,
    Device,
    Finding,
    SharedPart,
    Topology,
    Workload,
)

_LEAST_DEVICES: Final = 2
"""What happens to a single device of a part is its own."""

PlaceOf = Callable[[Device], Hashable]
"""Returns the node of a device."""
CasesOf = Callable[[Rule[Any]], Sequence[Case]]
"""Returns the cases that a rule judged."""


def host_of(device: Device) -> Hashable:
    """Host name of a device's node; empty for the agent's own."""
    return device.host


_Complaints = Mapping[str, frozenset[str]]
"""Culprits by key of the workload."""


class Part(Struct, frozen=True):
    """Part of a node with the devices below it."""

    kind: SharedPart
    name: str
    """Display name: `PCIe switch or port 0000:3a:00.0`."""
    members: frozenset[str]
    """Uuids of whole GPUs and MIG instances, without parents of instances."""
    address: str = ""
    """PCI address of a bridge."""

    @property
    def least(self) -> int:
        """Number of devices that must complain."""
        return min(_LEAST_DEVICES, len(self.members))

    @property
    def key(self) -> str:
        """Key in the ledger: its first device tells the parts of different nodes apart."""
        return "/".join(filter(None, (self.kind, self.address, min(self.members))))

    @classmethod
    def of_advice(cls, advice: Advice) -> Self:
        """Part of an open incident, as far as that names it."""
        facts = advice.finding.incident
        kind, name = facts.get("part", SharedPart.NODE), facts.get("name", "Node")
        return cls(SharedPart(kind), name, frozenset(advice.finding.devices))


def parts_of(devices: Iterable[Device], topology: Topology | None) -> tuple[Part, ...]:
    """GPUs, and parts of a node that at least two share, without parents of MIG instances."""
    by_board: dict[str, list[Device]] = {}
    for device in sorted(devices, key=lambda device: (device.index, device.uuid)):
        by_board.setdefault(device.board_uuid, []).append(device)

    def part(kind: SharedPart, name: str, boards: Iterable[str], address: str = "") -> Part:
        uuids = frozenset(device.uuid for board in boards for device in by_board[board])
        return Part(kind, name, uuids, address)

    parts = [
        part(SharedPart.BOARD, some[0].board_title, (board,)) for board, some in by_board.items()
    ]
    if len(by_board) >= _LEAST_DEVICES:
        if topology is not None:
            for address, boards in _below_bridges(by_board, topology).items():
                name = f"PCIe switch or port {address}"
                parts.append(part(SharedPart.PCIE, name, boards, address))
            domains = _domains(topology.nvlink_peers(by_board))
            parts += [part(SharedPart.NVLINK, "NVLink domain", boards) for boards in domains]
        host = next(iter(by_board.values()))[0].host
        parts.append(part(SharedPart.NODE, f"Node {host}".strip(), by_board))
    return tuple(parts)


def _below_bridges(boards: Iterable[str], topology: Topology) -> dict[str, frozenset[str]]:
    """Boards by the bridge above them; of bridges above the same boards only the nearest."""
    below: dict[str, set[str]] = {}
    nearness: dict[str, int] = {}
    for board in boards:
        placement = topology.placements.get(board)
        for steps, bridge in enumerate(placement.bridges if placement else ()):
            below.setdefault(bridge.pci_bus_id, set()).add(board)
            nearness[bridge.pci_bus_id] = steps
    nearest: dict[frozenset[str], str] = {}
    for address in sorted(below, key=lambda address: (nearness[address], address)):
        if len(below[address]) >= _LEAST_DEVICES:
            nearest.setdefault(frozenset(below[address]), address)
    return {address: boards_below for boards_below, address in nearest.items()}


def _domains(peers: Mapping[str, AbstractSet[str]]) -> list[frozenset[str]]:
    """Sets of boards that reach each other, directly or over others."""
    left = dict(peers)
    domains = []
    while left:
        domain: set[str] = set()
        reached = {min(left)}
        while reached:
            domain |= reached
            reached = {peer for board in reached for peer in left.pop(board)} - domain
        if len(domain) >= _LEAST_DEVICES:
            domains.append(frozenset(domain))
    return domains


def open_incidents(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """Open incidents, oldest first."""
    incidents = (
        recommendation
        for recommendation in advice
        if recommendation.is_open and recommendation.finding.incident.get("key")
    )
    return tuple(sorted(incidents, key=lambda incident: (incident.opened, incident.id)))


def watched_places(
    incidents: Iterable[Advice], cases: Iterable[Case]
) -> frozenset[tuple[str, str]]:
    """Workload key and rule of the cases on which open incidents depend."""
    present = tuple(cases)
    return frozenset(
        (case.key, advice.finding.rule)
        for advice in incidents
        for case in present
        if not {device.uuid for device in case.devices}.isdisjoint(advice.finding.devices)
    )


class Incident(Struct, frozen=True):
    """Judgement on a part, and what it replaces of the judgements on workloads."""

    judgement: Judgement
    folded: _Complaints


def with_incidents(  # noqa: PLR0913, PLR0917 - what was judged, by which rules, where.
    judgements: Sequence[Judgement],
    rules: Iterable[Rule[Any]],
    cases_of: CasesOf,
    tuned: Tuned,
    advice: Iterable[Advice] = (),
    failed: Failed = reraise,
    place_of: PlaceOf = host_of,
) -> tuple[Judgement, ...]:
    """Return the judgements in order, those of a shared cause suppressed, then the incidents.

    Independent of the order of judgements. A rule that raises is passed to `failed`, and folds
    nothing. A judgement is folded only if incidents stand for all of its culprits, so that every
    device remains named by a finding that may become advice.
    """
    incidents = open_incidents(advice)
    result = list(judgements)
    for rule in rules:
        places = [
            place
            for place, judgement in enumerate(judgements)
            if judgement.finding.rule == rule.name
        ]
        watched = [incident for incident in incidents if incident.finding.rule == rule.name]
        if not watched and not any(judgements[place].finding.shared_by for place in places):
            continue
        incidents_of_rule: list[Incident] = []
        for cases in _by_node(cases_of(rule), place_of):
            node = _NodeRule(rule, tuned, cases, [judgements[place] for place in places])
            try:
                incidents_of_rule += node.incidents(watched)
            except Exception as error:  # noqa: BLE001 - a rule's fault must stop no other.
                failed(rule.name, "", error)
        for place in places:
            result[place] = _folded(judgements[place], incidents_of_rule)
        result += [incident.judgement for incident in incidents_of_rule]
    return tuple(result)


def _folded(judgement: Judgement, incidents: Iterable[Incident]) -> Judgement:
    """Fold a judgement if incidents stand for all of its culprits."""
    by_key = {
        incident.judgement.key: incident.folded[judgement.key]
        for incident in incidents
        if judgement.key in incident.folded
    }
    taken = frozenset[str]().union(*by_key.values())
    if not by_key or not taken.issuperset(judgement.finding.culprits):
        return judgement
    return judgement.folded_into(tuple(by_key))


def _by_node(cases: Iterable[Case], place_of: PlaceOf) -> list[list[Case]]:
    """Cases by node; of one over several nodes, to each the part on it."""
    by_node: dict[Hashable, list[Case]] = {}
    for case in cases:
        if case.node is None:
            continue
        places = [place_of(device) for device in case.devices]
        for place in dict.fromkeys(places):
            by_node.setdefault(place, []).append(_on_place(case, places, place))
    return list(by_node.values())


def _on_place(case: Case, places: Sequence[Hashable], place: Hashable) -> Case:
    """Return the part of a case on a node; `places` are those of its devices."""
    if all(other == place for other in places):
        return case
    rows = [
        row
        for row, other in zip(
            zip(case.devices, case.windows, case.provisioning, strict=True), places, strict=True
        )
        if other == place
    ]
    devices, windows, provisioning = map(tuple, zip(*rows, strict=True))
    return replace(case, devices=devices, windows=windows, provisioning=provisioning, past=None)


class _NodeRule:
    """Verdicts of a rule on the workloads of one node."""

    def __init__(
        self,
        rule: Rule[Any],
        tuned: Tuned,
        cases: Sequence[Case],
        judgements: Iterable[Judgement],
    ) -> None:
        self._rule, self._tuned = rule, tuned
        self._cases = {case.key: case for case in sorted(cases, key=lambda case: case.key)}
        self._judgements = {
            judgement.key: judgement for judgement in judgements if judgement.key in self._cases
        }
        self._devices = {device.uuid: device for case in cases for device in case.devices}
        nodes = (case.node for case in self._cases.values() if case.node is not None)
        topology = next((node.topology for node in nodes if node.topology is not None), None)
        self._parts = parts_of(self._devices.values(), topology)

    def incidents(self, watched: Iterable[Advice]) -> list[Incident]:
        """Return the open incidents on the node, continued, then new ones."""
        here = self._devices.keys()
        continued = [
            incident for incident in watched if not here.isdisjoint(incident.finding.devices)
        ]
        complaints = {
            key: judgement for key, judgement in self._judgements.items() if _is_foldable(judgement)
        }
        kinds = {_kind(complaint.finding) for complaint in complaints.values()}
        kinds |= {_kind(incident.finding) for incident in continued}
        incidents: list[Incident] = []
        for kind in sorted(kinds):
            left = {
                key: uuids
                for key, complaint in complaints.items()
                if _kind(complaint.finding) == kind
                and (uuids := frozenset(complaint.finding.culprits) & here)
            }
            for advice in continued:
                if _kind(advice.finding) == kind:
                    incidents += self._continued(advice, left)
            incidents += self._begun(left)
        return incidents

    def _continued(self, advice: Advice, left: dict[str, frozenset[str]]) -> list[Incident]:
        """Continue an open incident, over a larger part if that has become the likely cause."""
        key = advice.finding.incident["key"]
        part = next((candidate for candidate in self._parts if candidate.key == key), None)
        part = part or Part.of_advice(advice)
        larger = [candidate for candidate in self._parts if candidate.members >= part.members]
        part = self._likeliest(larger, left) or part
        if self._devices.keys().isdisjoint(part.members):
            return []
        taken = self._among(part.members, left)
        finding = None
        if _count(taken) >= part.least:
            finding = self._verdict(part, key, taken)
            if finding is None:
                taken = {}
        else:
            # What the incident already names is no news; another GPU is.
            taken = self._among(frozenset(advice.finding.devices), taken)
        _take(left, taken)
        return [self._incident(part, key, taken, finding)]

    def _begun(self, left: dict[str, frozenset[str]]) -> list[Incident]:
        incidents = []
        parts = list(self._parts)
        while (part := self._likeliest(parts, left)) is not None:
            taken = self._caused(part, left)
            parts.remove(part)
            if (finding := self._verdict(part, part.key, taken)) is not None:
                incidents.append(self._incident(part, part.key, taken, finding))
                _take(left, taken)
        return incidents

    def _likeliest(self, parts: Iterable[Part], left: _Complaints) -> Part | None:
        """Part that explains most complaints, then the smallest; `None` if none is likely."""
        caused = {part: self._caused(part, left) for part in parts}
        counts = {part: _count(complaints) for part, complaints in caused.items()}
        likely = [
            part
            for part, count in counts.items()
            if count >= part.least
            and (2 * count > len(part.members) or self._is_stated(part, caused[part]))
        ]
        return min(
            likely,
            key=lambda part: (-counts[part], len(part.members), part.kind.rank, part.key),
            default=None,
        )

    def _caused(self, part: Part, left: _Complaints) -> dict[str, frozenset[str]]:
        """Complaints that the part explains."""
        caused = frozenset(
            uuid
            for key, uuids in left.items()
            for uuid in uuids & part.members
            if self._may_cause(part, key, uuid)
        )
        return self._among(caused, left)

    def _among(self, uuids: frozenset[str], left: _Complaints) -> dict[str, frozenset[str]]:
        """Complaints of some devices: as a whole on the node, but a fault of hardware by GPU."""
        taken = {key: culprits & uuids for key, culprits in left.items()}
        return {
            key: some
            for key, some in taken.items()
            if some and (some == left[key] or self._is_by_board(key))
        }

    def _is_by_board(self, key: str) -> bool:
        """Whether the rule says that each culprit's fault is one of its own GPU."""
        shared_by = self._judgements[key].finding.shared_by
        return all(SharedPart.BOARD in parts for parts in shared_by.values())

    def _may_cause(self, part: Part, key: str, uuid: str) -> bool:
        causes = self._judgements[key].finding.shared_by.get(uuid, ())
        has_instances = part.kind is SharedPart.BOARD and len(part.members) > 1
        return has_instances or part.kind in causes

    def _is_stated(self, part: Part, taken: _Complaints) -> bool:
        """Whether the rule names the GPU of each instance, so that nothing is inferred."""
        return part.kind is SharedPart.BOARD and all(map(self._is_by_board, taken))

    def _verdict(self, part: Part, key: str, taken: _Complaints) -> Finding | None:
        """The rule's verdict on all affected devices as one case, never surer than the others.

        `None` if the rule does not complain of each of them.
        """
        uuids = frozenset[str]().union(*taken.values())
        cases = [self._cases[case_key] for case_key in sorted(taken)]
        rows = sorted(
            (
                (device, window, fit)
                for case in cases
                for device, window, fit in zip(
                    case.devices, case.windows, case.provisioning, strict=True
                )
                if device.uuid in uuids
            ),
            key=lambda row: (row[0].index, row[0].uuid),
        )
        case = Case(
            key=key,
            workload=_common(case.workload for case in cases),
            devices=tuple(device for device, _, _ in rows),
            windows=tuple(window for _, window, _ in rows),
            provisioning=tuple(fit for _, _, fit in rows),
            node=cases[0].node,
        )
        finding = self._tuned(self._rule, cases[0]).judge(case)
        if not finding.is_actionable or set(finding.culprits) != uuids:
            return None
        return _of_part(
            finding, part, key, [self._judgements[case_key] for case_key in sorted(taken)]
        )

    def _incident(
        self, part: Part, key: str, taken: _Complaints, finding: Finding | None
    ) -> Incident:
        folded = [self._judgements[case_key] for case_key in sorted(taken)]
        if finding is None:
            case = Case(key, None, self._present(part), (), ())
            subject = CaseSubject(self._rule.name, case, self._rule.market)
            finding = subject.find_nothing(f"{part.name}: no trouble of several GPUs.")
        conduct = self._rule.conduct()
        judgement = Judgement(
            finding,
            conduct,
            may_open=finding.is_actionable
            and any(judgement.may_open for judgement in folded)
            and finding.confidence >= conduct.minimum_confidence_ratio,
            still_holds=self._still_holds(part, taken),
            workload=_common(judgement.workload for judgement in folded),
            folds=tuple(judgement.finding.id for judgement in folded),
        )
        return Incident(judgement, taken)

    def _present(self, part: Part) -> tuple[Device, ...]:
        return tuple(self._devices[uuid] for uuid in sorted(part.members & self._devices.keys()))

    def _still_holds(self, part: Part, taken: _Complaints) -> bool | None:
        """Whether enough devices still complain; `None` if that depends on unknown ones."""
        supporting = _count(taken)
        undecided = 0
        for key, judgement in self._judgements.items():
            inside = [device for device in self._cases[key].devices if device.uuid in part.members]
            if key in taken or judgement.finding.is_actionable:
                continue
            if judgement.still_holds:
                supporting += len(inside)
            elif judgement.finding.abstained is not None:
                undecided += len(inside)
        if supporting >= part.least:
            return True
        return None if supporting + undecided >= part.least else False


def _take(left: dict[str, frozenset[str]], taken: _Complaints) -> None:
    """Remove complaints for which an incident stands."""
    for key, uuids in taken.items():
        left[key] -= uuids
        if not left[key]:
            del left[key]


def _is_foldable(judgement: Judgement) -> bool:
    """Whether it complains now of faults that something shared may cause."""
    finding = judgement.finding
    return (
        finding.is_actionable
        and bool(finding.shared_by)
        and judgement.still_holds is not False
        and not judgement.has_conflict
        and "excluded" not in finding.evidence
    )


def _kind(finding: Finding) -> tuple[str, str]:
    """Reason and action, of which one incident has one each."""
    return finding.reasons[0], finding.action


def _count(complaints: _Complaints) -> int:
    return sum(map(len, complaints.values()))


def _common(workloads: Iterable[Workload | None]) -> Workload | None:
    """Workload that all have; `None` for different ones, or if any is unknown."""
    by_key = {None if workload is None else workload.key: workload for workload in workloads}
    return next(iter(by_key.values())) if len(by_key) == 1 else None


def _of_part(finding: Finding, part: Part, key: str, folded: Sequence[Judgement]) -> Finding:
    """Name the part in the verdict on its devices, and lower its confidence to the others'."""
    sure = [judgement for judgement in folded if judgement.may_open] or folded
    ceiling = min(judgement.finding.confidence for judgement in sure)
    factors = dict(finding.confidence_factors)
    if ceiling < finding.confidence:
        factors["least_certain"] = round(ceiling / finding.confidence, 3)
    affected = len(finding.culprits)
    members = "instances" if part.kind is SharedPart.BOARD else "GPUs"
    where = f"{part.name} ({affected} of {len(part.members)} {members}): "
    return replace(
        finding,
        # The finding of a single GPU names it already.
        summary=f"{where if len(part.members) > 1 else ''}{finding.summary}",
        confidence=min(ceiling, finding.confidence),
        confidence_factors=factors,
        evidence={
            **finding.evidence,
            INCIDENT: {
                "part": part.kind.value,
                "name": part.name,
                "key": key,
                "devices": len(part.members),
                "folded": [judgement.finding.id for judgement in folded],
            },
        },
    )
