"""Rows of the table of GPUs in a terminal."""

import io
import shlex

from rich.console import Console

from rightsizer.console.node_frame import NodeFrame, node_rows
from rightsizer.console.node_table import TableView, node_view
from rightsizer.io.codec import plain
from rightsizer.model.served_load import ServedLoad, ServedNeed

DEVICE = {
    "uuid": "GPU-0",
    "title": "GPU 0",
    "index": 0,
    "name": None,
    "board": None,
    "state": "productive",
    "signals": {},
    "workloads": [],
    "processes": None,
    "down": None,
    "mig_profile": None,
    "has_mig_instances": False,
}


def advice(found: str, dollars: float) -> dict[str, object]:
    """A recommendation about the only GPU."""
    savings = {"dollars_per_hour_low": 0.0, "dollars_per_hour_high": dollars}
    about = {"id": found, "severity": "medium", "confidence": 0.9, "culprits": []}
    said = {"action": "release", "finding": "idle_held", "summary": "GPU 0 is idle."}
    how = [{"title": "Release", "text": "kubectl --namespace research delete pod " + "x" * 30}]
    held = {"devices": ["GPU-0"], "closed": None, "savings": savings}
    return {**about, **said, **held, "instructions": how}


def test_of_equally_urgent_advice_top_shows_what_saves_most() -> None:
    """The to-do is that of the page."""
    pieces = [advice("cheap", 3.0), advice("dear", 5.0)]
    report = {"agent": {}, "devices": [DEVICE], "advice": pieces}
    (row,) = node_rows(NodeFrame(report, {"devices": []}))
    assert row.advice is not None
    assert row.advice["id"] == "dear"


def test_commands_are_whole_in_a_narrow_terminal() -> None:
    """They are there to be copied: a line that ends in a backslash goes on in the next."""
    flags = " --url http://gpu-node-17.cluster.example:19400 --password-file 'my own pass word'"
    report = {
        "agent": {"source": "nvml"},
        "devices": [DEVICE],
        "advice": [advice("a1b2c3d4e5f60718", 3.0)],
    }
    view = TableView(selected="GPU-0", width=60, flags=flags)
    printed = io.StringIO()
    Console(file=printed, width=view.width).print(
        node_view(NodeFrame(report, {"devices": []}), view)
    )
    text = printed.getvalue()
    assert all(len(line) <= view.width for line in text.splitlines())
    assert "kubectl --namespace research delete pod" in text
    assert "x" * 30 in text
    _, explain, claim = text.replace("\\\n", " ").replace("rightsizer ", "\0").split("\0")
    assert shlex.split(explain) == ["explain", "a1b2c3d4e5f60718", *shlex.split(flags)]
    assert shlex.split(claim) == ["claim", "a1b2c3d4e5f60718", *shlex.split(flags)]


def test_what_is_served_stands_beside_the_holder() -> None:
    """In the row in few words, in the details in all; a filter finds the model."""
    load = ServedLoad("hub/llama-8b", "vllm", 60.0, requests_per_second=3.1, devices=("GPU-0",))
    held = {**DEVICE, "workloads": [{"workload": "kubernetes:chat/chat-api"}]}
    needs = "1 x L40S: 97% to keep it"
    need = ServedNeed(load.devices, "llama-8b", "1 x L40S", needs, "saves $4 an hour")
    report = {
        "agent": {"source": "nvml", "served_needs": [plain(need)]},
        "devices": [held],
        "advice": [],
        "served": [plain(load)],
    }
    frame = NodeFrame(report, {"devices": []})
    (row,) = node_rows(frame)
    assert "llama-8b" in row.text
    printed = io.StringIO()
    view = TableView(selected="GPU-0", width=160)
    Console(file=printed, width=view.width).print(node_view(frame, view))
    text = printed.getvalue()
    assert "chat-api; 3.1/s llama-8b; needs 1 x L40S" in " ".join(text.split())
    assert "Serves hub/llama-8b on vllm, 3.1 requests/s." in text
    assert "llama-8b needs 1 x L40S: 97% to keep it; saves $4 an hour." in text


def test_a_table_that_is_printed_once_has_models_in_full() -> None:
    """Beside wide columns they go on in further lines; the lines of a screen are counted."""
    load = ServedLoad(
        "Qwen/Qwen2.5-32B-Instruct", "vllm", 60.0, requests_per_second=2.0, devices=("GPU-0",)
    )
    held = {
        **DEVICE,
        "state": "memory_bandwidth_bound",
        "workloads": [{"workload": "kubernetes:chat/code-assistant"}],
    }
    need = ServedNeed(load.devices, "qwen", "2 x H100-SXM5-80GB (tensor 2)", "more")
    report = {
        "agent": {"source": "nvml", "served_needs": [plain(need)]},
        "devices": [held],
        "advice": [],
        "served": [plain(load)],
    }
    frame = NodeFrame(report, {"devices": []})
    for height, is_whole in ((None, True), (40, False)):
        printed = io.StringIO()
        view = TableView(width=120, height=height)
        Console(file=printed, width=view.width).print(node_view(frame, view))
        words = printed.getvalue().split()
        assert ({"Qwen2.5-32B-Instruct;", "H100-SXM5-80GB", "2)"} <= {*words}) is is_whole


def test_a_strip_without_colors_has_a_glyph_for_each_group_of_states() -> None:
    """Else a GPU that idles looks like one at work; with colors it is one bar."""
    cells = [{"state_seconds": {state: 1.0}} for state in ("productive", "idle_held")]
    past = {"devices": [{"uuid": "GPU-0", "cells": cells}]}
    report = {"agent": {"source": "nvml"}, "devices": [DEVICE], "advice": []}
    shown = []
    for has_color in (True, False):
        printed = io.StringIO()
        view = TableView(width=160, has_color=has_color)
        Console(file=printed, width=160).print(node_view(NodeFrame(report, past), view))
        shown.append(printed.getvalue())

    assert "██" in shown[0]
    assert "█░" in shown[1]
    assert "░ held but unused" in shown[1]


def test_alternatives_are_one_thing_to_do() -> None:
    """As many as the table and `advise` show."""
    pieces = [{**advice(name, 3.0), "exclusive_group": "g"} for name in ("size", "share")]
    report = {"agent": {"source": "nvml"}, "devices": [DEVICE], "advice": pieces}
    printed = io.StringIO()
    Console(file=printed, width=120).print(
        node_view(NodeFrame(report, {"devices": []}), TableView())
    )
    assert "1 to do" in printed.getvalue()


def test_savings_and_waste_say_of_what_they_are() -> None:
    """Of so many GPUs, a day; in a narrow terminal without the time."""
    devices = [{**DEVICE, "uuid": f"GPU-{place}", "title": f"GPU {place}"} for place in range(2)]
    both = {**advice("pair", 6.0), "devices": ["GPU-0", "GPU-1"]}
    report = {"agent": {"source": "nvml"}, "devices": devices, "advice": [both]}
    for width, headings in ((140, ("Wasted, 24 h", "Saves a day")), (120, ("Wasted", "Saves"))):
        printed = io.StringIO()
        Console(file=printed, width=width).print(
            node_view(NodeFrame(report, {"devices": []}), TableView(width=width))
        )
        text = printed.getvalue()
        assert text.count("$72, on 2 GPUs") == 2
        assert all(heading in text for heading in headings)
        assert ("a day" in text) is (width == 140)
