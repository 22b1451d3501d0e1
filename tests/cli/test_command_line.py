"""The command line: commands, their help, and the message of each fault."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

import rightsizer
from agent_process import run_rightsizer
from rightsizer import __version__
from rightsizer.agent.settings import Settings
from rightsizer.cli.main import COMMANDS, CommandEntry, main

CONFIG: Final = Path(__file__).parent.parent.parent / "config"
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder of the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def faults_of(captured: Captured) -> list[str]:
    """The lines on standard error; standard output stays empty."""
    out, err = captured.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err.splitlines()


def test_without_a_command_it_shows_what_there_is(capsys: Captured) -> None:
    """The exit status shows that nothing was done."""
    assert main([]) == 2
    text = capsys.readouterr().err

    assert all(entry.name in text and entry.summary in text for entry in COMMANDS)


@pytest.mark.parametrize("arguments", [["frobnicate"], ["replay"]])
def test_unknown_command_is_a_usage_error(arguments: list[str], capsys: Captured) -> None:
    """With the usage of the valid commands."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert faults_of(capsys)[0].startswith(
        ("usage: rightsizer", "rightsizer replay: the following")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--sped", "2"], "rightsizer: demo has no flag --sped; did you mean --speed?"),
        (["demo", "--sped=2"], "rightsizer: demo has no flag --sped; did you mean --speed=2?"),
        (["project", "x", "--to", "h100"], "project has no flag --to; 'rightsizer project --help'"),
        (
            ["plan", "--total-gpus", "8"],
            "rightsizer: plan has no flag --total-gpus; write --layout, such as tp4 pp2",
        ),
        (
            ["explain", "x", "y"],
            "rightsizer: explain has no argument y; 'rightsizer explain --help'",
        ),
    ],
)
def test_unknown_flag_is_told_what_to_write(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    """The nearest flag, or the equivalent of another tool's flag; in one line."""
    assert main(arguments) == 2
    (line,) = faults_of(capsys)

    assert message in line


def test_a_mistyped_command_is_told_the_nearest_before_the_list(capsys: Captured) -> None:
    """Thirty names in between would hide it."""
    with pytest.raises(SystemExit) as ended:
        main(["repaly", "gpu.csv"])
    fault = faults_of(capsys)[-1]

    assert ended.value.code == 2
    assert "unknown command 'repaly'; did you mean 'replay'? Commands: agent, " in fault


@pytest.mark.parametrize(
    ("word", "meant"), [("check", "'doctor' or 'check-config'"), ("recommend", "'advise'")]
)
def test_command_of_another_tool_is_told_ours(word: str, meant: str, capsys: Captured) -> None:
    """Its name alone resembles none."""
    with pytest.raises(SystemExit):
        main([word])

    assert f"unknown command '{word}'; did you mean {meant}? " in faults_of(capsys)[-1]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("--url http://node:19400 advise", "advise"),
        ("--config.file demo agent", "agent"),
        ("--config.file=demo agent --simulated.scenario replay", "agent"),
        ("--json explain abc", "explain"),
        ("-v --config.file demo advise", "advise"),
    ],
)
def test_flag_before_the_command_is_told_its_place(
    line: str, command: str, capsys: Captured
) -> None:
    """A flag's value may be a command's name; without a command there is only the list."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    flag = line.split(maxsplit=1)[0]
    said = f"{flag} stands before the command; write 'rightsizer {command} {flag} ...'"
    assert said in faults_of(capsys)[-1]


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("--version agent", "rightsizer "),
        ("--help plan", "usage: rightsizer [-h] [--version] COMMAND"),
        ("-h plan", "usage: rightsizer [-h] [--version] COMMAND"),
    ],
)
def test_global_flags_need_no_command(line: str, start: str, capsys: Captured) -> None:
    """What follows them does not count."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(start)


