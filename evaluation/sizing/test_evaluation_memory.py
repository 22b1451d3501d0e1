"""The evaluation of memory estimates, over a small table of its own."""

import math
from pathlib import Path

import pytest

from evaluation.options import Options
from evaluation.sizing.memory import FILE, covering_factor, evaluate
from evaluation.sizing.memory_truth import predicted_gib, read_rows

HEADER = (
    "model,params,layers,hidden,heads,kv_heads,head_dim,ffn,vocab,dtype,context,batch,mode,method,"
    "n_gpus,component,gib,kind,closed_form_gib,source,notes"
)
SHAPE = "Llama-2-13B,13015864320,40,5120,40,40,128,13824,32000"
ROWS = (
    f"{SHAPE},bf16,,,infer,,1,weights,24.3,measured,24.2439,a log,",
    f"{SHAPE},bf16,,,infer,,1,weights,24.2439,derived,24.2439,arithmetic,",
    f"{SHAPE},bf16,1304,2,train,LoRA,1,OOM_label_over,39.4,measured,,litgpt,",
    f"{SHAPE},bf16,1304,2,train,Adapter,1,peak_allocated,21.0,measured,,litgpt,",
    "7.5B,7.5e9,0,0,0,0,0,0,0,fp16,,,train,ZeRO-1 Pos,64,model_states,29.2435,published,29.25,a,",
)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """A folder with five rows."""
    (tmp_path / FILE).write_text("\n".join((HEADER, *ROWS)), "utf-8")
    return tmp_path


def test_a_figure_is_answered_by_its_part(truth: Path) -> None:
    """Weights by weights, states by states; rows of unknown recipes are omitted."""
    found = [predicted_gib(row) for row in read_rows(truth / FILE)]

    assert found == [
        pytest.approx(24.2439, abs=1e-3),
        pytest.approx(24.2439, abs=1e-3),
        pytest.approx(46, abs=2),
        None,
        pytest.approx(29.2493, abs=1e-3),
    ]


def test_bounds_and_arithmetic_are_distinguished(truth: Path) -> None:
    """Only measured or published values are scored."""
    text = "\n".join(evaluate(Options(truth=truth)))

    assert "| with a closed form | 2 " in text
    assert "1 of 3 rows do not tell what was run" in text
    assert "Of 1 rows that are arithmetic 1 agree" in text
    assert "over 39.4" in text
    assert "FAIL" not in text


@pytest.mark.parametrize("folder", [None, Path("/nonexistent")])
def test_without_the_truth_it_is_skipped(folder: Path | None) -> None:
    """The message names the missing file."""
    assert f"`{FILE}`" in "".join(evaluate(Options(truth=folder)))


def test_a_covering_factor_leaves_out_the_widest_tenth() -> None:
    """Of ten distances it is the ninth."""
    distances = [math.log(1 + step / 100) for step in range(20)]

    assert covering_factor(distances) == pytest.approx(1.18)
