"""What tests share: running the command line, and the real engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proof.engine import Engine

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `python -m dsconf` in an empty directory, as a person would."""
    root = Path(__file__).resolve().parent.parent

    def run(*arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
        import os

        env = {**os.environ, "PYTHONPATH": str(root), **environment}
        for name in ("FORCE_COLOR", "NO_COLOR"):
            if name not in environment:
                env.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-m", "dsconf", *arguments], input=stdin, capture_output=True, cwd=tmp_path, env=env
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        )

    return run


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The real DeepSpeed, in a process of its own with its CPU ops loaded."""
    with Engine() as engine:
        yield engine
