"""Served models in the text of a look, where something about them is not known."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rightsizer.fleet import served
from rightsizer.fleet.served_blocks import served_blocks
from rightsizer.io.codec import plain
from rightsizer.model.served_load import ServedLoad
from rightsizer.report.block_text import text_of

LOAD = ServedLoad("llama", "vllm", 60.0, devices=("GPU-0", "GPU-1"), workload="chat")


@pytest.mark.parametrize(
    ("load", "gpus"),
    [
        (LOAD, "2 GPUs of several kinds"),
        (ServedLoad("llama", "vllm", 60.0, devices=("GPU-0",)), "1 GPU"),
        (ServedLoad("llama", "vllm", 60.0, devices=("GPU-0",), board="L4"), "1 x L4"),
    ],
)
def test_gpus_without_one_kind_are_counted(load: ServedLoad, gpus: str) -> None:
    """No kind is left out in silence."""
    answer = {"cluster": "", "team": "", "name": "chat", "load": plain(load)}
    text = " ".join(text_of([served_blocks([{**answer, "error": "no plan"}], 9)]).split())
    assert f"{gpus} " in text
    assert " x  " not in text


def test_note_counts_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One is not several."""
    monkeypatch.setattr(served, "_loads", lambda *_: iter((LOAD,)))
    request = cast(Any, SimpleNamespace(devices={}))
    answer = served.served_models(cast(Any, None), request, 1, tmp_path / "absent.yaml")
    (note,) = answer.notes
    assert note.startswith("Not planned: 1 served model: ")
