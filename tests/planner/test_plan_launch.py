"""Commands that run a plan: its layout, limits and formats, in the flags of each engine."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.planner.launch import Launch, launch_of, launchers
from rightsizer.planner.launch_files import manifest
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.planner.planner import Planner

Captured = pytest.CaptureFixture[str]
PLANNER: Final = Planner(built_in(), built_in_prices())
DOCUMENTED: Final = {
    # docs.vllm.ai/en/v0.12.0/cli/serve and /cli/bench/serve
    "vllm": (
        "port tensor-parallel-size pipeline-parallel-size data-parallel-size enable-expert-parallel"
        " max-model-len max-num-seqs dtype quantization kv-cache-dtype enable-lora max-loras"
        " distributed-executor-backend data-parallel-backend data-parallel-size-local"
        " max-lora-rank model dataset-name random-input-len random-output-len ignore-eos"
        " num-prompts request-rate max-concurrency backend endpoint dataset-path hf-subset hf-split"
    ),
    # docs.sglang.io/advanced_features/server_arguments.html, sglang.bench_serving --help
    "sglang": (
        "model-path host port tp-size pp-size dp-size enable-dp-attention ep-size context-length"
        " max-running-requests dtype quantization kv-cache-dtype enable-lora max-loras-per-batch"
        " lora-target-modules nnodes node-rank dist-init-addr max-lora-rank backend model"
        " dataset-name random-input-len random-output-len"
        " random-range-ratio num-prompts request-rate max-concurrency"
    ),
    # nvidia.github.io/TensorRT-LLM/1.0.0/commands/trtllm-serve.html, benchmark_serving --help
    "tensorrt-llm": (
        "host port tp_size pp_size ep_size max_seq_len max_batch_size model dataset-name random-ids"
        " random-input-len random-output-len ignore-eos num-prompts request-rate max-concurrency"
    ),
    # pytorch.org/docs/stable/elastic/run.html
    "torchrun": "nnodes nproc-per-node node-rank master-addr master-port",
    # huggingface.co/docs/accelerate/package_reference/cli
    "accelerate": (
        "num_machines num_processes mixed_precision use_fsdp fsdp_sharding_strategy"
        " fsdp_offload_params machine_rank main_process_ip main_process_port"
    ),
    "deepspeed": (
        "num_machines num_processes mixed_precision use_deepspeed zero_stage"
        " offload_optimizer_device machine_rank main_process_ip main_process_port"
        " deepspeed_multinode_launcher"
    ),
}
H100: Final = {"gpus": "h100-sxm5-80gb"}


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
    loads = (launcher.load, launcher.speech_load)
    texts = (launcher.words, *loads, launcher.rate, launcher.concurrency)
    facts = (*launcher.flags.values(), *launcher.machines.values())
    flags = set(re.findall(r"--([\w-]+)", " ".join((*texts, *facts))))
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
    assert divided.text == (
        "torchrun --nnodes 4 --nproc-per-node 8 --node-rank $NODE_RANK --master-addr $HEAD"
        " --master-port 29500 train.py"
    )
    assert any("divides the model itself: tensor 8, pipeline 4" in note for note in divided.notes)


@pytest.mark.parametrize(
    ("engine", "layout", "words", "note"),
    [
        ("vllm", "tp8 pp2", "--distributed-executor-backend ray", "a Ray cluster of 2 machines"),
        (
            "vllm",
            "dp16 ep16",
            "--data-parallel-backend ray --data-parallel-size-local 8",
            "a Ray cluster of 2 machines",
        ),
        (
            "sglang",
            "tp8 pp2",
            "--nnodes 2 --node-rank $NODE_RANK --dist-init-addr $HEAD:20000",
            "NODE_RANK 0 to 1, and HEAD the address",
        ),
        ("tensorrt-llm", "tp8 pp2", "--pp_size 2", "mpirun -n 16"),
    ],
)
def test_servers_of_several_machines_are_told_of_each_other(
    engine: str, layout: str, words: str, note: str
) -> None:
    """By variables of each machine; what else an engine needs is a note."""
    launch = launched(
        model="deepseek-r1", engine=engine, layout=layout, gpus="h200-sxm-141gb", concurrency="32"
    )
    assert launch.nodes == 2
    assert words in launch.text
    assert note in launch.notes[0]
    alone = launched(model="llama-3.1-8b", engine=engine, **H100, concurrency="8")
    assert not re.search(r"ray|HEAD|nnodes", alone.text)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"framework": "deepspeed"}, "--use_deepspeed --zero_stage 3 train.py"),
        (
            {"framework": "deepspeed", "training": {"offload": "optimizer"}},
            "--zero_stage 3 --offload_optimizer_device cpu train.py",
        ),
        ({"training": {"zero_stage": 1}}, "--use_deepspeed --zero_stage 1 train.py"),
        ({"training": {"zero_stage": 2}}, "--fsdp_sharding_strategy SHARD_GRAD_OP train.py"),
        (
            {"training": {"offload": "optimizer"}},
            "FULL_SHARD --fsdp_offload_params true train.py",
        ),
    ],
)
def test_stages_of_zero_are_those_of_the_program(asked: dict[str, Any], words: str) -> None:
    """FSDP has no stage that shares the optimizer's states alone."""
    launch = launched(model="llama-3.1-8b", train="full", layout="dp8", **H100, **asked)
    assert launch.text.endswith(words)


