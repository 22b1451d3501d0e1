"""Client of the agent's local socket."""

import http.client
import json
import os
from pathlib import Path
from typing import Any, Final

from rightsizer.io.codec import encode
from rightsizer.io.http_connection import UnixConnection
from rightsizer.model.errors import (
    AgentAbsentError,
    AgentBusyError,
    EndedError,
    RefusedError,
    RightsizerError,
    UsageError,
)

_START: Final = (
    "start it with `systemctl start rightsizer`, or name its socket with --path.api-socket"
)
_DELETED: Final = "an agent that runs makes a deleted socket again within seconds"
_UNKNOWN: Final = "there is no "
"""Start of the agent's message for a known path with an unknown item."""


_ERRORS: Final = {
    http.client.BAD_REQUEST: UsageError,
    http.client.CONFLICT: RefusedError,
    http.client.FORBIDDEN: RefusedError,
    http.client.GONE: EndedError,
}


class LocalClient:
    """Client of one agent with one connection per request; every error has a remedy."""

    def __init__(self, path: Path, timeout_seconds: float = 10.0) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds

    @property
    def path(self) -> Path:
        """Path of the socket, which identifies the agent on this machine."""
        return self._path.resolve()

    def get(self, target: str) -> Any:
        """Answer to a GET; raises as `post` does."""
        return self._ask("GET", target)

    def post(self, target: str, body: Any) -> Any:
        """Answer to a POST of a value.

        Raises:
            AgentAbsentError: no agent is running.
            RefusedError: the agent declines.
            EndedError: the item has ended in the meantime.
            UsageError: invalid value, or unknown item.
            RightsizerError: no answer, or an unexpected one.
        """
        return self._ask("POST", target, encode(body))

    def delete(self, target: str) -> Any:
        """Answer to a DELETE; raises as `post` does."""
        return self._ask("DELETE", target)

    def _ask(self, method: str, target: str, body: bytes | None = None) -> Any:
        connection = UnixConnection(self._path, self._timeout_seconds)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            raw = response.read()
        except TimeoutError:
            raise AgentBusyError(
                f"the agent at {self._path} does not answer within {self._timeout_seconds:g} s; "
                "see its log, `journalctl -u rightsizer`"
            ) from None
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            raise AgentAbsentError(self._remedy(error)) from None
        except (BlockingIOError, ConnectionError) as error:
            # Its queue is full, or it dropped this connection for another.
            raise AgentBusyError(self._remedy(error)) from None
        except OSError as error:
            raise RightsizerError(self._remedy(error)) from None
        except http.client.HTTPException:
            text = f"what listens at {self._path} does not speak HTTP as it should"
            raise RightsizerError(text) from None
        finally:
            connection.close()
        return self._judge(response.status, raw)

    def _judge(self, status: int, raw: bytes) -> Any:
        if status == http.client.OK:
            try:
                return json.loads(raw)
            except ValueError:
                raise RightsizerError(f"the agent at {self._path} answers no JSON") from None
        said = raw.decode(errors="replace").strip() or http.client.responses.get(status, "")
        if status in _ERRORS:
            raise _ERRORS[status](said)
        if status == http.client.NOT_FOUND and said.startswith(_UNKNOWN):
            raise UsageError(said)
        if status == http.client.SERVICE_UNAVAILABLE:
            raise AgentBusyError(f"the agent at {self._path} answers {status}: {said}")
        if status == http.client.NOT_FOUND:
            said += "; is it older than this command? Restart it"
        raise RightsizerError(f"the agent at {self._path} answers {status}: {said}")

    def _remedy(self, error: OSError) -> str:
        path = self._path
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return f"no agent runs here: there is no socket {path}; {_START}; {_DELETED}"
        if isinstance(error, ConnectionRefusedError):
            return f"no agent runs here: nothing answers at {path} any more; {_START}"
        if isinstance(error, PermissionError):
            return (
                f"user {os.geteuid()} may not use {path}; run as root, as the user that the agent "
                "runs as, or as a member of its group"
            )
        return f"the agent at {path} broke off: {error.strerror or error}"
