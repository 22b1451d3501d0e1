"""Settings of the planner's commands: the configuration sections that they read."""

from msgspec import Struct

from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.sizing.settings import SizingSettings


class PlannerSettings(Struct, frozen=True):
    """Sections for planning, comparing and projecting."""

    catalogue: CatalogueSettings = CatalogueSettings()
    prices: PriceSettings = PriceSettings()
    sizing: SizingSettings = SizingSettings()
