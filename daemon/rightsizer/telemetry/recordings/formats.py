"""Which formats are known, and of which one a file is."""

from typing import Final

from rightsizer.model.errors import RecordingError
from rightsizer.telemetry.recordings.dcgmi_dmon import DCGMI_DMON
from rightsizer.telemetry.recordings.gpustat_json import GPUSTAT_JSON
from rightsizer.telemetry.recordings.mapped_csv import ColumnMap, mapped_csv
from rightsizer.telemetry.recordings.native import NATIVE
from rightsizer.telemetry.recordings.nvidia_smi import NVIDIA_SMI_LOG
from rightsizer.telemetry.recordings.nvidia_smi_dmon import NVIDIA_SMI_DMON
from rightsizer.telemetry.recordings.prometheus_text import PROMETHEUS_JSON, PROMETHEUS_TEXT
from rightsizer.telemetry.recordings.signal_csv import SIGNAL_CSV
from rightsizer.telemetry.recordings.system_metrics_json import SYSTEM_METRICS_JSON
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile

FORMATS: Final[tuple[RecordingFormat, ...]] = (
    NATIVE,
    DCGMI_DMON,
    NVIDIA_SMI_DMON,
    PROMETHEUS_JSON,
    GPUSTAT_JSON,
    SYSTEM_METRICS_JSON,
    PROMETHEUS_TEXT,
    NVIDIA_SMI_LOG,
    SIGNAL_CSV,
)
"""In the order in which they are asked."""

_SHOWN: Final = 80


def format_of(text: TextFile, column_map: ColumnMap | None = None) -> RecordingFormat:
    """The format of a file, by its content or by the map that names it.

    Raises:
        RecordingError: it is of none.
    """
    if column_map is not None:
        columns = column_map.columns_of(text.path)
        if columns is not None:
            return mapped_csv(column_map, columns)
    for known in FORMATS:
        if known.recognizes(text.head):
            return known
    first = text.head[0]
    shown = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."
    names = ", ".join(known.name for known in FORMATS)
    if column_map is not None:
        remedy = f"no pattern of {column_map.name} fits its name; add one under 'files'"
    elif "," in first:
        remedy = (
            "tell what its columns hold with --columns MAP.yaml, or name those of a log without a "
            "heading with --fields"
        )
    else:
        remedy = "record with 'rightsizer record' or nvidia-smi"
    raise RecordingError(
        f"{text.name}:1: this is in no known format ({names}): '{shown}'; {remedy}"
    )
