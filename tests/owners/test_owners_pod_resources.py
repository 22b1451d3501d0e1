"""The kubelet's pod-resources interface: real gRPC, all versions, and misbehaving peers."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from hypothesis import given
from hypothesis import strategies as st

from kubelet_server import Response, answer, kubelet, pod
from rightsizer.io.grpc_client import GrpcCallError
from rightsizer.owners.pod_resources import ContainerDevices, list_pods, parse_pods

UUID = "GPU-8ba15a3a-9c15-45e7-ad2f-0b1c6b14b9e0"


def listed_pods(path: Path, **changes: float) -> tuple[ContainerDevices, ...]:
    """Answer of the kubelet at a socket."""
    return list_pods(
        path,
        timeout_seconds=changes.get("timeout_seconds", 5.0),
        maximum_bytes=int(changes.get("maximum_bytes", 2**20)),
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_is_understood(tmp_path: Path, version: str) -> None:
    """A kubelet with only one version is queried in that one."""
    path = tmp_path / "kubelet.sock"
    with kubelet(path, lambda _: answer(pod("ml", "llm-0", [UUID])), version) as calls:
        pods = listed_pods(path)
    assert pods == (ContainerDevices("ml", "llm-0", "main", (UUID,)),)
    assert calls == ["List"]


def test_all_that_was_given_is_reported(tmp_path: Path) -> None:
    """Covers several pods, several devices and claims; pods without devices are omitted."""
    path = tmp_path / "kubelet.sock"
    pods = answer(
        pod("ml", "a", [UUID, "nvidia0"]),
        pod("ml", "idle"),
        pod("dra", "b", claimed=["gpu-0", "gpu-1"]),
    )
    with kubelet(path, lambda _: pods):
        found = listed_pods(path)
    claims = (("gpu.nvidia.com", "gpu-0"), ("gpu.nvidia.com", "gpu-1"))
    assert found == (
        ContainerDevices("ml", "a", "main", (UUID, "nvidia0")),
        ContainerDevices("dra", "b", "main", (), claims),
    )


def test_a_large_answer_comes_whole(tmp_path: Path) -> None:
    """An answer of many times the flow-control window is read completely."""
    path = tmp_path / "kubelet.sock"
    pods = answer(*(pod("ml", f"pod-{number}", [UUID] * 20) for number in range(1000)))
    with kubelet(path, lambda _: pods):
        assert len(pods) > 10 * 65535
        assert len(listed_pods(path, maximum_bytes=len(pods))) == 1000
        with pytest.raises(GrpcCallError, match=f"more than {len(pods) - 1} bytes"):
            listed_pods(path, maximum_bytes=len(pods) - 1)


def test_a_refusal_is_reported(tmp_path: Path) -> None:
    """The kubelet's rate limit is an error with its message, not an empty node."""
    path = tmp_path / "kubelet.sock"

    def refuse(context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate\nlimit 100%")
        return b""

    with (
        kubelet(path, refuse),
        pytest.raises(GrpcCallError, match="status 8: rejected by rate limit"),
    ):
        listed_pods(path)


def test_a_socket_of_something_else_is_reported(tmp_path: Path) -> None:
    """A gRPC server without the interface is not a kubelet."""
    path = tmp_path / "other.sock"
    with kubelet(path, lambda _: b"", "v7"), pytest.raises(GrpcCallError, match="knows no version"):
        listed_pods(path)


def test_a_kubelet_that_hangs_is_given_up(tmp_path: Path) -> None:
    """The timeout covers the whole call."""
    path = tmp_path / "kubelet.sock"
    release = threading.Event()

    def hang(_: grpc.ServicerContext) -> bytes:
        release.wait(60)
        return b""

    with kubelet(path, hang):
        with pytest.raises(GrpcCallError, match=r"did not answer within 0\.2 s"):
            listed_pods(path, timeout_seconds=0.2)
        release.set()


def test_no_kubelet_is_reported(tmp_path: Path) -> None:
    """The message names the socket."""
    with pytest.raises(GrpcCallError, match=r"kubelet\.sock cannot be reached: No such file"):
        listed_pods(tmp_path / "kubelet.sock")


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the optional package the error says what to install."""
    monkeypatch.setitem(sys.modules, "h2.exceptions", None)
    with pytest.raises(GrpcCallError, match=r"install 'gpu-rightsizer\[kubernetes\]'"):
        listed_pods(tmp_path / "kubelet.sock")


@contextmanager
def peer(path: Path, behave: Callable[[socket.socket], object]) -> Iterator[None]:
    """A peer with any behavior, for one caller."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            caller, _ = server.accept()
            with caller:
                behave(caller)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "hung up"),
        (b"\xff" * 3 * 2**20, "more than 1048576 bytes"),
        # A data frame on an unopened stream.
        (b"\0\0\1\0\0\0\0\0\0x", "does not speak HTTP/2"),
        # Settings, then a GOAWAY frame: last stream 0, error 2.
        (b"\0\0\0\4\0\0\0\0\0" + b"\0\0\x08\7\0\0\0\0\0" + bytes(7) + b"\2", "broke off"),
    ],
)
def test_a_peer_that_is_no_kubelet(tmp_path: Path, words: bytes, said: str) -> None:
    """For any bytes, the call ends with one kind of error."""
    path = tmp_path / "peer.sock"

    def behave(caller: socket.socket) -> None:
        with contextlib.suppress(OSError):  # The caller may disconnect at any time.
            caller.recv(65536)
            caller.sendall(words)
            caller.shutdown(socket.SHUT_WR)
            while caller.recv(65536):
                pass

    with peer(path, behave), pytest.raises(GrpcCallError, match=said):
        listed_pods(path)


