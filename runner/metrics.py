"""What the run measured, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path


class Metrics:
    """Appends to `metrics.jsonl`; without a path it writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, **values: float) -> None:
        """Add one line. A number that is not finite is written as null, which JSON has no other word for."""
        if self._path is not None:
            line = {name: value if abs(value) < float("inf") else None for name, value in values.items()}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
