"""Logs of people in other languages, through other programs, of parts of GPUs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal

Replays = Callable[..., Any]
Writes = Callable[..., Path]
MIB: Final = 2.0**20
QUERY: Final = "timestamp, index, utilization.gpu [%], power.draw [W]\n"


def rows(form: str, polls: int = 12) -> Iterator[str]:
    """Rows of two GPUs, a millisecond apart."""
    for at in range(polls):
        for gpu in range(2):
            yield form.format(at=at, gpu=gpu, load=90 - 80 * gpu, mark="")


def query() -> list[str]:
    """Lines of nvidia-smi."""
    form = "2024/05/01 12:00:{at:02}.00{gpu}, {gpu}, {load} %, 250.50 W\n"
    return [QUERY, *rows(form)]


@pytest.mark.parametrize(
    ("heading", "form"),
    [
        (
            "Zeitstempel;Grafikkarte;Auslastung (%);Speicher belegt (MB);Leistung (W)",
            "01.05.2024 12:00:{at:02};{gpu};{load},0;900;250,5",
        ),
        (
            "Horodatage;GPU;Utilisation GPU (%);Mémoire utilisée (Mo);Puissance (W)",
            "13/05/2024 12:00:{at:02};{gpu};{load};900;250,5",
        ),
        (
            "fecha,gpu,uso_gpu,memoria_usada_mb,potencia_w",
            "2024-05-01 12:00:{at:02},{gpu},{load},900,250.5",
        ),
        (
            "时间,显卡,利用率(%),显存 已用(MiB),功耗(W)",
            "2024-05-01 12:00:{at:02},{gpu},{load},900,250.5",
        ),
    ],
    ids=["German", "French", "Spanish", "Chinese"],
)
def test_headings_of_other_languages_are_words_too(
    replay: Replays, write: Writes, heading: str, form: str
) -> None:
    """With or without accents."""
    played = replay(write(f"{heading}\n" + "".join(f"{row}\n" for row in rows(form))))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.1] * 12
    assert played.values("index:1", Signal.POWER_WATTS) == [250.5] * 12
    assert played.values("index:0", Signal.MEMORY_USED_BYTES) == [900 * MIB] * 12


def test_instances_of_a_gpu_are_apart(replay: Replays, write: Writes) -> None:
    """Where the column of GPUs leaves them together; a flag of each GPU changes nothing."""
    form = "2024-05-01 12:00:{at:02},0,{gpu},{load}\n"
    played = replay(write("time,gpu,mig,util_pct\n" + "".join(rows(form))))
    assert [device.uuid for device in played.source.devices] == ["GPU 0 MIG 0", "GPU 0 MIG 1"]
    assert played.values("GPU 0 MIG 1", Signal.GPU_BUSY) == [0.1] * 12
    form = "2024-05-01 12:00:{at:02},{gpu},0,{load}\n"
    played = replay(write("time,gpu,mig,util_pct\n" + "".join(rows(form)), "flag.csv"))
    assert [device.uuid for device in played.source.devices] == ["index:0", "index:1"]


@pytest.mark.parametrize("prefix", ["{number}:", "gpu.log:{number}:", "logs/gpu-7.log:"])
def test_what_grep_puts_before_lines_is_no_cell(
    replay: Replays, write: Writes, prefix: str
) -> None:
    """Number, name, or both."""
    lines = enumerate(query(), 1)
    text = "".join(prefix.format(number=number) + line for number, line in lines)
    assert replay(write(text)).values("index:1", Signal.GPU_BUSY) == [0.1] * 12


def test_lines_that_docker_keeps_are_those_of_the_container(replay: Replays, write: Writes) -> None:
    """Of a table, and of JSON."""

    def kept(lines: list[str]) -> str:
        forms = (
            {"log": line, "stream": "stdout", "time": "2024-05-01T12:00:00Z"} for line in lines
        )
        return "".join(json.dumps(form, separators=(",", ":")) + "\n" for form in forms)

    assert replay(write(kept(query()))).values("index:1", Signal.GPU_BUSY) == [0.1] * 12
    form = '{{"ts": 171456480{gpu}{at:02}0, "gpu": {gpu}, "util_pct": {load}}}\n'
    played = replay(write(kept([*rows(form)]), "log.jsonl"))
    assert played.values("index:1", Signal.GPU_BUSY) == [0.1] * 12


def test_the_index_of_a_frame_is_none_of_a_gpu(replay: Replays, write: Writes) -> None:
    """Its heading is empty, before a tab as before a comma."""
    lines = rows("2024-05-01 12:00:{at:02}\t{gpu}\t{load}\n")
    numbered = (f"{number}\t{line}" for number, line in enumerate(lines))
    table = ["\ttime\tgpu\tutil_pct\n", *numbered]
    assert replay(write("".join(table))).values("index:1", Signal.GPU_BUSY) == [0.1] * 12
    kept = (json.dumps({"log": line, "stream": "stdout"}) + "\n" for line in table)
    assert replay(write("".join(kept))).values("index:1", Signal.GPU_BUSY) == [0.1] * 12


def test_a_command_keeps_the_column_whose_names_take_turns(replay: Replays, write: Writes) -> None:
    """Rows of a poll are a millisecond apart: no two have the same time."""
    path = write("".join(query()[1:]))
    fields = "timestamp,gpu_index,util_pct,power_w"
    with pytest.raises(RecordingError, match=f"--fields {fields}'"):
        replay(path)
    assert replay(path, fields=fields).values("index:1", Signal.GPU_BUSY) == [0.1] * 12
