"""One sample of a series as a row."""

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.dcgm.labels import holdings_of
from rightsizer.telemetry.dcgm.series import Series
from rightsizer.telemetry.recorded.row import Row

__all__ = ["sample_row"]


def sample_row(series: Series, signal: Signal, time: Nanoseconds, number: float, file: str) -> Row:
    """The row of a sample: each metric of a file is a stream, as its times are its own."""
    value = series.read(number)
    values: dict[Signal, float] = {}
    missing: dict[Signal, Missing] = {}
    if isinstance(value, Missing):
        missing[signal] = value
    else:
        values[signal] = value
    holdings = () if series.holder is None else holdings_of({series.holder})
    stream = f"{file}:{series.metric}"
    return Row(time, series.device, values, missing, stream, series.rank, holdings)
