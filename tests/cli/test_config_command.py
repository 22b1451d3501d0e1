"""`rightsizer config`: the starter is valid, and shown settings load back."""

import argparse
import os
from pathlib import Path

import pytest

from rightsizer.agent.settings import Settings
from rightsizer.cli.config import WholeSettings, shown, starter
from rightsizer.cli.main import main
from rightsizer.config.loader import load
from rightsizer.console.flags import add_config_flag, config_file_of, settings_of
from rightsizer.model.errors import ConfigurationError

Captured = pytest.CaptureFixture[str]


def test_the_starter_pins_no_default() -> None:
    """It loads as the defaults, and fits a screen."""
    assert load(Settings, starter(), "starter.yaml") == Settings()
    assert len(starter().splitlines()) <= 40


def test_the_starter_s_examples_load() -> None:
    """Each commented line is a valid setting."""
    examples = [
        line.removeprefix("#").removeprefix(" ")
        for block in starter().split("\n\n")[2:]
        for line in block.splitlines()[1:]
        if line.startswith("# ")
    ]
    settings = load(Settings, "\n".join(examples), "starter.yaml")

    assert settings.grafana.url
    assert settings.webhooks
    assert settings.policies
    assert settings.catalogue.prices_file


def test_a_command_alone_is_told_what_it_takes(capsys: Captured) -> None:
    """The choices, not the name of their attribute."""
    with pytest.raises(SystemExit):
        main(["config"])
    assert "required: {init,show,check};" in capsys.readouterr().err


def test_init_writes_it_once(tmp_path: Path, capsys: Captured) -> None:
    """An existing file is kept."""
    path = tmp_path / "rightsizer.yaml"
    assert main(["config", "init", str(path)]) == 0
    path.write_text("mine")

    assert main(["config", "init", str(path)]) == 78
    assert "left alone" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_init_prints_where_asked(capsys: Captured) -> None:
    """For a pipe."""
    assert main(["config", "init", "-"]) == 0
    assert capsys.readouterr().out == starter()


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path, capsys: Captured) -> None:
    """With its name."""
    assert main(["config", "init", str(tmp_path / "no" / "x.yaml")]) == 78
    assert str(tmp_path / "no" / "x.yaml") in capsys.readouterr().err


def test_show_tells_what_is_set_and_where(tmp_path: Path) -> None:
    """From files, drop-ins and the environment; nothing else."""
    path = tmp_path / "rightsizer.yaml"
    path.write_text("web: {listen_addresses: ['127.0.0.1:0']}\nhistory:\n  retention: 3d\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.yaml").write_text("history: {path: ''}\n")
    output = shown(path, {"RIGHTSIZER_SAMPLING__INTERVAL": "2s"}, is_effective=False)

    assert output.splitlines() == [
        "sampling:",
        "  interval: 2s  # RIGHTSIZER_SAMPLING__INTERVAL",
        "history:",
        f"  path: ''  # {tmp_path}/conf.d/a.yaml:1",
        f"  retention: 3d  # {path}:3",
        "web:",
        f"  listen_addresses:  # {path}:1",
        "  - 127.0.0.1:0",
    ]


def test_all_that_is_in_force_loads_back(tmp_path: Path) -> None:
    """Comments mark the defaults."""
    path = tmp_path / "rightsizer.yaml"
    path.write_text("policies: [{match: {owner: '*'}, class: standby}]\n")
    output = shown(path, {}, is_effective=True)

    assert load(WholeSettings, output, "told") == load(WholeSettings, path.read_text(), "file")
    assert "  interval: 1s  # default" in output


def test_a_file_that_sets_nothing_says_so(tmp_path: Path) -> None:
    """Empty output would look like an error."""
    path = tmp_path / "empty.yaml"
    path.write_text("")
    assert shown(path, {}, is_effective=False).endswith("everything has its default")


def test_faults_are_told_as_ever(tmp_path: Path) -> None:
    """With their places."""
    path = tmp_path / "wrong.yaml"
    path.write_text("web: {listen: x}\n")
    with pytest.raises(ConfigurationError, match=f"^{path}:1:7: "):
        shown(path, {}, is_effective=False)


def test_effective_is_refused_for_init(capsys: Captured) -> None:
    """A flag without effect misleads."""
    assert main(["config", "init", "-", "--effective"]) == 2
    assert "--effective" in capsys.readouterr().err


def test_check_tells_faults_and_that_there_are_none(tmp_path: Path, capsys: Captured) -> None:
    """As `check-config` does, with the same flag."""
    path = tmp_path / "rightsizer.yaml"
    path.write_text("sampling: {interval: 2s}\ncatalogue: {prices_file: nowhere.yaml}\n")
    assert main(["config", "check", str(path)]) == 78
    assert "nowhere.yaml" in capsys.readouterr().err
    for order in ([str(path), "--syntax-only"], ["--syntax-only", str(path)]):
        assert main(["config", "check", *order]) == 0
        assert capsys.readouterr().out == f"{path}: ok\n"


def test_commands_read_the_installed_configuration(tmp_path: Path) -> None:
    """Without a flag, as the agent does; an absent one leaves all defaults, a flag wins."""
    installed = tmp_path / "rightsizer.yaml"
    parser = argparse.ArgumentParser()
    add_config_flag(parser, installed)
    assert config_file_of(parser.parse_args([])) is None

    installed.write_text("history: {retention: 3d}\n")
    parser = argparse.ArgumentParser()
    add_config_flag(parser, installed)
    assert settings_of(parser.parse_args([]), Settings).history.retention == 3 * 86400
    other = tmp_path / "other.yaml"
    other.write_text("")
    named = parser.parse_args(["--config.file", str(other)])
    assert settings_of(named, Settings).history == Settings().history


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("closed", ["conf.d", "conf.d/secrets.yaml"])
def test_an_installed_configuration_with_a_closed_part_is_left_alone(
    tmp_path: Path, closed: str
) -> None:
    """Who may not read secrets in conf.d plans a model all the same."""
    installed = tmp_path / "rightsizer.yaml"
    part = tmp_path / "conf.d" / "secrets.yaml"
    installed.write_text("history: {retention: 3d}\n")
    part.parent.mkdir()
    part.touch()
    (tmp_path / closed).chmod(0)
    parser = argparse.ArgumentParser()
    add_config_flag(parser, installed)
    (tmp_path / closed).chmod(0o700)
    assert config_file_of(parser.parse_args([])) is None
