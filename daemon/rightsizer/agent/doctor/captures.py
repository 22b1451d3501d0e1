"""Profiles: the folder where they land, and the profiler that is called for one."""

import os
import stat
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import Check, CheckContext, Verdict, is_listened_at, unwell
from rightsizer.io.program import program_of
from rightsizer.notify.webhook.settings import read_token
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings

_LANDING: Final = "profiles beside telemetry"
_CALLING: Final = "profiles taken when a finding asks for one"


def check_drop_folder(place: CheckContext) -> Check:
    """Whether profiles can be read where they land, and captures be kept there."""
    name, settings = "drop folder", place.settings.profiles
    if not settings.drop_folder.path:
        return Check(name, Verdict.UNUSED, "profiles.drop_folder.path is not set")
    folder = Path(settings.drop_folder.path)
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        found = f"there is no folder {folder}, or it is closed to user {os.geteuid()}"
        return unwell(name, Verdict.MISSING, "absent", found, lost=_LANDING)
    if folder.stat().st_mode & stat.S_IWOTH:
        return unwell(name, Verdict.LIMITED, "open", f"everybody may write into {folder}")
    if settings.capture.kind is CaptureKind.NONE:
        return Check(name, Verdict.OK, str(folder))
    if not os.access(folder, os.W_OK):
        found = f"{folder} may not be written by user {os.geteuid()}"
        return unwell(name, Verdict.LIMITED, "closed", found, lost=_CALLING)
    return _room(name, folder, settings.capture)


def _room(name: str, folder: Path, settings: CaptureSettings) -> Check:
    """Whether what captures may fill is there to be filled."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    kept_free = settings.room.minimum_free_ratio * disk.f_blocks * disk.f_frsize
    found = f"{folder}, {free // 2**20} MiB free"
    if free < settings.room.quota_bytes + kept_free:
        return unwell(name, Verdict.LIMITED, "full", found, quota=settings.room.quota_bytes)
    return Check(name, Verdict.OK, found)


def check_capture(place: CheckContext) -> Check:
    """Whether a profiler can be called."""
    name, settings = "capture", place.settings.profiles.capture
    try:
        found = _called(settings, place)
    except (OSError, ValueError) as error:
        return unwell(name, Verdict.MISSING, "wrong", str(error))
    if found is None:
        return Check(name, Verdict.UNUSED, "profiles.capture.kind is none")
    if settings.kind is CaptureKind.DYNOLOG and not is_listened_at(
        "localhost", settings.dynolog.port
    ):
        found = f"no process listens on port {settings.dynolog.port}"
        return unwell(name, Verdict.MISSING, "away", found)
    return Check(name, Verdict.OK, found)


def _called(settings: CaptureSettings, place: CheckContext) -> str | None:
    """Who is called, `None` for no profiler; raises `OSError` or `ValueError` for no one."""
    if settings.kind is CaptureKind.COMMAND:
        return program_of(settings.command[0], place.environ)
    if settings.kind is CaptureKind.DYNOLOG:
        return program_of(settings.dynolog.program, place.environ)
    if settings.kind is CaptureKind.WEBHOOK:
        read_token(settings.webhook.token_file, place.environ)
        return "a webhook; whether it answers is seen with the first capture"
    return None
