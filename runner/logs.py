"""What each rank prints, in a file of its own in the run directory. On the screen only rank 0 goes on talking."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
from pathlib import Path
from typing import Any, TextIO, cast

_streams: list[_Stream] = []
_screen: TextIO | None = None


class _Stream:
    """Standard output or error, which also goes to a file; what comes before there is one is kept until then."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner
        self.file: TextIO | None = None
        self.early: list[str] = []

    def write(self, text: str) -> int:
        if self.file is None:
            self.early.append(text)
        else:
            # A log that cannot be written must not end the run.
            with contextlib.suppress(OSError):
                self.file.write(text)
        return self.inner.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def start() -> None:
    """Begin to note what this process prints. For a process that is nothing but a rank."""
    faulthandler.enable()
    _streams.extend((_Stream(sys.stdout), _Stream(sys.stderr)))
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in _streams)


def keep_in(directory: Path, rank: int) -> None:
    """Write what was noted, and all that follows, to a file in this directory. Nothing if not started."""
    global _screen
    if not _streams:
        return
    try:
        directory.mkdir(exist_ok=True)
        file = path(directory, rank).open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        print(f"warning: no log of rank {rank}: {error.filename}: {error.strerror}", file=sys.stderr)
        return
    file.write("".join(text for stream in _streams for text in stream.early))
    if rank == 0:
        for stream in _streams:
            stream.file = file
        return
    # Also what libraries print that are not written in Python.
    _screen = os.fdopen(os.dup(_streams[1].fileno()), "w", encoding="utf-8")
    for stream in _streams:
        stream.flush()
        stream.early.clear()
        os.dup2(file.fileno(), stream.fileno())


def alone() -> bool:
    """Whether all that this process prints goes to its log, and nothing to the screen."""
    return _screen is not None


def path(directory: Path, rank: int) -> Path:
    """The log of a rank."""
    return directory / f"rank_{rank}.log"


def show(text: str) -> None:
    """Print for people, whichever rank this is."""
    print(text, file=sys.stderr, flush=True)
    if _screen is not None:
        print(text, file=_screen, flush=True)
