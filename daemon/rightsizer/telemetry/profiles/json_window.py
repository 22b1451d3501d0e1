"""Window over a long JSON text; what was read is released."""

import codecs
import re
from collections.abc import Callable
from typing import Final

_CHUNK: Final = 2**18
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRUCTURE: Final = re.compile(r'["{}\[\]]')
_STRING_TURN: Final = re.compile(r'["\\]')
_SCALAR_END: Final = re.compile(r"[,\]}\s]")


class JsonWindow:
    """The text from where reading is to what is read ahead, and ways past what is not wanted."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        """Start at the beginning.

        Args:
            read: Gives the next bytes, none at the end.
        """
        self._read = read
        # What is no UTF-8 is told apart no further: names are all that it can be in.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._before = 0
        self.text = ""
        self.at = 0
        self.is_at_end = False

    @property
    def place(self) -> int:
        """Characters before where reading is."""
        return self._before + self.at

    @property
    def ahead(self) -> int:
        """Characters that are read but not used."""
        return len(self.text) - self.at

    def fill(self, size: int = _CHUNK) -> bool:
        """Read on, letting go of what was used; false at the end of the file."""
        if self.is_at_end:
            return False
        data = self._read(size)
        self.is_at_end = not data
        more = self._decoder.decode(data, final=self.is_at_end)
        self._before += self.at
        self.text = self.text[self.at :] + more
        self.at = 0
        return True

    def peek(self) -> str:
        """The next character that is no space; empty at the end of the file."""
        while True:
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.fill():
                return ""

    def passes(self, character: str) -> bool:
        """Go past a character if it is the next one."""
        if self.peek() != character:
            return False
        self.at += 1
        return True

    def skip_value(self) -> bool:
        """Go past a value without building it; false if the file ends before the value does."""
        first = self.peek()
        if first == '"':
            self.at += 1
            return self._skip_string()
        if first and first in "{[":
            return self._skip_nested()
        return self._skip_scalar()

    def _skip_nested(self) -> bool:
        depth = 0
        while True:
            found = self._find(_STRUCTURE)
            if found == "":
                return False
            if found == '"':
                if not self._skip_string():
                    return False
            elif found in "{[":
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    return True

    def _skip_string(self) -> bool:
        while True:
            found = self._find(_STRING_TURN)
            if found != "\\":
                return found == '"'
            if self.at >= len(self.text) and not self._fill_some():
                return False
            self.at += 1

    def _skip_scalar(self) -> bool:
        while True:
            found = _SCALAR_END.search(self.text, self.at)
            if found:
                self.at = found.start()
                return True
            self.at = len(self.text)
            if not self._fill_some():
                return False

    def _find(self, pattern: "re.Pattern[str]") -> str:
        """Go past the next place that matches; empty at the end of the file."""
        while True:
            found = pattern.search(self.text, self.at)
            if found:
                self.at = found.end()
                return found.group()
            self.at = len(self.text)
            if not self._fill_some():
                return ""

    def _fill_some(self) -> bool:
        """Read on until there is something; false at the end of the file."""
        while self.fill():
            if self.at < len(self.text):
                return True
        return False
