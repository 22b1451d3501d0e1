"""All that sizing takes for granted and an operator may know better, in one tree."""

from dataclasses import dataclass, field

from rightsizer.sizing.cost_settings import CostSettings
from rightsizer.sizing.layouts import PlanSettings
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.serving_settings import ServingSettings
from rightsizer.sizing.training_settings import TrainingSettings

__all__ = ["SizingSettings"]


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """What plans and projections rest on beside facts and prices."""

    plan: PlanSettings = field(default_factory=PlanSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    cost: CostSettings = field(default_factory=CostSettings)
