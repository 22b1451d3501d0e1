"""What a library lends its callers by opaque handles: sample buffers, event sets."""

import threading
from typing import Generic, TypeVar

from rightsizer.telemetry.simulated.library.calls import Code, Refusal

__all__ = ["Lent"]

_Thing = TypeVar("_Thing")
_STRIDE = 0x100


class Lent(Generic[_Thing]):
    """Things by the addresses that stand for them."""

    def __init__(self, first_address: int) -> None:
        """Nothing is lent yet."""
        self._things: dict[int, _Thing] = {}
        self._next = first_address
        self._lock = threading.Lock()

    def lend(self, thing: _Thing) -> int:
        """The address of a new thing."""
        with self._lock:
            address = self._next
            self._next += _STRIDE
            self._things[address] = thing
            return address

    def get(self, address: int) -> _Thing:
        """The thing at an address.

        Raises:
            Refusal: there is none.
        """
        try:
            return self._things[address]
        except KeyError:
            raise Refusal(Code.INVALID_ARGUMENT) from None

    def exchange(self, address: int, thing: _Thing) -> None:
        """Put another thing at an address.

        Raises:
            Refusal: there is none yet.
        """
        with self._lock:
            if address not in self._things:
                raise Refusal(Code.INVALID_ARGUMENT)
            self._things[address] = thing

    def give_back(self, address: int) -> None:
        """End a loan.

        Raises:
            Refusal: there is none, as when it is ended twice.
        """
        with self._lock:
            if self._things.pop(address, None) is None:
                raise Refusal(Code.INVALID_ARGUMENT)

    def __len__(self) -> int:
        return len(self._things)