def test_help_texts_are_no_wider_than_code() -> None:
    """But for sentences of a table, one a line."""
    folder = Path(rightsizer.__file__).parent / "cli"
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.txt")}
    assert len(texts) > 10
    lines = (
        (name, line)
        for name, text in texts.items()
        for line in text.partition("[lessons]")[0].splitlines()
    )
    assert [line for line in lines if len(line[1]) > 100] == []


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_command_is_found_by_its_own_name(entry: CommandEntry) -> None:
    """The list of names agrees with the command."""
    assert entry.load().name == entry.name


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS])
def test_every_command_has_help_without_empty_defaults(name: str, capsys: Captured) -> None:
    """A default is shown if there is one, and never as Python's `None`."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    text = capsys.readouterr().out

    assert ended.value.code == 0
    assert text.startswith(f"usage: rightsizer {name}")
    assert "None" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("agent", [":19400", "/var/lib/rightsizer/history.db", "/proc", "/sys", "eight-gpu-node"]),
        ("demo", ["127.0.0.1:19400", "eight-gpu-node", "720", "simulated seconds", "days"]),
        ("record", ["90s", "10m", "500ms", "default: 1s"]),
        ("replay", ["bytes", "watts", "hertz", "seconds since the epoch"]),
        ("advise", ["/var/lib/rightsizer/history.db"]),
        ("check-config", ["/etc/rightsizer/rightsizer.yaml"]),
    ],
)
def test_help_tells_units_and_defaults(name: str, words: list[str], capsys: Captured) -> None:
    """Reading the source is not required."""
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = " ".join(capsys.readouterr().out.split())

    assert [word for word in words if word not in text] == []


def test_the_version_is_reported_in_both_forms(capsys: Captured) -> None:
    """For people and for scripts."""
    assert main(["version"]) == 0
    assert f"rightsizer {__version__} (Python 3." in capsys.readouterr().out
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == __version__


def test_the_command_runs_as_a_module() -> None:
    """Without an installed script, Python finds it."""
    done = run_rightsizer("version")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("rightsizer ")


def test_an_output_that_nobody_reads_to_its_end_is_no_fault(tmp_path: Path) -> None:
    """As in `rightsizer replay ... | head -1`."""
    rows = "\n".join(f"{1767225600 + at},GPU-{at % 100},0.5" for at in range(400))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}\n")
    shell = ["sh", "-c", f"'{sys.executable}' -m rightsizer replay log.csv --json | head -1"]
    done = subprocess.run(
        shell, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60
    )

    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        "replay log.csv --json",
        "replay log.csv",
        "demo --web.listen-address 127.0.0.1:0",
        "version",
        "check-config right.yaml",
    ],
)
def test_an_output_that_takes_no_more_is_reported(arguments: str, tmp_path: Path) -> None:
    """One line with a remedy and a failure status, for any command."""
    (tmp_path / "log.csv").write_text(
        "timestamp,device,gpu_busy\n1767225600,GPU-0,0.5\n1767225601,GPU-0,0.5\n"
    )
    (tmp_path / "right.yaml").write_text("{}\n")
    with Path("/dev/full").open("wb") as full:
        done = run_rightsizer(*arguments.split(), output=full, folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr == (
        "rightsizer: standard output cannot be written: No space left on device; make room where "
        "it goes, or send it elsewhere\n"
    )


def test_the_example_configuration_is_right(capsys: Captured) -> None:
    """A copy of it is valid."""
    assert main(["check-config", str(CONFIG / "rightsizer.yaml")]) == 0
    assert capsys.readouterr().out.endswith("rightsizer.yaml: ok\n")


BAD: Final = """\
sampling: {interval: fast}
recommender:
  intervall: 10m
  rules: {idle: {on_ratio: 2}}
history: [1]
log: {format: yaml}
"""


def with_config(*arguments: str) -> Callable[[Path], Sequence[str]]:
    """A command line with a configuration file."""
    return lambda file: [argument.replace("CONFIG", str(file)) for argument in arguments]


@pytest.mark.parametrize(
    "command",
    [
        with_config("check-config", "CONFIG"),
        with_config("agent", "--config.file", "CONFIG"),
        with_config("advise", "--config.file", "CONFIG"),
        with_config("record", "x.jsonl", "--config.file", "CONFIG"),
        with_config("replay", "x.csv", "--config.file", "CONFIG"),
    ],
    ids=["check-config", "agent", "advise", "record", "replay"],
)
def test_every_fault_of_a_configuration_is_reported_at_once(
    command: Callable[[Path], Sequence[str]], tmp_path: Path, capsys: Captured
) -> None:
    """Each with its place and remedy, by any command that reads the file."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)

    assert main(command(file)) == 78
    said = [re.sub(r"^rightsizer: .*bad\.yaml:", "", line) for line in faults_of(capsys)]
    assert [line.split(": ")[:2] for line in said] == [
        ["1:12", "sampling.interval"],
        ["3:3", "recommender.intervall"],
        ["4:18", "recommender.rules.idle.on_ratio"],
        ["5:1", "history"],
        ["6:7", "log.format"],
    ]
    assert "write it like '10m', '1h30m' or '7d'" in said[0]
    assert "did you mean 'interval'?" in said[1]
    assert "between 0.5 and 1" in said[2]
    assert "must be a mapping" in said[3]
    assert "journal" in said[4]


