"""What the run measured, one JSON object a line."""

from __future__ import annotations

import json
import math
from pathlib import Path

from dsconf import atomic


class Metrics:
    """Appends to `metrics.jsonl`; without a path it writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def rewind(self, step: int) -> None:
        """Forget what was measured after `step`, from where the run goes on and measures it again."""
        if self._path is not None and self._path.exists():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if _step(line) <= step]
            if kept != lines:
                atomic.write_text(self._path, "".join(f"{line}\n" for line in kept))

    def write(self, **values: float | None) -> None:
        """Add one line. A number that is not finite is written as null, which JSON has no other word for."""
        if self._path is not None:
            line = {
                name: None if value is None or not math.isfinite(value) else value for name, value in values.items()
            }
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")


def _step(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        # Half a line, from a process that was killed while it wrote.
        return math.inf
