"""Client for unary gRPC calls over a Unix socket."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from h2.events import Event

UNIMPLEMENTED: Final = 12
_OK: Final = 0
_UNKNOWN: Final = 2
_HTTP_OK: Final = "200"
_PREFIX_BYTES: Final = 5
_CHUNK_BYTES: Final = 65536
_MESSAGE_LENGTH: Final = 200


class GrpcCallError(Exception):
    """Failed call, with a message for operators."""

    def __init__(self, message: str, status: int = _UNKNOWN) -> None:
        super().__init__(message)
        self.status = status


def unary_call(path: Path, method: str, *, timeout_seconds: float, maximum_bytes: int) -> bytes:
    """Call a method such as `/v1.PodResourcesLister/List` with an empty request.

    The timeout covers the whole call; larger answers than the maximum are refused.

    Raises:
        GrpcCallError: no answer, or an error status.
    """
    try:
        from h2.exceptions import H2Error  # noqa: PLC0415 - 6 MB that most nodes never need.
    except ImportError:
        raise GrpcCallError(
            "asking the kubelet needs the package h2; install 'gpu-rightsizer[kubernetes]'"
        ) from None
    deadline = time.monotonic() + timeout_seconds
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(timeout_seconds)
            peer.connect(str(path))
            return _Exchange(peer, deadline, maximum_bytes).answer(method)
    except TimeoutError:
        raise GrpcCallError(f"{path} did not answer within {timeout_seconds:g} s") from None
    except OSError as error:
        raise GrpcCallError(f"{path} cannot be reached: {error.strerror or error}") from None
    except H2Error as error:
        raise GrpcCallError(f"{path} does not speak HTTP/2: {error}") from None


class _Exchange:
    def __init__(self, peer: socket.socket, deadline: float, maximum_bytes: int) -> None:
        from h2.config import H2Configuration  # noqa: PLC0415 - as above.
        from h2.connection import H2Connection  # noqa: PLC0415 - as above.

        self._peer = peer
        self._deadline = deadline
        self._maximum_bytes = maximum_bytes
        self._connection = H2Connection(H2Configuration())
        self._received_bytes = 0
        self._body = bytearray()
        self._too_long = f"the answer has more than {maximum_bytes} bytes"
        self._headers: dict[str, str] = {}
        self._has_ended = False

    def answer(self, method: str) -> bytes:
        connection = self._connection
        connection.initiate_connection()
        stream = connection.get_next_available_stream_id()
        pseudo = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "localhost"}
        headers = pseudo | {"content-type": "application/grpc", "te": "trailers"}
        connection.send_headers(stream, list(headers.items()))
        connection.send_data(stream, bytes(_PREFIX_BYTES), end_stream=True)
        self._send()
        while not self._has_ended:
            self._take(connection.receive_data(self._received()))
            # The peer may close the connection right after its answer.
            with contextlib.suppress(BrokenPipeError):
                self._send()
        return self._message()

    def _send(self) -> None:
        self._peer.settimeout(self._left_seconds())
        self._peer.sendall(self._connection.data_to_send())

    def _received(self) -> bytes:
        self._peer.settimeout(self._left_seconds())
        if not (data := self._peer.recv(_CHUNK_BYTES)):
            raise GrpcCallError("the peer hung up before it had answered")
        self._received_bytes += len(data)
        # Honest framing adds less overhead than the message's own size.
        if self._received_bytes > 2 * self._maximum_bytes + _CHUNK_BYTES:
            raise GrpcCallError(self._too_long)
        return data

    def _left_seconds(self) -> float:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    def _take(self, events: Iterable[Event]) -> None:
        from h2 import events as known  # noqa: PLC0415 - as above.

        for event in events:
            match event:
                case known.ResponseReceived() | known.TrailersReceived():
                    headers = ((_text(name), _text(value)) for name, value in event.headers)
                    self._headers.update(headers)
                case known.DataReceived():
                    self._body += event.data
                    if len(self._body) > self._maximum_bytes + _PREFIX_BYTES:
                        raise GrpcCallError(self._too_long)
                    size = event.flow_controlled_length
                    stream = event.stream_id
                    self._connection.acknowledge_received_data(size, stream)
                case known.StreamEnded():
                    self._has_ended = True
                case known.StreamReset() | known.ConnectionTerminated():
                    raise GrpcCallError(f"the peer broke off with error {event.error_code}")
                case _:
                    pass

    def _message(self) -> bytes:
        if self._headers.get(":status") != _HTTP_OK:
            raise GrpcCallError(f"the peer answered HTTP status {self._headers.get(':status')}")
        code = self._headers.get("grpc-status", "")
        status = int(code) if re.fullmatch("[0-9]{1,2}", code) else _UNKNOWN
        if status != _OK:
            said = unquote(self._headers.get("grpc-message", ""))[:_MESSAGE_LENGTH]
            text = "".join(letter if letter.isprintable() else " " for letter in said)
            raise GrpcCallError(f"the peer answered gRPC status {status}: {text}", status)
        is_compressed = self._body[:1] != b"\0"
        size = int.from_bytes(self._body[1:5], "big")
        if is_compressed or len(self._body) != _PREFIX_BYTES + size:
            raise GrpcCallError("the answer is not one plain gRPC message")
        return bytes(self._body[_PREFIX_BYTES:])


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode("ascii", "replace")
