"""How far a long validation is, on a terminal's standard error."""

from __future__ import annotations

import sys

#: So many files are checked in the blink of an eye.
_STEP = 100


class Progress:
    """A line that counts files, from the hundredth on; nothing at all where standard error is no terminal."""

    def __init__(self) -> None:
        self._files = 0
        self._visible = False
        self._wanted = sys.stderr.isatty()

    def advance(self) -> None:
        """One more file is done."""
        self._files += 1
        if self._wanted and self._files % _STEP == 0:
            sys.stderr.write(f"\r\x1b[K{self._files} files checked")
            sys.stderr.flush()
            self._visible = True

    def clear(self) -> None:
        """Make way for other output."""
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._visible = False
