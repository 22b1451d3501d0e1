"""Samples of a dcgm-exporter as rows of a recording."""

from rightsizer.model.dcgm_fields import DIVIDED_DCGM_FIELDS
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.row import SUMMED, RecordingRow
from rightsizer.telemetry.dcgm.series import DcgmSeries, holdings_of


def sample_row(
    series: DcgmSeries, signal: Signal, time: Nanoseconds, number: float, file: str
) -> RecordingRow:
    """Return the row of a sample; each metric of a file is a stream with times of its own."""
    value = series.read(number)
    values: dict[Signal, float] = {}
    missing: dict[Signal, Missing] = {}
    if isinstance(value, Missing):
        missing[signal] = value
    else:
        values[signal] = value
    stream = f"{file}:{series.metric}"
    if series.holder is None:
        return RecordingRow(time, series.device, values, missing, stream, series.rank, ())
    holdings = holdings_of({series.holder})
    rank = series.rank
    if series.metric in DIVIDED_DCGM_FIELDS:
        # Perhaps a part, which counts only where there is no value of the GPU.
        stream = f"{stream}:{series.holder.pod}"
        rank = rank + SUMMED - 1
    return RecordingRow(time, series.device, values, missing, stream, rank, holdings)
