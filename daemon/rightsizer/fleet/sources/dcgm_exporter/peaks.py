"""What the largest readings of a stretch would come to, had they come together."""

from collections.abc import Mapping

from rightsizer.accounting.block_builder import measures_of
from rightsizer.accounting.power import Draws
from rightsizer.accounting.signals import derive
from rightsizer.accounting.usage import usage
from rightsizer.domain.block import Measure
from rightsizer.domain.device import Device
from rightsizer.domain.reading import Reading
from rightsizer.domain.signal import Signal
from rightsizer.fleet.sources.dcgm_exporter.booking import Booked, DayBooks

__all__ = ["Peaks"]


class Peaks:
    """Of one device over a day."""

    def __init__(self, device: Device, books: DayBooks) -> None:
        """Asks the books for the range of the device's draw when the first stretch is there."""
        self._device = device
        self._books = books
        self._draws: Draws | None = None

    def of(self, booked: Booked) -> Mapping[Measure, float]:
        """Upper bounds: utilization, power and clocks may peak at different moments."""
        if self._draws is None:
            self._draws = self._books.draws(self._device)
        entry, device, settings = booked.entry, self._device, self._books.settings
        were_dead = Signal.SM_ACTIVE in booked.peaks and Signal.SM_ACTIVE not in entry.signals
        signals = derive(
            Reading(device.uuid, entry.end, booked.peaks),
            device,
            {},
            self._draws,
            settings.signals,
            counters_were_dead=were_dead,
        )
        most = usage(signals, device, settings.usage)
        return measures_of(signals, most.shares, most.compute_at_least)
