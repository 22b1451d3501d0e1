"""Which formats are known, and of which one a file is."""

from typing import Final

from rightsizer.domain.errors import RecordingError
from rightsizer.telemetry.recorded.column_map import ColumnMap
from rightsizer.telemetry.recorded.dcgmi_dmon import DcgmiDmon
from rightsizer.telemetry.recorded.exposition import Exposition
from rightsizer.telemetry.recorded.format import Format
from rightsizer.telemetry.recorded.gpustat_json import GpustatJson
from rightsizer.telemetry.recorded.mapped_csv import MappedCsv
from rightsizer.telemetry.recorded.nvidia_smi import NvidiaSmiLog
from rightsizer.telemetry.recorded.nvidia_smi_dmon import NvidiaSmiDmon
from rightsizer.telemetry.recorded.own import OwnRecording
from rightsizer.telemetry.recorded.prometheus_json import PrometheusJson
from rightsizer.telemetry.recorded.signal_csv import SignalCsv
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["FORMATS", "format_of"]

FORMATS: Final[tuple[Format, ...]] = (
    OwnRecording(),
    DcgmiDmon(),
    NvidiaSmiDmon(),
    PrometheusJson(),
    GpustatJson(),
    Exposition(),
    NvidiaSmiLog(),
    SignalCsv(),
)
"""In the order in which they are asked."""

_SHOWN: Final = 80


def format_of(text: TextFile, column_map: ColumnMap | None = None) -> Format:
    """The format of a file, by its content or by the map that names it.

    Raises:
        RecordingError: it is of none.
    """
    if column_map is not None:
        columns = column_map.columns_of(text.path)
        if columns is not None:
            return MappedCsv(column_map, columns)
    for known in FORMATS:
        if known.recognizes(text.head):
            return known
    first = text.head[0]
    shown = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."
    names = ", ".join(known.name for known in FORMATS)
    if column_map is not None:
        remedy = f"no pattern of {column_map.name} fits its name; add one under 'files'"
    elif "," in first:
        remedy = "tell what its columns hold with --columns MAP.yaml"
    else:
        remedy = "record with 'rightsizer record' or nvidia-smi"
    raise RecordingError(
        f"{text.name}:1: this is in no known format ({names}): '{shown}'; {remedy}"
    )