def test_an_address_that_nobody_can_listen_at_is_a_fault_with_its_place(
    tmp_path: Path, capsys: Captured
) -> None:
    """Reported by the check, not by an agent that does not start."""
    file = tmp_path / "bad.yaml"
    file.write_text("log: {level: info}\nweb:\n  listen_addresses: [':19400', here]\n")

    assert main(["check-config", str(file)]) == 78
    (line,) = faults_of(capsys)
    assert re.match(r"rightsizer: .*bad\.yaml:3:3: web\.listen_addresses: 'here' is not", line)
    assert "'here' is not an address; write it like ':19400'" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listen_addresses: []", "listen_addresses: names no address to listen on"),
        ("listen_addresses: [':80', ':80']", "listen_addresses: ':80' is listed twice"),
        ("listen_addresses: ['http://[::]:80']", "write it like ':19400'"),
        ("route_prefix: gpu", "route_prefix: 'gpu' is not a path"),
    ],
)
def test_web_settings_without_use_are_refused(
    text: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    """An agent without any listener is valid only if it waits for systemd's sockets."""
    file = tmp_path / "bad.yaml"
    file.write_text(f"web: {{{text}}}\n")

    assert main(["check-config", str(file)]) == 78
    (line,) = faults_of(capsys)
    assert ":1:7: web." in line
    assert message in line

    file.write_text("web: {listen_addresses: [], systemd_socket: true}\n")
    assert main(["check-config", str(file)]) == 0


def test_a_configuration_file_that_is_not_there_is_named(capsys: Captured) -> None:
    """With the remedy, whether a flag names it or the only argument."""
    assert main(["check-config", "nowhere.yaml"]) == 78
    (line,) = faults_of(capsys)
    assert main(["replay", "log.csv", "--config.file", "nowhere.yaml"]) == 78
    (other,) = faults_of(capsys)

    assert line.startswith("rightsizer: nowhere.yaml: there is no such file; name the file to")
    assert "the flag" not in line
    assert other.endswith("check the path, or leave the flag out to run with the defaults")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["agent", "--simulated.scenario", "eight"], 1, "neither packaged nor a file; packaged: "),
        (["demo", "--scenario", "eight"], 1, "neither packaged nor a file; packaged: "),
        (["record", "x.jsonl", "--simulated.scenario", "eight"], 1, "nor a file; packaged: "),
        (
            ["agent", "--simulated.scenario", "t4-pair", "--web.listen-address", "here"],
            2,
            "--web.listen-address: 'here' is not an address; write it like ':19400'",
        ),
        (
            ["demo", "--web.listen-address", ":99999"],
            2,
            "--web.listen-address: ':99999': port 99999 does",
        ),
    ],
)
def test_a_name_that_does_not_exist_is_reported_with_those_that_do(
    arguments: list[str], status: int, message: str, folder: Path, capsys: Captured
) -> None:
    """Nothing is left behind."""
    if arguments[0] == "agent":
        arguments = [*arguments, "--history.path", "history.db"]

    assert main(arguments) == status
    assert message in faults_of(capsys)[-1]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--speed", "0"], "demo: --speed: '0' is not a positive number"),
        (["demo", "--speed", "quick"], "demo: --speed: 'quick' is not a number"),
        (["demo", "--days-before", "31"], "a number of days from 0 to 30"),
        (["record", "x", "--duration", "0s"], "'0s' is no time at all"),
        (["record", "x", "--interval", "often"], "write it like '10m'"),
    ],
)
def test_a_value_that_makes_no_sense_is_reported_with_its_flag(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    """With the status for usage errors, before anything starts."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert message in faults_of(capsys)[-1]


def test_advice_from_where_no_history_is(tmp_path: Path, capsys: Captured) -> None:
    """The error names the path, and the command that makes a history."""
    assert main(["advise", "--history.path", str(tmp_path / "no.db")]) == 1
    assert "name one with --history.path, or an agent with --url" in faults_of(capsys)[0]
    assert list(tmp_path.iterdir()) == []


def test_the_default_history_is_the_agents() -> None:
    """`advise` without a flag reads where the agent writes."""
    assert Settings().history.path == "/var/lib/rightsizer/history.db"


def test_hints_name_the_command_as_it_was_called() -> None:
    """By its path in a checkout with an inactive environment, else by its name alone."""
    script = str(Path(sys.executable).with_name("rightsizer"))
    for path, named in (("/usr/bin", script), (f"{Path(script).parent}:/usr/bin", "rightsizer")):
        asked = [script, "advise", "--zzz"]
        environment = {"PATH": path}
        result = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
        assert f"'{named} advise --help' lists what it takes" in result.stderr


def test_locale_without_a_character_has_a_question_mark(tmp_path: Path) -> None:
    """ASCII has no accents."""
    script = Path(sys.executable).with_name("rightsizer")
    file = tmp_path / "é.yaml"
    file.write_text("log: {level: info}\n")
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin", "LANG": "C.UTF-8"}
    result = subprocess.run(
        [script, "config", "check", file],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("/?.yaml: ok\n")
