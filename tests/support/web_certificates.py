"""Certificates for tests of TLS, made by the program openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

__all__ = ["Authority", "KeyPair"]


class KeyPair(Struct, frozen=True):
    """A certificate and its key, each a file."""

    certificate: Path
    key: Path


class Authority(Struct, frozen=True):
    """The one who signs certificates; all of it lies in one folder."""

    folder: Path

    @classmethod
    def made(
        cls, folder: Path, extensions: tuple[str, ...] = ("keyUsage=critical,keyCertSign,cRLSign",)
    ) -> "Authority":
        """A new authority; the test is skipped, with the reason, where there is no openssl.

        Python 3.13 and later refuse authorities without key usage (VERIFY_X509_STRICT).
        """
        if shutil.which("openssl") is None:
            pytest.skip("no program openssl to make certificates with")
        folder.mkdir(parents=True, exist_ok=True)
        added = [word for extension in extensions for word in ("-addext", extension)]
        _openssl(
            folder, "req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2",
            "-subj", "/CN=test authority", *added,
        )  # fmt: skip
        return cls(folder)

    @property
    def certificate(self) -> Path:
        """What those who trust it need."""
        return self.folder / "ca.crt"

    def sign(self, name: str, *alternative_names: str, days: str = "2") -> KeyPair:
        """A certificate with subject alternative names, as `DNS:a.example` or `IP:127.0.0.1`."""
        pair = KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        extensions = self.folder / f"{name}.ext"
        names = ",".join(alternative_names)
        extensions.write_text(f"subjectAltName={names}\n" if names else "keyUsage=digitalSignature")
        request = f"{name}.csr"
        _openssl(
            self.folder, "req", "-new", *_NEW_KEY, "-keyout", f"{name}.new", "-out", request,
            "-subj", f"/CN={name}",
        )  # fmt: skip
        _openssl(
            self.folder, "x509", "-req", "-in", request, "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", days, "-extfile", extensions.name, "-out", pair.certificate,
        )  # fmt: skip
        (self.folder / f"{name}.new").replace(pair.key)
        return pair


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(folder: Path, *arguments: str | Path) -> None:
    subprocess.run(
        ["openssl", *map(str, arguments)], cwd=folder, check=True, capture_output=True, timeout=60
    )
