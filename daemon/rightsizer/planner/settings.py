"""Settings of the planner's commands: the configuration sections that they read."""

from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.model.frozen import dataclass, field
from rightsizer.sizing.settings import SizingSettings


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Sections for planning, comparing and projecting."""

    catalogue: CatalogueSettings = field(default_factory=CatalogueSettings)
    prices: PriceSettings = field(default_factory=PriceSettings)
    sizing: SizingSettings = field(default_factory=SizingSettings)
