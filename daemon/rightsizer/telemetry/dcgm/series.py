"""Parser of a dcgm-exporter's page, and mapping of its series to signals."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.io.document import LINE_MAXIMUM, DocumentLimits, DocumentReading
from rightsizer.model.dcgm_fields import (
    DCGM_FIELDS,
    FORMER_DCGM_NAMES,
    NAME_LABELS,
    PROFILE_LABELS,
    Entity,
    entity_of,
    holder_of,
    why_no_gpu,
)
from rightsizer.model.values import (
    Device,
    DriverError,
    Holding,
    Missing,
    Nanoseconds,
    Refusal,
    Signal,
    Unit,
    Workload,
    convert,
    parse_epoch,
    plausible,
    scaled,
)
from rightsizer.owners.workload_limits import limited_holdings, refusal_of
from rightsizer.telemetry.dcgm.node_gpus import INSTANCES_MAXIMUM, NodeGpus
from rightsizer.telemetry.device_description import DeviceDescription, build_devices

OTHER_NODE: Final = (
    "dcgm-exporter lists none of this node's GPUs: name this node's own exporter, not a service "
    "of several"
)
XID_METRIC: Final = "DCGM_FI_DEV_XID_ERRORS"
_OURS: Final = "rightsizer_"
_PREFIXES: Final = ("DCGM_", "dcgm_", _OURS)
_MEMORY_PARTS: Final = {
    "DCGM_FI_DEV_FB_FREE": "memory_free_bytes",
    "DCGM_FI_DEV_FB_USED": "memory_used_bytes",
    "DCGM_FI_DEV_FB_RESERVED": "memory_reserved_bytes",
}
_OUR_SIGNALS: Final = {
    f"{_OURS}{signal}{'_ratio' if signal.unit is Unit.RATIO else ''}": signal for signal in Signal
}
_DESCRIBING: Final = frozenset({f"{_OURS}device_info", XID_METRIC})
_REASONS: Final = (
    Missing.NO_SAMPLE,
    Missing.NOT_SUPPORTED,  # Not found.
    Missing.NOT_SUPPORTED,
    Missing.NO_PERMISSION,
)
_FIRST: Final = (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 1 << 47)
"""First blank of integers of both sizes, and of floats."""
_BLANKS: Final[Mapping[float, Missing]] = {
    first + step: reason for first in _FIRST for step, reason in enumerate(_REASONS)
}


def facts_of(labels: Mapping[str, str], entity: Entity) -> DeviceDescription:
    """Return the device facts in the labels."""
    index = labels.get("gpu")
    node = labels.get("numa_node")
    return DeviceDescription(
        index=int(index) if index and index.isdigit() else None,
        name=next(filter(None, map(labels.get, NAME_LABELS)), None),
        pci_bus_id=labels.get("pci_bus_id") or None,
        numa_node=int(node) if node and node.isdigit() else None,
        parent_uuid=entity.whole if entity.is_instance else labels.get("parent_uuid") or None,
        mig_profile=next(filter(None, map(labels.get, PROFILE_LABELS)), None),
        gpu_instance_id=entity.gpu_instance_id,
    )


def holdings_of(holders: set[Workload]) -> tuple[Holding, ...]:
    """Return equal shares: an exporter reports who shares a device, but not how much."""
    ordered = sorted(holders, key=lambda workload: (workload.key, workload.pod, workload.container))
    return tuple(Holding(workload, 1 / len(ordered)) for workload in ordered)


class DcgmSeries(Struct, frozen=True):
    """Meaning of an exposition's line without its value: device, signal, unit."""

    metric: str
    """Current name, also for former ones."""
    device: str
    signal: Signal | None
    """`None` for lines that only describe the device."""
    factor: float
    rank: int
    holder: Workload | None
    facts: DeviceDescription
    part_of: Signal | None = None
    """Signal that several such series sum up to; `signal` is `None` then."""
    driver_version: str | None = None
    host: str = ""
    """Node, or pod of the exporter; empty if not stated."""

    @property
    def board(self) -> str:
        """GPU itself, or parent of the instance."""
        return self.facts.parent_uuid or self.device

    @property
    def is_profiling(self) -> bool:
        """Whether it comes from a hardware counter."""
        field = DCGM_FIELDS.get(self.metric)
        return field is not None and field.is_profiling

    def read(self, value: float) -> float | Missing:
        """Convert a value to the base unit; a `Missing` reason if implausible."""
        signal = self.signal or self.part_of
        if signal is None:
            return Missing.NOT_READ
        return plausible(signal, scaled(value, self.factor))

    def teach(
        self, facts: DeviceDescription, value: float | Missing, time: Nanoseconds = 0
    ) -> None:
        """Add the facts in labels and a converted value, such as the size of a part of memory."""
        facts.learn(self.facts)
        part = _MEMORY_PARTS.get(self.metric)
        if part is not None and not isinstance(value, Missing):
            # A GPU shared by pods may have a line for each one's part, beside that of the GPU.
            facts.learn_size(part, value, time)


