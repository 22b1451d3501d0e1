"""What runs at intervals beside sampling, and how often."""

from rightsizer.runtime.chores import Chores
from rightsizer.runtime.jobs import Job
from rightsizer.runtime.settings import Settings

__all__ = ["schedule"]


def schedule(chores: Chores, settings: Settings) -> tuple[Job, ...]:
    """The jobs of an agent."""
    recommender, history = settings.recommender, settings.history
    return (
        Job("recommend", chores.recommend, recommender.interval, recommender.jitter),
        Job("flush", chores.flush, history.flush_interval),
        Job("prune", chores.prune, 3600.0),
        Job("annotate", chores.annotate, 60.0),
    )
