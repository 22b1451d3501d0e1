"""Runs an agent in this process until a signal ends it."""

import gc
import os
import signal
import threading
from collections.abc import Callable

from rightsizer.agent.agent import Agent
from rightsizer.agent.control import ControlRoutes
from rightsizer.agent.door import open_door
from rightsizer.agent.heap import keep_compact
from rightsizer.agent.log import LogSettings, configure
from rightsizer.agent.log_counter import LogCounter
from rightsizer.agent.notify import Notifier
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.agent.storage import Storage
from rightsizer.io.clock import Clock, SystemClock


def serve(
    settings: Settings,
    clock: Clock | None = None,
    *,
    prepare: Callable[[Agent], None] | None = None,
    announce: Callable[[Agent], None] | None = None,
    reread: Callable[[], Settings] | None = None,
) -> None:
    """Run the agent that the settings describe until SIGTERM or SIGINT; SIGHUP reloads it.

    Args:
        settings: Everything that an operator may set.
        clock: The clock to live by; the system's unless told otherwise.
        prepare: Is called with the agent before it starts.
        announce: Is called with the agent once it listens.
        reread: Gives the settings as they are now, for a reload.

    Raises:
        RightsizerError: it cannot start: a scenario, an address, a history, a web configuration.
    """
    keep_compact()
    clock = clock or SystemClock()
    counter = _configured(settings.log)
    # A scenario that is wrong must not leave an empty history behind.
    door = open_door(settings, clock.wall_time)
    named = live_source(settings, clock)
    storage: Storage | None = None
    try:
        storage = _storage_of(settings)
        agent = Agent(
            settings,
            named.source,
            source_name=named.name,
            clock=clock,
            storage=storage,
            log_counter=counter,
            notifier=Notifier(os.environ),
            local_routes=ControlRoutes(named.controls, clock, named.still_held).routes,
            controls=named.controls,
            still_held=named.still_held,
            door=door,
            reread=reread,
        )
        if prepare is not None:
            prepare(agent)
        # From here on a signal ends it with a flush, even before the first tick.
        stop = stop_on_signals()
        signal.signal(signal.SIGHUP, lambda *_: agent.reloader.request())
        agent.start()
    except BaseException:
        named.source.close()
        if storage is not None:
            storage.close()
        raise
    # What stands by now stays: not walking it again keeps the slowest scrapes quick.
    gc.collect()
    gc.freeze()
    if announce is not None:
        announce(agent)
    agent.run(stop)


def _configured(log: LogSettings) -> LogCounter:
    return configure(log.format, log.level, repeat_interval_seconds=log.repeat_interval)


def _storage_of(settings: Settings) -> Storage:
    history = settings.history
    return Storage(history.path, maximum_bytes=history.maximum_size_bytes)


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