def test_what_a_framework_shares_itself_is_a_note() -> None:
    """Megatron has neither FSDP nor DeepSpeed; activations move to the host in the program."""
    launch = launched(
        model="llama-3.1-8b",
        train="full",
        layout="dp8",
        framework="megatron",
        training={"offload": "activations"},
        **H100,
    )
    assert launch.command[0] == "torchrun"
    assert "the program shares states among GPUs itself, as ZeRO stage 3" in launch.notes
    assert "the program moves its activations to the host" in launch.notes


def test_the_longest_request_is_within_what_the_model_was_made_for() -> None:
    """Engines refuse to start with more; speech has a length of its own."""
    file = {"model": "llama-2-7b", **H100, "concurrency": "4"}
    near = launched(**file, input_tokens=3000, output_tokens=500)
    assert "--max-model-len 4096" in near.text
    limit = "requests of more than 4,096 tokens, what the model was made for, are refused"
    assert limit in near.notes
    beyond = launched(**file, input_tokens=5000, output_tokens=500)
    assert "--max-model-len 4096" in beyond.text
    assert any("have 5,500 on average: most are refused" in note for note in beyond.notes)
    speech = launched(model="whisper-large-v3", gpus="l40s")
    assert "--max-model-len" not in speech.text
    assert not any("refused" in note for note in speech.notes)


def test_sglang_limits_the_requests_of_the_whole_server() -> None:
    """It divides them itself; its adapters may be of any matrix."""
    launch = launched(
        model="deepseek-r1",
        engine="sglang",
        layout="dp8 ep8",
        gpus="h200-sxm-141gb",
        concurrency="64",
    )
    assert "--max-running-requests 64" in launch.text
    adapted = launched(model="llama-3.1-8b", engine="sglang", adapters="4", concurrency="8", **H100)
    assert "--max-lora-rank 8 --lora-target-modules all" in adapted.text


def test_numbers_of_flags_are_whole() -> None:
    """However large a load is, and if its mean has a fraction."""
    launch = launched(
        model="llama-4-scout", **H100, concurrency="1", input_tokens=1048576, output_tokens=1024.5
    )
    assert "--random-input-len 1048576 --random-output-len 1024 " in " ".join(launch.verify)