class UnusedSeries(Struct, frozen=True):
    """A line without a use here."""

    metric: str
    because: str


def wanted(line: str) -> bool:
    """Whether a line can hold a sample of interest."""
    return line.startswith(_PREFIXES)


def interpret_labels(name: str, labels: Mapping[str, str]) -> DcgmSeries | UnusedSeries:
    """Interpret a name and its labels."""
    # Former names, and names that a relay wrote in lower case or with the suffix of counters.
    name = FORMER_DCGM_NAMES.get(name, name)
    if name not in DCGM_FIELDS and name.upper().startswith("DCGM_"):
        plain = name.upper()
        name = plain if plain in DCGM_FIELDS else plain.removesuffix("_TOTAL")
    field = DCGM_FIELDS.get(name)
    signal = field.signal if field is not None else _OUR_SIGNALS.get(name)
    if signal is None and name not in _DESCRIBING:
        reason = "" if field is None else field.unused_because
        return UnusedSeries(name, reason or "the field is not known here")
    elsewhere = why_no_gpu(labels)
    if elsewhere is not None:
        return UnusedSeries(name, elsewhere)
    entity = entity_of(labels)
    if entity is None:
        return UnusedSeries(name, "its labels name no GPU")
    if entity.is_instance and field is not None and field.is_of_card:
        return UnusedSeries(name, "it is of the whole card but labeled with one instance")
    is_part = field is not None and field.is_part
    return DcgmSeries(
        metric=name,
        device=entity.device,
        signal=None if is_part else signal,
        factor=1.0 if field is None else convert(field.unit)[1],
        rank=0 if field is None else field.rank,
        holder=holder_of(labels),
        facts=facts_of(labels, entity),
        part_of=signal if is_part else None,
        driver_version=labels.get("DCGM_FI_DRIVER_VERSION") or None,
        host=labels.get("Hostname") or labels.get("hostname") or "",
    )


def interpret(
    text: str,
    meaning: Callable[[str, Mapping[str, str]], DcgmSeries | UnusedSeries] = interpret_labels,
) -> DcgmSeries | UnusedSeries:
    """Interpret `name{label="value"}`; raise `ValueError` for other text."""
    try:
        families = tuple(text_string_to_metric_families(f"{text} 0\n"))
    except IndexError:
        # Raised by the parser for labels like `{,=}`.
        families = ()
    for family in families:
        for sample in family.samples:
            return meaning(sample.name, sample.labels)
    raise ValueError(f"'{text}' is not a sample")


def blank(number: str) -> Missing | None:
    """Return why a number as written is blank, or `None`.

    The last digits encode the reason, and would be lost in a float.
    """
    whole, _, fraction = number.partition(".")
    is_whole = whole.isdecimal() and not fraction.strip("0")
    return _BLANKS.get(int(whole) if is_whole else float(number))


_SAMPLE: Final = re.compile(
    r"(?P<head>[a-zA-Z_:][\w:]*(?:\{.*\})?)\s+(?P<value>\S+)(?:\s+(?P<time>\S+))?"
)
LINES_MAXIMUM: Final = 10_000
"""Of a page. Source: 16 GPUs of seven MIG instances with 60 metrics each are 7,000."""
_XID_MAXIMUM: Final = 0xFFFF

_LIMITS: Final = DocumentLimits(8 * 2**20, LINES_MAXIMUM, "lines")
WORKLOADS_MAXIMUM: Final = 200
_ANY_NODE: Final = NodeGpus(spare=LINES_MAXIMUM)

