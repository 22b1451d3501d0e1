"""Who asks: the token, the user or the tenant, and the certificate, as the settings say."""

import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rightsizer.fleet.settings import StoreSettings


def check(settings: StoreSettings) -> None:
    """See that there is one way to say who asks.

    Raises:
        ValueError: there are two, or one that lacks a part.
    """
    if settings.token_file and settings.username:
        raise ValueError(
            "fleet.store.token_file and fleet.store.username are both set, and only one can be "
            "sent; write one of them"
        )
    if settings.key_file and not settings.certificate_file:
        raise ValueError(
            "fleet.store.key_file is set without a certificate; write fleet.store.certificate_file"
        )


def token(settings: StoreSettings) -> str | None:
    """The bearer token of now; kubelets and Vault agents replace such files at any time.

    Raises:
        OSError: the file cannot be read.
        ValueError: there is nothing in it.
    """
    return _secret(settings.token_file, "token_file") if settings.token_file else None


def authorization(settings: StoreSettings) -> Mapping[str, str]:
    """The header of basic authentication, where there is a user.

    Raises:
        OSError: the file cannot be read.
        ValueError: there is nothing in it.
    """
    if not settings.username:
        return {}
    password = _secret(settings.password_file, "password_file") if settings.password_file else ""
    pair = f"{settings.username}:{password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def untold(settings: StoreSettings, text: str) -> str:
    """A text without what must not be told, where a store or a proxy repeats it."""
    found: set[str] = set()
    for path, key in (
        (settings.token_file, "token_file"),
        (settings.password_file, "password_file"),
    ):
        with suppress(OSError, ValueError):
            found |= {_secret(path, key)} if path else set()
    with suppress(OSError, ValueError):
        found |= {each.removeprefix("Basic ") for each in authorization(settings).values()}
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, "***")
    # Tenants are often short words or numbers: they are taken out where they stand alone.
    tenant = re.escape(settings.tenant)
    return re.sub(rf"(?<![\w.:/-]){tenant}(?![\w.:/-])", "***", text) if tenant else text


def certificate(settings: StoreSettings) -> tuple[str, str] | None:
    """The files of the certificate to show and of its key, which may be in the same file."""
    if not settings.certificate_file:
        return None
    return settings.certificate_file, settings.key_file or settings.certificate_file


def _secret(path: str, key: str) -> str:
    text = Path(path).read_text(encoding="utf-8").strip()
    if not text:
        raise ValueError(f"'{path}' of fleet.store.{key} is empty")
    return text
