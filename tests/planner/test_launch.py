"""Commands that run a plan: its layout, limits and formats, in the flags of each engine."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.planner.launch import Launch, launch_of, launchers
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.planner import Planner

Captured = pytest.CaptureFixture[str]
PLANNER: Final = Planner(built_in(), built_in_prices())
DOCUMENTED: Final = {
    # docs.vllm.ai/en/v0.12.0/cli/serve and /cli/bench/serve
    "vllm": (
        "port tensor-parallel-size pipeline-parallel-size data-parallel-size enable-expert-parallel"
        " max-model-len max-num-seqs dtype quantization kv-cache-dtype enable-lora max-loras"
        " max-lora-rank model dataset-name random-input-len random-output-len ignore-eos"
        " num-prompts request-rate max-concurrency"
    ),
    # docs.sglang.io/advanced_features/server_arguments.html, sglang.bench_serving --help
    "sglang": (
        "model-path host port tp-size pp-size dp-size enable-dp-attention ep-size context-length"
        " max-running-requests dtype quantization kv-cache-dtype enable-lora max-loras-per-batch"
        " max-lora-rank backend model dataset-name random-input-len random-output-len"
        " random-range-ratio num-prompts request-rate max-concurrency"
    ),
    # nvidia.github.io/TensorRT-LLM/1.0.0/commands/trtllm-serve.html, benchmark_serving --help
    "tensorrt-llm": (
        "host port tp_size pp_size ep_size max_seq_len max_batch_size model dataset-name random-ids"
        " random-input-len random-output-len ignore-eos num-prompts request-rate max-concurrency"
    ),
    # pytorch.org/docs/stable/elastic/run.html
    "torchrun": "nnodes nproc-per-node",
    # huggingface.co/docs/accelerate/package_reference/cli
    "accelerate": (
        "num_machines num_processes mixed_precision use_fsdp fsdp_sharding_strategy"
        " fsdp_offload_params"
    ),
}


def launched(**asked: Any) -> Launch:
    """How the first candidate is run."""
    (item,) = plan_of_flags(asked).items
    assert item.requirement is not None
    best = PLANNER.plan(item.requirement).candidates[0]
    launch = launch_of(item.requirement, best)
    assert launch is not None
    return launch


@pytest.mark.parametrize("name", sorted(launchers()))
def test_only_documented_flags_are_used(name: str) -> None:
    """Of each program, for each fact, and in the run that verifies."""
    launcher = launchers()[name]
    texts = (launcher.words, launcher.load, launcher.rate, launcher.concurrency)
    flags = set(re.findall(r"--([\w-]+)", " ".join((*texts, *launcher.flags.values()))))
    assert flags <= set(DOCUMENTED[name].split())


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", "--tensor-parallel-size 4 --pipeline-parallel-size 2"),
        ("sglang", "--tp-size 4 --pp-size 2"),
        ("tensorrt-llm", "--tp_size 4 --pp_size 2"),
    ],
)
def test_the_layout_is_that_of_the_plan(engine: str, words: str) -> None:
    """Replicas are servers of their own."""
    launch = launched(
        model="llama-3.1-70b",
        engine=engine,
        layout="tp4 pp2 dp3",
        gpus="h100-sxm5-80gb",
        concurrency="96",
    )
    command = " ".join(launch.command)
    assert words in command
    assert (launch.servers, launch.server_gpus, launch.nodes) == (3, 8, 1)
    assert re.search(r"--max[_-](num-seqs|running-requests|batch_size) 32", command)
    assert launch.verify[-2:] == ("--max-concurrency", "32")


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", "--data-parallel-size 8 --enable-expert-parallel"),
        ("sglang", "--tp-size 8 --dp-size 8 --enable-dp-attention --ep-size 8"),
        ("tensorrt-llm", "--tp_size 8 --ep_size 8"),
    ],
)
def test_replicas_that_share_experts_are_one_server(engine: str, words: str) -> None:
    """Each engine counts its degrees differently."""
    launch = launched(
        model="deepseek-r1",
        engine=engine,
        precision="fp8",
        layout="dp16 ep8",
        gpus="h200-sxm-141gb",
    )
    assert words in " ".join(launch.command)
    assert (launch.servers, launch.server_gpus) == (2, 8)


def test_arrivals_at_a_rate_have_no_limit_at_their_mean() -> None:
    """The run that verifies sends each server its share of the rate for ten minutes."""
    launch = launched(
        model="llama-3.1-8b", rps="6", layout="tp1 dp2", gpus="h100-sxm5-80gb", engine="vllm"
    )
    assert "--max-num-seqs" not in launch.command
    assert " ".join(launch.verify).endswith("--num-prompts 1800 --request-rate 3")
    assert "requests of more than 4,096 tokens are refused" in launch.notes


def test_formats_are_said_or_noted() -> None:
    """VLLM quantizes to fp8 when it loads; int4 needs a checkpoint of its own."""
    file = {"model": "llama-3.1-70b", "gpus": "h100-sxm5-80gb", "concurrency": "8"}
    eight = launched(**file, precision={"weights": "fp8", "kv_cache": "fp8"})
    assert "--quantization fp8 --kv-cache-dtype fp8" in " ".join(eight.command)
    four = launched(**file, precision="int4")
    assert "--quantization" not in four.command
    assert "the checkpoint must have its weights in int4" in four.notes[0]
    older = launched(model="llama-3.1-8b", gpus="v100-sxm2-32gb", concurrency="8")
    assert "--dtype float16" in " ".join(older.command)


def test_training_is_launched_on_each_node() -> None:
    """Sharded by accelerate; what is divided otherwise is the program's own."""
    sharded = launched(
        model="llama-3.1-8b", train="full", layout="dp16", gpus="h100-sxm5-80gb", tokens="1e9"
    )
    command = " ".join(sharded.command)
    assert command.startswith("accelerate launch --num_machines 2 --num_processes 16")
    assert "--use_fsdp --fsdp_sharding_strategy FULL_SHARD" in command
    divided = launched(
        model="llama-3.1-70b", train="full", layout="tp8 pp4", gpus="h100-sxm5-80gb", tokens="1e9"
    )
    assert divided.command == ("torchrun", "--nnodes", "4", "--nproc-per-node", "8", "train.py")
    assert any("divides the model itself: tensor 8, pipeline 4" in note for note in divided.notes)