_Meaning: TypeAlias = DcgmSeries | UnusedSeries
_Sample: TypeAlias = tuple[DcgmSeries, float | Missing, Nanoseconds | None]


class ExporterDevice(Struct, frozen=True):
    """What the exporter reports of one device."""

    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing]
    profiled: frozenset[Signal]
    """Signals from hardware counters."""
    holdings: tuple[Holding, ...] = ()


class ExporterPage(Struct, frozen=True):
    """A parsed scrape."""

    devices: tuple[Device, ...]
    readings: Mapping[str, ExporterDevice]
    """By uuid, or the exporter's own name of a device."""
    instances: Mapping[str, tuple[str, int]] = {}
    """GPU uuid and GPU instance id of each MIG instance."""
    xids: Mapping[str, int] = {}
    """Last Xid of each GPU that had one since the driver was loaded."""
    driver_version: str | None = None
    refusal: Refusal | None = None
    """Devices of other nodes, and holders beyond the limit."""

    @property
    def boards(self) -> frozenset[str]:
        """Its GPUs, also those of which only instances are listed."""
        return frozenset(self.instances.get(device, (device, 0))[0] for device in self.readings)


class DcgmExpositionParser:
    """Parser of pages; keeps what names and labels of the last page mean."""

    def __init__(self, catalogue: Catalogue, workloads_maximum: int = WORKLOADS_MAXIMUM) -> None:
        """Create it; a page's holders beyond the maximum become one."""
        self._catalogue = catalogue
        self._workloads_maximum = workloads_maximum
        self.meanings: dict[str, _Meaning] = {}

    def read(
        self, text: str, *, oldest: Nanoseconds | None = None, node: NodeGpus = _ANY_NODE
    ) -> ExporterPage:
        """Parse one page.

        Args:
            text: Samples with or without times.
            oldest: Samples with a time before this wall time are stale.
            node: GPUs of the node; others are left out and counted.

        Raises:
            DriverError: the text is not an exposition of one dcgm-exporter, or of another node's.
            DocumentError: the text has more lines than a node's, or takes too long to read.
        """
        reading = DocumentReading("the page", _LIMITS)
        reading.check_items(text.count("\n"))
        lines = text.split("\n")
        meanings: dict[str, _Meaning] = {}
        # A line without its end is torn: its number may lack digits.
        parsed = (self._sample(line, meanings, reading) for line in lines[:-1])
        samples = [sample for sample in parsed if sample is not None]
        if not meanings and any(line.strip() and not line.startswith("#") for line in lines):
            raise DriverError(
                "this is not the text of a dcgm-exporter: none of its metrics is in it; "
                "check the address"
            )
        if len(hosts := sorted({series.host for series, _, _ in samples} - {""})) > 1:
            raise DriverError(
                f"the page has the GPUs of {len(hosts)} nodes ({hosts[0]}, {hosts[1]}, ...); "
                "name the address of this node's own dcgm-exporter"
            )
        boards = {series.board: series.facts.pci_bus_id for series, _, _ in samples}
        own_boards = node.own(boards)
        if boards and not own_boards:
            raise DriverError(OTHER_NODE)
        # Of other nodes' lines nothing is kept.
        self.meanings = {
            head: meaning
            for head, meaning in meanings.items()
            if isinstance(meaning, UnusedSeries) or meaning.board in own_boards
        }
        page = _PageParser(self._workloads_maximum, refused_gpus=len(boards) - len(own_boards))
        for series, value, time in samples:
            if series.board in own_boards:
                is_stale = time is not None and oldest is not None and time < oldest
                page.add(series, value, is_stale=is_stale)
        return page.exposition(self._catalogue)

    def _sample(
        self, line: str, meanings: dict[str, _Meaning], reading: DocumentReading
    ) -> _Sample | None:
        """Parse a line, and note what its name and labels mean."""
        if not wanted(line) or len(line) > LINE_MAXIMUM:
            return None
        match = _SAMPLE.fullmatch(line.partition(" # {")[0].strip())
        if match is None:
            return None
        head = match["head"]
        try:
            value = blank(match["value"]) or float(match["value"])
            time = parse_epoch(match["time"]) if match["time"] else None
            meaning = meanings.get(head) or self.meanings.get(head) or interpret(head)
        except ValueError:
            return None
        finally:
            reading.count()
        meanings[head] = meaning
        return (meaning, value, time) if isinstance(meaning, DcgmSeries) else None


