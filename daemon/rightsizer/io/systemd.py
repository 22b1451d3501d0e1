"""Service manager: notifications to systemd (sd_notify(3)), stop signals."""

import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from typing import Final

from rightsizer.model.units import Nanoseconds

_NANOSECONDS_PER_MICROSECOND: Final = 1000


class Notifier:
    """Tells systemd how the agent is."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the NUL of Linux's abstract addresses.
        self._address = path.replace("@", "\0", 1) if path.startswith("@") else path
        self._is_ready = False
        self.watchdog_interval: Final[Nanoseconds | None] = _watchdog_interval(environ)
        """How often to call `watchdog`: half of what the manager allows, `None` for never."""

    def ready(self) -> bool:
        """Start-up is complete."""
        self._is_ready = True
        return self._send("READY=1")

    def reloading(self) -> bool:
        """The configuration is being read again, which a service that is not ready does not say."""
        microseconds = time.monotonic_ns() // _NANOSECONDS_PER_MICROSECOND
        return self._is_ready and self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def reloaded(self) -> bool:
        """It has been, with success or without."""
        return self._is_ready and self._send("READY=1")

    def stopping(self) -> bool:
        """Shutdown has begun."""
        return self._send("STOPPING=1")

    def watchdog(self) -> bool:
        """The coordinator still ticks."""
        return self._send("WATCHDOG=1")

    def status(self, text: str) -> bool:
        """One line for `systemctl status`."""
        return self._send(f"STATUS={' '.join(text.split())}")

    def _send(self, message: str) -> bool:
        """Whether the message was handed over; a manager that is away is no reason to fail."""
        if not self._address.startswith(("/", "\0")):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            try:
                link.sendto(message.encode(), self._address)
            except OSError:
                return False
        return True


def _watchdog_interval(environ: Mapping[str, str]) -> Nanoseconds | None:
    microseconds = environ.get("WATCHDOG_USEC", "")
    meant_for = environ.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or meant_for != str(os.getpid()):
        return None
    return int(microseconds) * _NANOSECONDS_PER_MICROSECOND // 2 or None


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
