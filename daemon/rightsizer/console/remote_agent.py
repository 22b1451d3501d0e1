"""HTTP client of an agent for commands: flags and credentials."""

import argparse
import base64
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rightsizer.console.command import add_flags
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.errors import AgentAbsentError, HistoryError, RightsizerError, UsageError

if TYPE_CHECKING:
    from rightsizer.web.settings import WebTree

DEFAULT_URL: Final = "http://127.0.0.1:19400"
ADVICE_PATH: Final = "/api/v1/advice"
_Answer = TypeVar("_Answer")
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_NO_AGENT: Final = (
    "what answers there is no agent of Rightsizer; check the address, its port (19400 by default) "
    "and the path of a proxy before it"
)


def add_url_flags(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add `--url`, and flags for TLS and users."""
    flags = """
--url URL: the address of an agent, or of a fleet's service, such as http://node:19400
--user NAME: user to authenticate as
--password-file FILE: file whose first line is the password of that user
--ca-file FILE: a PEM file with the authorities to trust; without it the system's own
"""
    add_flags(parser.add_argument, flags, url={"default": default}, password_file=Path)


class RemoteAgent:
    """Client of one agent over HTTP; every fault is a RightsizerError with its remedy."""

    def __init__(self, client: HttpClient, user: str = "") -> None:
        self._client = client
        self._user = user

    @classmethod
    def of(
        cls,
        arguments: argparse.Namespace,
        *,
        accept: str = "application/json",
        timeout_seconds: float = HttpSettings().timeout_seconds,
    ) -> "RemoteAgent":
        """Create the client from flags; raises `UsageError` for an invalid address."""
        if arguments.password_file and not arguments.user:
            raise UsageError("--password-file: whose password it is, --user tells; give both")
        file = arguments.ca_file or ""
        settings = HttpSettings(timeout_seconds=timeout_seconds, ca_file=file, tries=1)
        login = partial(_login, arguments)
        try:
            client = HttpClient(arguments.url, settings, accept=accept, headers=login)
            return cls(client, arguments.user or "")
        except ValueError as error:
            raise UsageError(f"--url: {error}") from None

    @property
    def url(self) -> str:
        """Address of the agent."""
        return self._client.base_url

    def get(self, target: str, key: str = "") -> Any:
        """Return the answer to a GET; it must have `key` if given."""
        return self._asked("GET", target, key, None)

    def post(self, target: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a POST, which is never retried."""
        return self._asked("POST", target, "advice", body)

    def _asked(self, method: str, target: str, key: str, body: Mapping[str, Any] | None) -> Any:
        result = self._client.request(method, target, body=body)
        place = self._client.base_url
        if isinstance(result, Failure):
            is_unknown = result.status == _NOT_FOUND and key and method == "GET"
            # Agents explain a refusal in plain text.
            is_foreign = is_unknown or result.answer.lstrip().startswith("<")
            text = f"{place}: {_NO_AGENT if is_foreign else _remedy(result, self._user)}"
            raise (AgentAbsentError if result.kind is FailureKind.AWAY else RightsizerError)(text)
        answer: Any = result.body
        if key and answer is not None and not (isinstance(answer, Mapping) and key in answer):
            raise RightsizerError(f"{place}: {_NO_AGENT}")
        return answer


def ask_node(
    arguments: argparse.Namespace,
    web: "WebTree",
    ask: Callable[[argparse.Namespace], _Answer],
    error: HistoryError,
    asked: Sequence[str] = (),
) -> _Answer:
    """Return the answer of this node's agent at its addresses, for want of a history.

    `ask` gets the arguments with `--url`.

    Raises:
        HistoryError: `error`, with all places that were `asked` if no agent answers, or with what
            the first that answers says; as it is, if a history was named.
    """
    if arguments.history_path:
        raise error
    urls = tuple(_local_urls(web))
    for url in urls:
        at_url = argparse.Namespace(**vars(arguments) | {"url": url})
        agent = RemoteAgent.of(at_url)
        try:
            # Another server may have the port, and its page must not pass for a report.
            agent.get(ADVICE_PATH, "advice")
            return ask(at_url)
        except AgentAbsentError:
            continue
        except UsageError:
            raise
        except RightsizerError as fault:
            raise HistoryError(f"{str(fault).splitlines()[0]}; and {error}") from None
    places = " or ".join((*asked, *urls)) or "an address, for none is configured"
    raise HistoryError(f"no agent answers at {places}, and {error}") from None


def _local_urls(web: "WebTree") -> Iterator[str]:
    """Yield how the agent of a configuration is reached on its own node."""
    from rightsizer.web.settings import format_address, parse_address  # noqa: PLC0415

    scheme = "https" if _has_tls(web.config_file) else "http"
    for address in map(parse_address, web.listen_addresses):
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host)  # noqa: S104 - nothing is bound.
        yield f"{scheme}://{format_address(host or address.host, address.port)}{web.route_prefix}"


def _has_tls(file: str) -> bool:
    """Whether a web configuration has TLS; `False` if it is closed to this user."""
    from rightsizer.io.yaml import YamlError, load_yaml  # noqa: PLC0415

    with contextlib.suppress(OSError, UnicodeDecodeError, YamlError):
        text = Path(file).read_text("utf-8-sig") if file else ""
        settings = load_yaml(text, file).data
        return isinstance(settings, Mapping) and bool(settings.get("tls_server_config"))
    return False


def _login(arguments: argparse.Namespace) -> Mapping[str, str]:
    if not arguments.user:
        return {}
    file: Path | None = arguments.password_file
    try:
        password = file.read_text(encoding="utf-8").split("\n")[0] if file else ""
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--password-file: {file} cannot be read: {reason}") from None
    raw = f"{arguments.user}:{password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(raw).decode()}"}


def _remedy(failure: Failure, user: str) -> str:
    if failure.status == _UNAUTHORIZED:
        if user:
            return f"the agent refuses user '{user}'; check the name and --password-file"
        return "the agent wants a user; give --user and --password-file"
    if failure.status is not None and failure.answer:
        return failure.answer.strip()
    if failure.kind is FailureKind.AWAY:
        return f"{failure.message}; check that an agent listens there, or give --url"
    if failure.kind is FailureKind.UNTRUSTED:
        return f"{failure.message}; give --ca-file, or an http address"
    return failure.message