_Candidate: TypeAlias = tuple[DcgmSeries, float]


class _PageParser:
    """Builder of a page: values by device, signal and field."""

    def __init__(self, workloads_maximum: int, *, refused_gpus: int) -> None:
        self._workloads_maximum = workloads_maximum
        self._refused_gpus = refused_gpus
        self._found: dict[str, dict[Signal, dict[str, _Candidate]]] = {}
        self._missing: dict[str, dict[Signal, Missing]] = {}
        self._facts: dict[str, DeviceDescription] = {}
        self._holders: dict[str, set[Workload]] = {}
        self._xids: dict[str, int] = {}
        self._driver_version: str | None = None
        self._instances: dict[str, set[str]] = {}

    def add(self, series: DcgmSeries, number: float | Missing, *, is_stale: bool) -> None:
        if not self._has_room(series):
            return
        facts = self._facts.setdefault(series.device, DeviceDescription())
        self._driver_version = self._driver_version or series.driver_version
        if series.holder is not None:
            self._holders.setdefault(series.device, set()).add(series.holder)
        xid = 0.0 if series.metric != XID_METRIC or isinstance(number, Missing) else number
        if 0 < xid <= _XID_MAXIMUM:
            self._xids[series.device] = int(number)
        value = number if isinstance(number, Missing) else series.read(number)
        if is_stale:
            value = Missing.STALE
        series.teach(facts, value)
        signal = series.signal or series.part_of
        if signal is None:
            return
        if isinstance(value, Missing):
            self._missing.setdefault(series.device, {})[signal] = value
        else:
            # A GPU shared by pods has a line for each of them, with the GPU's value, or since
            # dcgm-exporter 4.6 with the pod's part of it beside a line of the GPU.
            by_metric = self._found.setdefault(series.device, {}).setdefault(signal, {})
            former = by_metric.get(series.metric)
            if former is None or value > former[1]:
                by_metric[series.metric] = (series, value)

    def _has_room(self, series: DcgmSeries) -> bool:
        """Whether its GPU can have the instance beside those of earlier lines."""
        if series.board == series.device:
            return True
        instances = self._instances.setdefault(series.board, set())
        if series.device not in instances and len(instances) >= INSTANCES_MAXIMUM:
            return False
        instances.add(series.device)
        return True

    def exposition(self, catalogue: Catalogue) -> ExporterPage:
        holdings, refused_holders = limited_holdings(
            {device: holdings_of(holders) for device, holders in self._holders.items()},
            self._workloads_maximum,
        )
        return ExporterPage(
            devices=build_devices(self._facts, catalogue),
            readings={
                device: self._reading(device, holdings.get(device, ())) for device in self._facts
            },
            instances={
                device: (facts.parent_uuid, facts.gpu_instance_id)
                for device, facts in self._facts.items()
                if facts.parent_uuid is not None and facts.gpu_instance_id is not None
            },
            xids=self._xids,
            driver_version=self._driver_version,
            refusal=refusal_of(self._refused_gpus, refused_holders),
        )

    def _reading(self, device: str, holdings: tuple[Holding, ...]) -> ExporterDevice:
        by_signal = self._found.get(device, {}).items()
        chosen = {signal: _chosen([*candidates.values()]) for signal, candidates in by_signal}
        missing = self._missing.get(device, {}).items()
        return ExporterDevice(
            {signal: value for signal, (_, value) in chosen.items()},
            {signal: reason for signal, reason in missing if signal not in chosen},
            frozenset(signal for signal, (series, _) in chosen.items() if series.is_profiling),
            holdings,
        )


def _chosen(candidates: Sequence[_Candidate]) -> _Candidate:
    """Return the highest-ranked field and its value, or the sum of a signal's parts."""
    series, value = max(candidates, key=lambda candidate: candidate[0].rank)
    if series.part_of is not None:
        return series, sum(value for _, value in candidates)
    if value == 0 and series.is_profiling:
        # Profiling counters that have failed read 0 (dcgm-exporter#662).
        return max(candidates, key=lambda candidate: (candidate[1] > 0, candidate[0].rank))
    return series, value
