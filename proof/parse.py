"""What a release of DeepSpeed's own parser says about many configurations: one process, nothing trained, no ops."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proof.older import environment, installed, prepare


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the parser raised."""

    error: str
    message: str


def parse_all(texts: Sequence[str], site: Path | None = None) -> list[Refusal | None]:
    """For each configuration, as the text of a file, what the parser raised on one rank; None where it took it.

    `site`: the folder of another release than the installed one.

    Raises:
        RuntimeError: the process could not load DeepSpeed.
    """
    done = subprocess.run(
        (sys.executable, "-m", "proof.parse"),
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parent.parent,
        env={**os.environ, "DS_ACCELERATOR": "cpu", **(environment(site) if site else {})},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Refusal(*item) if item else None for item in json.loads(done.stdout)]


def _answer() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    prepare(installed())
    import deepspeed
    from deepspeed.runtime.config import DeepSpeedConfig

    deepspeed.utils.logger.setLevel(logging.CRITICAL)
    said: list[tuple[str, str] | None] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ds_config.json"
        for text in json.load(sys.stdin):
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
            try:
                DeepSpeedConfig(str(file))
                said.append(None)
            except Exception as error:
                said.append((type(error).__name__, str(error)))
    json.dump(said, answers)


if __name__ == "__main__":
    _answer()
