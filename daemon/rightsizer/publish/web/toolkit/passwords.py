"""Whether a name and a password belong together, at a price that strangers cannot drive up."""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

from rightsizer.publish.web.toolkit.password_settings import PasswordSettings
from rightsizer.publish.web.toolkit.turns import Turns

__all__ = ["Passwords", "Verdict"]

_LONGEST_BYTES: Final = 72
"""What bcrypt looks at; whatever made the hash has cut off the rest as well."""
_NOBODY: Final = b"QOauhQNbBCuQDKes6eFzPe3JbmNeyqFmBMLtIfBZ9v8nKcpdxBVoi"
"""Salt and digest of a password that nobody has."""


class Verdict(Enum):
    """What came of a check."""

    RIGHT = auto()
    WRONG = auto()
    BUSY = auto()
    """It was not checked: too many wait."""


class Passwords:
    """Checks passwords against bcrypt hashes; safe to ask from any thread.

    What was right is remembered apart from what was wrong, so that nobody who guesses can make
    a client's own password be forgotten, and with it be checked anew behind all the guesses.
    """

    def __init__(
        self,
        settings: PasswordSettings,
        *,
        clock: Callable[[], float] = time.perf_counter,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """A check that remembers nothing yet.

        Args:
            settings: How much work it takes upon itself.
            clock: Seconds that pass, to measure what a check costs.
            pause: Waits; called after a wrong password, in the thread of whoever sent it.
        """
        self._settings, self._clock, self._pause = settings, clock, pause
        self._secret = secrets.token_bytes()
        self._right = _Memory(settings.remembered_maximum)
        self._wrong = _Memory(settings.remembered_maximum)
        self._turns = Turns(
            settings.waiting_maximum, settings.waiting_per_client, settings.wait_seconds
        )

    def check(self, users: Mapping[str, bytes], name: str, password: bytes, client: str) -> Verdict:
        """Whether one of the users has this name and password.

        Args:
            users: Hashes by name.
            name: Who somebody says that he is.
            password: How he proves it.
            client: The address that he asks from.
        """
        # A name that nobody has takes as long as one that somebody has.
        hashed = users.get(name) or _hash_of_nobody(users)
        key = self._key(name.encode(), hashed, password)
        if key in self._right:
            return Verdict.RIGHT
        if key in self._wrong:
            return Verdict.WRONG
        with self._turns.turn(client) as has_turn:
            if not has_turn:
                return Verdict.BUSY
            # Another request with the same password may have been before this one.
            if key in self._right:
                return Verdict.RIGHT
            return self._checked(key, hashed, password, is_known=name in users)

    def _checked(self, key: bytes, hashed: bytes, password: bytes, *, is_known: bool) -> Verdict:
        started = self._clock()
        if _matches(password, hashed) and is_known:
            self._right.add(key)
            return Verdict.RIGHT
        self._wrong.add(key)
        seconds = self._clock() - started
        rest = seconds / self._settings.share_ratio - seconds
        self._pause(min(rest, self._settings.pause_maximum_seconds))
        return Verdict.WRONG

    def _key(self, *parts: bytes) -> bytes:
        """What stands for a password in memory: nothing that it can be made out from."""
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            digest.update(len(part).to_bytes(8) + part)
        return digest.digest()


class _Memory:
    """The newest of what was added."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._kept: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def add(self, key: bytes) -> None:
        """Keep one more; only whoever has the turn may."""
        self._kept[key] = None
        if len(self._kept) > self._maximum:
            self._kept.popitem(last=False)


def _matches(password: bytes, hashed: bytes) -> bool:
    # An agent without users does without it.
    import bcrypt  # noqa: PLC0415

    try:
        return bcrypt.checkpw(password[:_LONGEST_BYTES], hashed)
    except ValueError:
        return False


def _hash_of_nobody(users: Mapping[str, bytes]) -> bytes:
    costliest = max((hashed[:7] for hashed in users.values()), key=lambda head: head[4:6])
    return costliest + _NOBODY
