"""The condensed kernels of experts."""

import gzip
from pathlib import Path

import pytest

from evaluation.sizing.expert_kernels import condensed, read_cells
from rightsizer.catalogue import expert_kernels

_HEADER = (
    "gpu_key,engine,format,hidden,expert_intermediate,experts_per_token,experts,moe_tensor,"
    "moe_expert,tokens,engine_version,latency_balanced_us,latency_skewed_us"
)


def _write(path: Path, *rows: str) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join((_HEADER, *rows, "")))


def test_cells_of_divided_experts_and_of_slower_formats_stay_out(tmp_path: Path) -> None:
    """Uneven tokens count, and even ones where no others were measured."""
    path = tmp_path / "moe_kernels.csv.gz"
    _write(
        path,
        "B200,vllm,nvfp4,2048,768,8,128,1,1,16,0.24.0,20.0,30.0",
        "B200,vllm,nvfp4,2048,768,8,128,2,1,16,0.24.0,15.0,",
        "B200,vllm,nvfp4,2048,768,8,128,1,2,16,0.24.0,15.0,16.0",
        "B200,vllm,fp8,2048,768,8,128,1,1,16,0.24.0,25.0,26.0",
    )

    ((key, cells),) = read_cells(path).items()
    assert key == ("vllm", "nvfp4", "10.0")
    assert [cell.tensor for cell in cells.cells] == [1, 2]
    assert cells.measured == pytest.approx([-10.41, -11.11], abs=0.01)


def test_a_table_is_written_where_it_tells_other_models_better(tmp_path: Path) -> None:
    """Three models that all take ten times their roofline: the formula is far off."""
    path = tmp_path / "moe_kernels.csv.gz"
    rows = []
    for experts in (64, 128, 256):
        for tokens in (1, 64, 1024):
            _write(path, f"A100-SXM4-80GB,sglang,bfloat16,2048,768,8,{experts},1,1,{tokens},1,1,1")
            ((_, cells),) = read_cells(path).items()
            microseconds = 10e6 * (cells.reading[0] + cells.computing[0] + 20e-6)
            shape = f"2048,768,8,{experts},1,1,{tokens},1"
            rows.append(f"A100-SXM4-80GB,sglang,bfloat16,{shape},1,{microseconds}")
    _write(path, *rows)

    files = condensed(path)
    table = files[expert_kernels.TABLE]
    assert len(table) == 1 + len(expert_kernels.WIDTHS) * len(expert_kernels.READS_SECONDS)
    assert table[1].startswith("sglang,bf16,8.0,128,1,")
    assert len(files[expert_kernels.SHAPES]) == 1 + 3