def test_notes_are_of_what_is_trained_and_served() -> None:
    """Images are no sequences; a published format needs no other checkpoint."""
    images = launched(model="resnet-50", train="full", layout="dp8", **H100)
    assert any("32 images a GPU and pass" in note for note in images.notes)
    assert not any("tokens" in note for note in images.notes)
    published = launched(model="gpt-oss-120b", **H100, concurrency="8")
    assert not any("checkpoint" in note for note in published.notes)
    assert (published.model, "--quantization" in published.text) == ("openai/gpt-oss-120b", False)
    named = launched(model="llama-3.1-70b-awq", **H100, concurrency="8")
    assert (named.model, "weights in int4" in named.notes[0]) == ("", True)
    narrow = launched(model="llama-3.1-8b", **H100, concurrency="8", precision={"kv_cache": "int8"})
    assert "--kv-cache-dtype fp8" in narrow.text
    assert "keys and values are in fp8, as large: the engine has no int8 for them" in narrow.notes


def test_a_model_of_unknown_origin_is_a_variable() -> None:
    """Of the script, which asks for it before it starts anything."""
    launch = launched(model="7B", concurrency="8", gpus="h100-sxm5-80gb")
    assert (launch.model, "$MODEL" in launch.command) == ("", True)


def saved(tmp_path: Path, *question: str) -> Path:
    """The files of a plan."""
    assert main(["plan", *question, "--save", str(tmp_path / "plan")]) == 0
    return tmp_path / "plan"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_files_run_with_a_shell_and_are_strict_yaml(
    shell: str, tmp_path: Path, capsys: Captured
) -> None:
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
            [shell, str(folder / name)],
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
    assert "# Start 2 copies, behind a load balancer." in (folder / "launch.sh").read_text("utf-8")
    assert plan["launch"]["text"].startswith("vllm serve meta-llama/Llama-3.1-8B --port 8000")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_scripts_ask_for_what_they_lack(shell: str, tmp_path: Path, capsys: Captured) -> None:
    """The checkpoint, and the place among the machines."""
    question = ("70B", "--engine", "sglang", "--layout", "tp8 pp2", "--gpus", "h100-sxm5-80gb")
    script = str(saved(tmp_path, *question) / "launch.sh")
    for name, meaning in (
        ("MODEL", "folder or name of the checkpoint"),
        ("NODE_RANK", "number of this machine, from 0"),
        ("HEAD", "address of machine 0"),
    ):
        others = {"MODEL": "m", "NODE_RANK": "0", "HEAD": "h"}
        del others[name]
        done = subprocess.run(
            [shell, script],
            env={"PATH": os.environ["PATH"], **others},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert f"{name}: {meaning}" in done.stderr
    assert "# Start 1 copy." in Path(script).read_text("utf-8")


@pytest.mark.parametrize("key", sorted(built_in().boards))
def test_a_manifest_is_of_every_board_with_a_name(key: str) -> None:
    """Labels of nodes are within what Kubernetes takes; without a name any node will do."""
    board = built_in().boards[key]
    (item,) = plan_of_flags({"model": "llama-3.1-8b", "concurrency": "1"}).items
    assert item.requirement is not None
    text = manifest(item.requirement, launched(model="llama-3.1-8b", **H100), board, "")
    if text is None:
        assert board.vendor != "NVIDIA"
        return
    deployment, _ = yaml.safe_load_all(text)
    selector = deployment["spec"]["template"]["spec"].get("nodeSelector", {})
    assert (selector == {}) is not board.names
    for label in selector.values():
        assert re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", label)


def test_a_manifest_names_its_parts_as_kubernetes_takes_them() -> None:
    """Names by RFC 1035; parts of boards by their profile; a token if there is one."""
    (item,) = plan_of_flags({"model": "llama-3.1-8b", "concurrency": "1"}).items
    assert item.requirement is not None
    launch = launched(model="llama-3.1-8b", **H100, concurrency="1")
    board = built_in().boards["H100-SXM5-80GB"]
    for name, planned in (
        ("7B model", "model-7b-model"),
        ("a" * 49 + "-b", "a" * 49),
        ("Yes", "yes"),
    ):
        named = replace(item.requirement, model=replace(item.requirement.model, name=name))
        text = manifest(named, launch, board, "1g.10gb+me")
        assert text is not None
        deployment, service = yaml.safe_load_all(text)
        assert deployment["metadata"]["name"] == service["metadata"]["name"] == planned
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {"nvidia.com/mig-1g.10gb.me": 1}
        assert container["env"][0]["valueFrom"]["secretKeyRef"]["optional"] is True


def test_files_of_another_plan_are_removed(tmp_path: Path, capsys: Captured) -> None:
    """Not those that others wrote; the text says which were written."""
    folder = saved(tmp_path, "llama-3.1-8b", "--rps", "9", "--gpus", "h100-sxm5-80gb")
    assert f"wrote {folder}/launch.sh, " in capsys.readouterr().out
    assert json.loads((folder / "plan.json").read_text(encoding="utf-8"))["curve"]
    (folder / "verify.sh").write_text("mine\n", encoding="utf-8")
    saved(tmp_path, "llama-3.1-8b", "--train", "lora", "--json")
    out, err = capsys.readouterr()
    assert json.loads(out)["launch"]["nodes"] == 1
    assert err == f"wrote {folder}/launch.sh, {folder}/plan.json\n"
    assert sorted(path.name for path in folder.iterdir()) == ["launch.sh", "plan.json", "verify.sh"]


def test_an_empty_folder_is_refused(capsys: Captured) -> None:
    """It would be the working folder."""
    with pytest.raises(SystemExit):
        main(["plan", "llama-3.1-8b", "--save", ""])
    assert "--save: is empty; name a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("question", "files"),
    [
        (("llama-3.1-8b", "--gpus", "mi300x"), {"launch.sh", "verify.sh", "plan.json"}),
        (
            ("llama-3.1-70b", "--layout", "tp8 pp2", "--gpus", "h100-sxm5-80gb"),
            {"launch.sh", "verify.sh", "plan.json"},
        ),
        (("llama-3.1-8b", "--train", "lora"), {"launch.sh", "plan.json"}),
        (("7B", "--gpus", "h100-sxm5-80gb"), {"launch.sh", "verify.sh", "plan.json"}),
        (
            ("llama-3.1-8b", "--gpus", "H100-SXM5-80GB:3g.40gb", "--concurrency", "2"),
            {"launch.sh", "verify.sh", "kubernetes.yaml", "plan.json"},
        ),
    ],
)
def test_what_cannot_be_written_is_left_out(
    question: tuple[str, ...], files: set[str], tmp_path: Path, capsys: Captured
) -> None:
    """No manifest for other boards, several machines, an unknown checkpoint or a training."""
    assert {path.name for path in saved(tmp_path, *question).iterdir()} == files


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        (("resnet-50",), "none of vllm, sglang"),
        (("flan-t5-xl",), "none of vllm, sglang"),
        (("whisper-large-v3", "--engine", "sglang"), "none of vllm, sglang"),
        (("llama-3.1-405b", "--gpus", "t4", "--tp", "1"), "nothing fits"),
    ],
)
def test_what_cannot_be_run_is_refused(
    question: tuple[str, ...], fault: str, tmp_path: Path, capsys: Captured
) -> None:
    """After the plan and its reasons; nothing is written."""
    assert main(["plan", *question]) == int(fault == "nothing fits")
    planned = capsys.readouterr().out
    assert main(["plan", *question, "--save", str(tmp_path / "plan")]) == 1
    out, err = capsys.readouterr()
    assert out == planned
    assert fault in err
    assert not (tmp_path / "plan").exists()


def test_speech_is_verified_with_speech() -> None:
    """Random words are no sound."""
    assert "--backend openai-audio" in " ".join(launched(model="whisper-large-v3", rps=2).verify)
    assert "--dataset-name random" in " ".join(launched(model="llama-3.1-8b", rps=2).verify)


def test_a_failed_verification_is_a_failure(tmp_path: Path, capsys: Captured) -> None:
    """Its output is written and shown, and its status is that of the script."""
    folder = saved(tmp_path, "llama-3.1-8b", "--rps", "2")
    engine = tmp_path / "vllm"
    engine.write_text("#!/bin/sh\necho no such port >&2\nexit 3\n", encoding="utf-8")
    engine.chmod(0o755)
    done = subprocess.run(
        ["sh", str(folder / "verify.sh")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "no such port" in done.stderr
