"""One run at a time in a directory."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TextIO

from runner.errors import CannotStart

NAME = "run.lock"


class Lock:
    """Held until the process ends, however it ends: the system lets go of it, and no stale file blocks anybody."""

    def __init__(self, directory: Path, setting: str, name: str = NAME) -> None:
        """`setting`: the one that names the directory. `name`: of the file that is locked.

        Raises CannotStart, naming the owner, if another run has it.
        """
        path = directory / name
        try:
            self._file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise CannotStart(f"{setting}: cannot write to {path}: {error.strerror}") from None
        if not _take(self._file):
            self._file.seek(0)
            owner = self._file.read().strip() or "another process"
            self._file.close()
            raise CannotStart(
                f"{setting}: {directory} is in use by {owner}; wait for it to end, or choose another directory"
            )
        # On a full disk the owner stays nameless.
        with contextlib.suppress(OSError):
            os.truncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())


def is_held(path: Path) -> bool:
    """Whether some process has the lock in the file. True also where that cannot be told."""
    try:
        with path.open("a+", encoding="utf-8") as file:
            return not _take(file)
    except OSError:
        return True


def _take(file: TextIO) -> bool:
    try:
        import fcntl
    except ImportError:
        # Windows, where DeepSpeed does not train either.
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
