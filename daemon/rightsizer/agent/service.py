"""Runs an agent in this process until a signal ends it."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.local_api import ControlRoutes
from rightsizer.agent.settings import Settings
from rightsizer.agent.source_log import log_extensions
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.heap import freeze, keep_compact
from rightsizer.io.log import configure, logger
from rightsizer.io.shutdown import ended_by_signals
from rightsizer.io.systemd import Notifier
from rightsizer.web.plan_route import plan_route
from rightsizer.web.server import WebAccess, configured_access


def serve(  # noqa: PLR0913 - each is a part of the outside world.
    settings: Settings,
    clock: Clock | None = None,
    *,
    prepare: Callable[[Agent], None] = lambda _: None,
    announce: Callable[[Agent], None] = lambda _: None,
    reread: Callable[[], Settings] | None = None,
    admit: Callable[[WebAccess], WebAccess] = lambda configured: configured,
    config_file: Path | None = None,
) -> None:
    """Run the agent of these settings until SIGTERM or SIGINT; SIGHUP reloads it.

    `prepare` is called with the agent before it starts, `announce` once it listens. `reread` reads
    the settings again, from `config_file`. `admit` may change the configured access.

    Raises:
        RightsizerError: it cannot start: bad scenario, address, history or web configuration.
    """
    # Ignored until a reload is possible: the default action would end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    keep_compact()
    clock, log = clock or SystemClock(), settings.log
    counter = configure(log.format, log.level, repeat_interval_seconds=log.repeat_interval)
    log_extensions(logger("agent"))
    # Before the storage: a wrong scenario must not leave an empty history behind.
    access = admit(configured_access(settings.web, clock.wall_time))
    named, plan = live_source(settings, clock), plan_route(config_file, settings.web.server)
    source = named.source
    with ExitStack() as failed:
        failed.callback(source.close)
        storage = _storage(settings)
        failed.callback(storage.close)
        agent = Agent(
            settings,
            source,
            source_name=named.name,
            clock=clock,
            storage=storage,
            log_counter=counter,
            notifier=Notifier(os.environ),
            local_routes=(*ControlRoutes(named.controls, clock, source.still_held).routes, plan),
            controls=named.controls,
            still_held=source.still_held,
            expect=source.expect,
            forget=source.forget,
            access=access,
            reread=reread,
            config_file=config_file,
        )
        failed.pop_all()
    with closing(agent):  # Closes source and storage, too.
        prepare(agent)
        # From here on a signal ends the agent with a flush, even before the first tick.
        with ended_by_signals(lambda: agent.part) as stop:
            signal.signal(signal.SIGHUP, lambda *_: agent.reloader.request())
            agent.start()
            freeze()
            announce(agent)
            agent.run(stop)


def _storage(settings: Settings) -> Storage:
    history = settings.history
    maximum = history.maximum_size_bytes
    return Storage(history.path, maximum_bytes=maximum, waits_for_disk=True)
