"""Settings of the whole configuration file: the agent's sections and the fleet's."""

from rightsizer.agent.settings import Settings
from rightsizer.fleet.settings import FleetSettings
from rightsizer.model.frozen import dataclass, field


@dataclass(frozen=True, slots=True)
class WholeSettings(Settings):
    """Everything that an operator may set, for the agent or for the fleet."""

    fleet: FleetSettings = field(default_factory=FleetSettings)
