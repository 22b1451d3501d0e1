"""Nsight Systems reports, which its own program exports."""

from pathlib import Path

import pytest

from profile_nsight import NsightExport, fake_nsys
from rightsizer.model.errors import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_systems.reader import read

LIMITS = ReadLimits()
US = 1000


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, and one for temporary files."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    (tmp_path / "passing").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "passing"))
    return folder


def report_in(tmp_path: Path) -> Path:
    """A report in a format that only its program knows."""
    path = tmp_path / "run 1.nsys-rep"
    path.write_bytes(b"\0\1\2" * 100)
    return path


def test_a_report_is_exported_by_its_own_program(programs: Path, tmp_path: Path) -> None:
    """The export is deleted after reading, as it contains the whole environment."""
    export = NsightExport()
    export.kernel(0, 7 * US)
    made = export.write(tmp_path / "made.sqlite")
    fake_nsys(
        programs,
        "import shutil\n"
        "assert words[:4] == ['export', '--type', 'sqlite', '--output'] and len(words) == 6\n"
        "assert words[5].endswith('/run 1.nsys-rep')\n"
        f"shutil.copy({str(made)!r}, words[4])",
    )
    profile = read(report_in(tmp_path), LIMITS)

    assert profile.source == "run 1.nsys-rep"
    assert profile.devices[0].kernels[0].count == 1
    assert list((tmp_path / "passing").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sys.exit(3)", "failed with exit code 3"),
        ("pass", "failed with exit code 0"),
        ("import time; time.sleep(60)", "was not done after 0.2 seconds"),
    ],
)
def test_a_program_that_does_not_do_is_said(
    script: str, said: str, programs: Path, tmp_path: Path
) -> None:
    """The message has the manual command; no file is left behind."""
    fake_nsys(programs, script)

    with pytest.raises(ProfileError, match=said) as raised:
        read(report_in(tmp_path), ReadLimits(export_maximum_seconds=0.2))
    assert "nsys export --type sqlite run 1.nsys-rep" in str(raised.value)
    assert list((tmp_path / "passing").iterdir()) == []


def test_a_report_without_its_program_is_refused_with_the_remedy(
    programs: Path, tmp_path: Path
) -> None:
    """The format is not public."""
    assert list(programs.iterdir()) == []

    with pytest.raises(ProfileError, match=r"nsys.* is not on PATH; run `nsys export"):
        read(report_in(tmp_path), LIMITS)