def answering(headers: list[tuple[str, str]], body: bytes) -> Callable[[socket.socket], object]:
    """A peer that speaks HTTP/2 and gives one request the answer."""

    def behave(caller: socket.socket) -> None:
        server = H2Connection(H2Configuration(client_side=False))
        server.initiate_connection()
        has_asked = False
        while not has_asked:
            events = server.receive_data(caller.recv(65536))
            has_asked = any(isinstance(event, StreamEnded) for event in events)
        server.send_headers(1, headers)
        server.send_data(1, body, end_stream=True)
        caller.sendall(server.data_to_send())

    return behave


@pytest.mark.parametrize(
    ("status", "grpc_status", "body", "said"),
    [
        ("503", "0", b"", "HTTP status 503"),
        ("200", "7", b"", "gRPC status 7"),
        ("200", "seven", b"", "gRPC status 2"),
        ("200", "0", b"", "not one plain gRPC message"),
        ("200", "0", b"\1\0\0\0\0", "not one plain gRPC message"),
        ("200", "0", b"\0\0\0\0\5\n", "not one plain gRPC message"),
        ("200", "0", b"\0\0\0\0\0" * 2, "not one plain gRPC message"),
    ],
)
def test_an_answer_that_is_none(
    tmp_path: Path, status: str, grpc_status: str, body: bytes, said: str
) -> None:
    """Refused, compressed, truncated or duplicate answers do not mean an empty node."""
    path = tmp_path / "peer.sock"
    behave = answering([(":status", status), ("grpc-status", grpc_status)], body)
    with peer(path, behave), pytest.raises(GrpcCallError, match=said):
        listed_pods(path)


def test_a_peer_that_drips_is_given_up(tmp_path: Path) -> None:
    """Single bytes do not extend the timeout."""
    path = tmp_path / "peer.sock"
    done = threading.Event()

    def drip(caller: socket.socket) -> None:
        frame = b"\0\0\x08\6\0\0\0\0\0" + bytes(8)  # A ping, which needs an answer.
        with contextlib.suppress(OSError):
            caller.sendall(b"\0\0\0\4\0\0\0\0\0")
            while not done.wait(0.02):
                caller.sendall(frame)

    with peer(path, drip):
        with pytest.raises(GrpcCallError, match="did not answer within"):
            listed_pods(path, timeout_seconds=0.3)
        done.set()


def read(data: bytes) -> tuple[ContainerDevices, ...] | None:
    """The parsed answer, `None` where it is rejected as it should be."""
    try:
        return parse_pods(data)
    except GrpcCallError:
        return None


@given(st.binary(max_size=200))
def test_hostile_bytes_never_crash(data: bytes) -> None:
    """Any bytes are read or rejected."""
    assert all(found.devices or found.claimed for found in read(data) or ())


@given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_damaged_answers_never_crash(position: int, damage: bytes) -> None:
    """An answer with a few changed bytes, or truncated there, is read or rejected."""
    whole = answer(pod("ml", "a", [UUID, "nvidia0"], claimed=["gpu-0"]))
    for data in (whole[:position] + damage + whole[position + len(damage) :], whole[:position]):
        assert all(found.devices or found.claimed for found in read(data) or ())


names = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(names, names, st.lists(st.text(max_size=40), max_size=3)), max_size=4))
def test_reads_what_protobuf_writes(pods: list[tuple[str, str, list[str]]]) -> None:
    """Our parser and Google's library agree; an invalid Kubernetes name is omitted."""
    data = answer(*(pod(namespace, name, devices) for namespace, name, devices in pods))
    theirs = [
        ContainerDevices(
            resource.namespace,
            resource.name,
            "main",
            tuple(resource.containers[0].devices[0].device_ids),
        )
        for resource in Response.FromString(data).pod_resources
    ]
    legal = "abcdefghijklmnopqrstuvwxyz0123456789"
    expected = [
        their
        for their in theirs
        if their.devices
        and all(
            text and text[0] in legal and not set(text) - set(legal + ".-")
            for text in (their.namespace, their.pod)
        )
    ]
    assert list(parse_pods(data)) == expected


def test_a_kubelet_with_fifty_thousand_pods_is_read_in_full() -> None:
    """A hundred times what a node has, three containers each."""
    response = Response()
    for number in range(50_000):
        job = response.pod_resources.add(name=f"job-{number}", namespace="research")
        for container in ("main", "logs", "proxy"):
            job.containers.add(name=container)
    job.containers[0].devices.add(resource_name="nvidia.com/gpu", device_ids=["GPU-1"])
    found = ContainerDevices("research", "job-49999", "main", ("GPU-1",))
    assert parse_pods(response.SerializeToString()) == (found,)


def test_an_answer_of_nothing_but_empty_fields_is_refused() -> None:
    """Two bytes a message would otherwise become millions of objects."""
    with pytest.raises(GrpcCallError, match="more than 500000 fields"):
        parse_pods(b"\x0a\x00" * 600_000)


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x0b", b"\xff" * 11, b"\x0a\x04\x0a\x02\xff\xfe", b"\x09\x00"],
)
def test_broken_messages_are_refused(data: bytes) -> None:
    """Covers truncated, too long, obsolete and invalid UTF-8 ones."""
    with pytest.raises(GrpcCallError, match="cannot be read"):
        parse_pods(data)
