"""Keys and panels of `rightsizer top`, without a terminal."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from threading import Thread
from typing import Any

import pytest
from rich.console import Console

from cases import NOW, finding
from rightsizer.console.local_process import LocalProcess, local_process
from rightsizer.console.node_frame import NodeFrame, node_rows
from rightsizer.console.node_history import NodeHistory
from rightsizer.console.node_panels import bars, charts, processes
from rightsizer.console.node_screen import NodeScreen
from rightsizer.console.remote_agent import RemoteAgent
from rightsizer.io.codec import plain
from rightsizer.io.http import HttpClient
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.errors import RightsizerError
from rightsizer.report.explanation import explain_finding
from rightsizer.report.labels import ABSENT

STRIP: Mapping[str, Any] = {"devices": []}
EXPLAINED = plain(explain_finding(finding(id="a1", summary="GPU 0 is idle."), NOW, ()))


class Agent(RemoteAgent):
    """An agent elsewhere, with answers of its own."""

    def __init__(self, refusal: str = "") -> None:
        super().__init__(HttpClient("http://node:19400", HttpSettings()))
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.refusal = refusal

    def get(self, target: str, key: str = "") -> Any:
        """The explanation, the node, or a refusal."""
        if self.refusal:
            raise RightsizerError(self.refusal)
        if target == "/api/v1/advice/a1":
            return EXPLAINED
        return frame().report if "report" in target else STRIP

    def post(self, target: str, body: Mapping[str, Any]) -> Any:
        """What was asked, or a refusal."""
        if self.refusal:
            raise RightsizerError(self.refusal)
        self.asked.append((target, body))
        return {"advice": {"actor": "ana"}}


def device(number: int, **changes: object) -> dict[str, object]:
    """A GPU with a process."""
    process = {"pid": 100 + number, "kind": "compute", "memory_used_bytes": 2**30 * number,
               "gpu_busy": None, "workload": "kubernetes/a/train"}  # fmt: skip
    usual = {
        "uuid": f"GPU-{number}", "title": f"GPU {number}", "index": number, "name": "NVIDIA L4",
        "board": None, "state": "productive", "workloads": [], "down": None, "mig_profile": None,
        "has_mig_instances": False, "processes": [process],
        "signals": {"gpu_busy": 0.5, "memory_used": 0.25, "power": 1.0},
    }  # fmt: skip
    return {**usual, **changes}


def frame(count: int = 8, generation: int = 1) -> NodeFrame:
    """A node whose first GPU has a recommendation."""
    advice = {
        "id": "a1", "severity": "medium", "confidence": 0.9, "culprits": [], "action": "release",
        "finding": "idle_held", "summary": "GPU 0 is idle.", "instructions": [],
        "devices": ["GPU-0"], "closed": None,
        "savings": {"dollars_per_hour_low": 1.0, "dollars_per_hour_high": 1.0},
    }  # fmt: skip
    report = {
        "generation": generation,
        "agent": {"source": "nvml", "interval_seconds": 1.0, "trouble": None, "started": 5.0},
        "devices": [device(number) for number in range(count)],
        "advice": [advice],
    }
    return NodeFrame(report, STRIP)


def held(workload: str, pid: int) -> dict[str, object]:
    """A GPU with a process of a workload."""
    process = {"pid": pid, "kind": "compute", "memory_used_bytes": None, "gpu_busy": None,
               "workload": workload}  # fmt: skip
    return device(0, processes=[process], workloads=[{"workload": workload}])


def frame_of_one(workload: str) -> NodeFrame:
    """A node with one GPU that a workload holds."""
    return NodeFrame({**frame().report, "devices": [held(workload, 7)]}, STRIP)


@contextmanager
def local_server(path: Path, report: Mapping[str, Any]) -> Iterator[str]:
    """An agent's socket with one answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(report).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def address_string(self) -> str:
            return "local"

    server = UnixStreamServer(str(path), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield str(path)
    finally:
        server.shutdown()
        server.server_close()


def shown(screen: NodeScreen, of: NodeFrame, width: int = 200, height: int = 50) -> list[str]:
    """The lines of the terminal."""
    printed = io.StringIO()
    console = Console(file=printed, width=width, height=height)
    console.print(screen.view(of, console))
    return printed.getvalue().splitlines()


def press(screen: NodeScreen, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        screen.press(key, frame())


def test_escape_never_quits() -> None:
    """It leads back; `q` ends."""
    screen = NodeScreen(Agent(), 2.0)
    press(screen, "\x1b", "h", "\x1b", "down", "\x1b", "/", "x", "\x1b", "\x1b")
    assert not screen.is_over
    press(screen, "q")
    assert screen.is_over


def test_a_key_explains_the_selected_recommendation() -> None:
    """In place of the table, and Escape shows the table again."""
    screen = NodeScreen(Agent(), 2.0)
    press(screen, "down", "e")
    assert "GPU 0 is idle." in "\n".join(shown(screen, frame()))
    assert "PID" not in "\n".join(shown(screen, frame()))
    press(screen, "\x1b")
    assert "PID" in "\n".join(shown(screen, frame()))


def test_a_claim_is_asked_before_it_is_made() -> None:
    """Nothing happens but for a yes."""
    agent = Agent()
    screen = NodeScreen(agent, 2.0)
    press(screen, "down", "c")
    assert "Claim 'Release" in shown(screen, frame())[-1]
    press(screen, "n")
    assert not agent.asked
    press(screen, "c", "y")
    assert [target for target, _ in agent.asked] == ["/api/v1/advice/a1/claim"]
    assert "Claimed by ana." in shown(screen, frame())[-1]


def test_a_refusal_is_shown_whole() -> None:
    """With what the agent says."""
    agent = Agent()
    screen = NodeScreen(agent, 2.0)
    press(screen, "down", "c")
    agent.refusal = "changes over TCP are off"
    press(screen, "y")
    assert "changes over TCP are off" in shown(screen, frame())[-1]


@pytest.mark.parametrize("key", ["e", "c"])
def test_without_a_recommendation_a_key_says_so(key: str) -> None:
    """Neither page nor question opens."""
    screen = NodeScreen(Agent(), 2.0)
    press(screen, key)
    assert "Select a GPU first" in shown(screen, frame())[-1]
    press(screen, "down", "down", key)
    assert "no open recommendation" in shown(screen, frame())[-1]


@pytest.mark.parametrize(("width", "height"), [(200, 50), (120, 40), (80, 24), (60, 15)])
def test_the_screen_fits(width: int, height: int) -> None:
    """The keys stand in the last line, whatever is above."""
    screen = NodeScreen(Agent(), 2.0)
    lines = shown(screen, frame(), width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert "select" in lines[-1]


def test_a_large_terminal_is_used() -> None:
    """200 x 50: a table, the processes, and readings of as many GPUs as there is room for."""
    screen = NodeScreen(Agent(), 2.0)
    history = screen.history
    for generation in range(200):
        history.add(frame(generation=generation))
    lines = shown(screen, frame())
    assert sum(not line.strip() for line in lines) <= 10
    assert sum("Busy 50%" in line for line in lines) >= 2


def test_processes_with_most_memory_come_first_and_the_rest_is_counted() -> None:
    """In the lines that there are."""
    screen = NodeScreen(Agent(), 2.0)
    text = shown(screen, frame(40), 160, 60)
    pids = [line.split()[0] for line in text if "kubernetes/a/train" in line]
    assert pids == sorted(pids, reverse=True)


def test_names_of_processes_are_this_hosts_alone() -> None:
    """An agent elsewhere has other processes of these numbers, so none is looked up."""
    made = [device(0, processes=[{**device(0)["processes"][0], "pid": 1}])]  # type: ignore[index]
    lines = shown(NodeScreen(Agent(), 2.0), NodeFrame({**frame().report, "devices": made}, STRIP))
    (line,) = (each for each in lines if "kubernetes/a/train" in each)
    assert line.split()[:5] == ["1", "GPU", "0", ABSENT, ABSENT]
    assert local_process(1).name
    assert local_process(2**22 + 7) == LocalProcess()


def test_names_follow_the_socket_not_the_address(tmp_path: Path) -> None:
    """A tunnel's address is this host's as well; the agent behind it is another."""
    with local_server(tmp_path / "api.sock", {"agent": {"started": 6.0}}) as socket:
        elsewhere = NodeScreen(Agent(), 2.0, socket=socket)
        assert not elsewhere.is_agent_of_host(frame())
    with local_server(tmp_path / "same.sock", {"agent": {"started": 5.0}}) as socket:
        assert NodeScreen(Agent(), 2.0, socket=socket).is_agent_of_host(frame())
    assert not NodeScreen(Agent(), 2.0, socket=str(tmp_path / "none.sock")).is_agent_of_host(
        frame()
    )


def test_names_of_processes_are_shown_as_they_are(tmp_path: Path) -> None:
    """Neither markup nor broken bytes of a name disturb the screen."""
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "comm").write_bytes(b"[/x]\xff\n")
    known = local_process(7, tmp_path)
    assert known.name == "[/x]\ufffd"
    row = node_rows(NodeFrame({**frame().report, "devices": [held("[/y] [red]z", 7)]}, STRIP))[0]
    printed = io.StringIO()
    Console(file=printed, width=160).print(processes([row], 9, {7: known}))
    assert "[/x]" in printed.getvalue()
    assert "[/y] [red]z" in printed.getvalue()
    assert "[red]z" in "\n".join(shown(NodeScreen(Agent(), 2.0), frame_of_one("slurm/[red]z")))


@pytest.mark.parametrize("width", [40, 76, 80, 100, 121, 140, 160, 200, 250])
def test_bars_keep_to_their_lines(width: int) -> None:
    """At any width."""
    history = NodeHistory()
    for generation in range(300):
        history.add(frame(generation=generation))
    rows = node_rows(frame())
    console = Console(file=io.StringIO(), width=width)
    for lines in (7, 10, 20):
        drawn = console.render_lines(charts(rows, history, 1.0, width, lines))
        assert len(drawn) <= lines


def test_an_error_of_the_past_is_gone_with_it() -> None:
    """While the agent is away its last answer stands, and the reason below it."""
    agent = Agent("down")
    screen = NodeScreen(agent, 2.0)
    screen.renew(frame())
    assert "down" in shown(screen, frame())[-1]
    agent.refusal = ""
    screen.renew(frame())
    assert "select" in shown(screen, frame())[-1]


def test_a_reading_is_taken_once() -> None:
    """However often a frame is fetched between two samples."""
    history = NodeHistory()
    for generation in (1, 1, 2):
        history.add(frame(generation=generation))
    assert len(history.of("GPU-0")) == 2


def test_bars_have_eight_steps_a_line_and_unknown_ones_are_empty() -> None:
    """The last ones at the right."""
    assert bars([0.0, 0.5, 1.0, None], 6, 2) == ["    █ ", "   ██ "]
    assert bars([1 / 8, 2.0], 2, 1) == ["▁█"]
    assert bars([], 3, 1) == ["   "]


def test_an_instance_has_its_number_and_its_model_no_profile() -> None:
    """The profile stands in its title already."""
    name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    made = device(0, title="MIG 0:3 (1g.10gb)", name=name, mig_profile="1g.10gb")
    report = {**frame().report, "devices": [made]}
    (row,) = node_rows(NodeFrame(report, {"devices": []}))
    assert (row.title, row.model) == ("MIG 0:3 (1g.10gb)", "H100 80GB HBM3")