def test_a_model_of_unknown_origin_is_a_variable() -> None:
    """Of the script, which asks for it before it starts anything."""
    launch = launched(model="7B", concurrency="8", gpus="h100-sxm5-80gb")
    assert (launch.model, "$MODEL" in launch.command) == ("", True)


def saved(tmp_path: Path, *question: str) -> Path:
    """The files of a plan."""
    assert main(["plan", *question, "--save", str(tmp_path / "plan")]) == 0
    return tmp_path / "plan"


def test_the_files_run_with_a_shell_and_are_strict_yaml(tmp_path: Path, capsys: Captured) -> None:
    """A stand-in for the engine gets the words; the manifest has as many replicas as servers."""
    folder = saved(
        tmp_path, "llama-3.1-8b", "--rps", "6", "--layout", "tp1 dp2", "--gpus", "h100-sxm5-80gb"
    )
    engine = tmp_path / "bin" / "vllm"
    engine.parent.mkdir()
    engine.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    engine.chmod(0o755)
    path = f"{engine.parent}:{os.environ['PATH']}"
    for name, first in (("launch.sh", "serve"), ("verify.sh", "bench")):
        done = subprocess.run(
            ["sh", str(folder / name)],
            env={"PATH": path, "MODEL": "a model"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        words = done.stdout.splitlines()
        assert words[0] == first
        assert "a model" in words
    deployment, service = yaml.safe_load_all((folder / "kubernetes.yaml").read_text("utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert container["command"][:3] == ["vllm", "serve", "meta-llama/Llama-3.1-8B"]
    assert service["spec"]["ports"] == [{"port": container["ports"][0]["containerPort"]}]
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    assert plan["launch"]["servers"] == 2
    assert plan["launch"]["text"].startswith("vllm serve meta-llama/Llama-3.1-8B --port 8000")


@pytest.mark.parametrize(
    ("question", "files"),
    [
        (("llama-3.1-8b", "--gpus", "mi300x"), {"launch.sh", "verify.sh", "plan.json"}),
        (
            ("llama-3.1-70b", "--layout", "tp8 pp2", "--gpus", "h100-sxm5-80gb"),
            {"launch.sh", "verify.sh", "plan.json"},
        ),
        (("llama-3.1-8b", "--train", "lora"), {"launch.sh", "plan.json"}),
    ],
)
def test_what_cannot_be_written_is_left_out(
    question: tuple[str, ...], files: set[str], tmp_path: Path, capsys: Captured
) -> None:
    """No manifest for other boards, several machines or a training."""
    assert {path.name for path in saved(tmp_path, *question).iterdir()} == files


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        (("resnet-50",), "none of vllm, sglang"),
        (("llama-3.1-405b", "--gpus", "t4", "--tp", "1"), "nothing fits"),
    ],
)
def test_what_cannot_be_run_is_refused(
    question: tuple[str, ...], fault: str, tmp_path: Path, capsys: Captured
) -> None:
    """Nothing is written."""
    assert main(["plan", *question, "--save", str(tmp_path / "plan")]) == 1
    assert fault in capsys.readouterr().err
    assert not (tmp_path / "plan").exists()
