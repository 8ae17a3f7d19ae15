"""What the run measured, one JSON object a line."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from pathlib import Path

from dsconf import atomic


class Metrics:
    """Appends to `metrics.jsonl`; without a path it writes nothing.

    Where the disk is full for a while, lines wait until there is room: no run has to end for them.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._waiting = b""

    def rewind(self, step: int) -> None:
        """Forget what was measured after `step`, from where the run goes on and measures it again."""
        if self._path is not None and self._path.exists():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if _step(line) <= step]
            if kept != lines:
                atomic.write_text(self._path, "".join(f"{line}\n" for line in kept))

    def write(self, **values: float | None) -> None:
        """Add one line. A number that is not finite is written as null, which JSON has no other word for."""
        if self._path is None:
            return
        line = {name: None if value is None or not math.isfinite(value) else value for name, value in values.items()}
        told = bool(self._waiting)
        self._waiting += json.dumps(line, allow_nan=False).encode() + b"\n"
        try:
            self.flush()
        except OSError as error:
            if not told:
                print(f"warning: {self._path}: {error.strerror}; what is measured waits in memory", file=sys.stderr)

    def flush(self) -> None:
        """Write what waits. Raises OSError; the file then ends where it did."""
        if self._path is None or not self._waiting:
            return
        with self._path.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                if file.write(self._waiting) < len(self._waiting):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            except OSError:
                file.truncate(end)
                raise
        self._waiting = b""


def _step(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        # Half a line, from a process that was killed while it wrote.
        return math.inf
