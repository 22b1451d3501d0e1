"""Reader of TensorFlow, JAX and XLA profiles: `*.xplane.pb`."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.reader import Head, ProfileReader, open_unpacked
from rightsizer.telemetry.profiles.xplane.space import SpaceReader
from rightsizer.telemetry.profiles.xplane.wire import FileWindow, XPlaneWireError

_PIECE_BYTES: Final = 1 << 20
_BEGINNING: Final = re.compile(
    # A plane, its length, its id where it has one, and its name with its length.
    rb"^\x0a[\x80-\xff]{0,9}[\x00-\x7f](\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x01-\x7f](/host:|/device:|Task Environment|#)"
)


def recognizes(head: Head) -> bool:
    """Whether a file begins with a plane."""
    return _BEGINNING.match(head.data) is not None


def read(path: Path, limits: ReadLimits) -> Profile:
    """Reads an `XSpace`.

    Raises:
        ProfileError: the file cannot be read, is cut, or is no `XSpace`.
    """
    try:
        space = _read_space(path, limits)
    except XPlaneWireError as error:
        raise ProfileError(
            f"{path}: byte {error.at}: its protocol buffer is broken: {error}; wait until the "
            "profiler has written it, or copy it again"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(
            f"{path}: {reason} while it was read; copy it to another disk"
        ) from error
    return _profile(path, space)


def _read_space(path: Path, limits: ReadLimits) -> SpaceReader:
    with _seekable(path, limits) as file:
        size = file.seek(0, os.SEEK_END)
        if size > limits.unpacked_maximum_bytes:
            raise ProfileError(
                f"{path}: larger than {limits.unpacked_maximum_bytes} bytes; record a shorter "
                "time, or raise unpacked_maximum_bytes"
            )
        space = SpaceReader(FileWindow(file, size), limits)
        space.read()
    return space


def _profile(path: Path, space: SpaceReader) -> Profile:
    devices = space.recorder.devices()
    notes = list(space.messages)
    if space.planes["TPU"]:
        notes.append(f"It has {space.planes['TPU']} TPU planes, which are counted and not read.")
    if space.idle_gpus:
        notes.append(f"{space.idle_gpus} of its {space.planes['GPU']} GPUs did nothing.")
    notes += device_notes(any(each.time for each in devices))
    return Profile(
        format=ProfileFormat.XPLANE,
        source=path.name,
        start=space.start,
        devices=devices,
        host_spans=space.recorder.host_spans(),
        host_steps=space.recorder.host_steps(),
        events=space.events,
        unread=dict(space.unread + space.recorder.refused),
        notes=tuple(notes),
    )


def device_notes(has_kernels: bool) -> list[str]:  # noqa: FBT001 - the one thing that is asked.
    """What limits any profile of XLA."""
    if has_kernels:
        return ["XLA does not write which GPU it is, only its size."]
    return ["There is no kernel of a GPU in it: the host alone was recorded, or no GPU worked."]


@contextmanager
def _seekable(path: Path, limits: ReadLimits) -> Iterator[BinaryIO]:
    """The file, or what is packed in it, on a disk: it is walked several times."""
    with tempfile.TemporaryFile() as unpacked_file:
        with open_unpacked(path, limits) as unpacked:
            is_packed = unpacked.is_packed
            while is_packed and (piece := unpacked.read(_PIECE_BYTES)):
                unpacked_file.write(piece)
        if is_packed:
            yield cast(BinaryIO, unpacked_file)
            return
    with path.open("rb") as file:
        yield file


XPLANE: Final = ProfileReader(ProfileFormat.XPLANE, recognizes, read)
"""`*.xplane.pb`."""
