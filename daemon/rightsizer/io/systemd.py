"""Notifications to systemd (sd_notify(3)), and stop signals."""

import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from typing import Final

from rightsizer.model.units import Nanoseconds

_NANOSECONDS_PER_MICROSECOND: Final = 1000
_SEND_SECONDS: Final = 0.1
"""Source: a tenth of the default interval."""


class Notifier:
    """Client of systemd's notification socket."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        # A leading @ denotes the NUL of Linux's abstract addresses.
        self._address = path.replace("@", "\0", 1) if path.startswith("@") else path
        self._is_ready = False
        self.watchdog_interval: Final[Nanoseconds | None] = _watchdog_interval(environ)
        """Interval of `watchdog` calls, half of what systemd allows; `None` for never."""

    def ready(self) -> bool:
        """Report the end of start-up."""
        self._is_ready = True
        return self._send("READY=1")

    def reloading(self) -> bool:
        """Report a reload; ignored until the service is ready."""
        microseconds = time.monotonic_ns() // _NANOSECONDS_PER_MICROSECOND
        return self._is_ready and self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def reloaded(self) -> bool:
        """Report the end of a reload, successful or not."""
        return self._is_ready and self._send("READY=1")

    def stopping(self) -> bool:
        """Report the start of shutdown."""
        return self._send("STOPPING=1")

    def watchdog(self) -> bool:
        """Report that the coordinator still ticks."""
        return self._send("WATCHDOG=1")

    def status(self, text: str) -> bool:
        """Set the status line of `systemctl status`."""
        return self._send(f"STATUS={' '.join(text.split())}")

    def _send(self, message: str) -> bool:
        """Send a message; return whether it was sent. An absent manager is no error."""
        if not self._address.startswith(("/", "\0")):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            # A manager that reads no messages must not stop the one who sends them.
            link.settimeout(_SEND_SECONDS)
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
    """Event that is set by SIGTERM and SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
