"""Trains many runs in one process, which imports torch and DeepSpeed once: `python -m tests.many_runs < settings.json`.

Standard input is a JSON list of settings. A run that ends early does not keep the others from being trained; the last
line of standard output is a JSON list of what each one said then, null for those that came to their end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

#: What every run is unless its settings say otherwise: a few steps of a tiny GPT.
TINY: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "lookback": 2},
    "data": {"sequence_length": 16},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
}


def train_all(cwd: Path, runs: list[dict[str, Any]]) -> list[str | None]:
    """What each run said if it ended early. Paths in the settings are relative to `cwd`."""
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "tests.many_runs"],
        input=json.dumps([{**TINY, **run} for run in runs]),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{cwd}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    import torch
    from deepspeed.accelerator import get_accelerator

    from runner import settings
    from runner.engine import disconnect
    from runner.errors import BrokenOff, CannotStart, Interrupted, UsageError
    from runner.train import train

    # A CPU can do fp16, slowly, and says that it cannot.
    accelerator: Any = get_accelerator()
    accelerator.is_fp16_supported = lambda: True
    torch.set_num_threads(1)
    said: list[str | None] = []
    for values in json.load(sys.stdin):
        try:
            train(settings.read(values))
            said.append(None)
        except (BrokenOff, CannotStart, Interrupted, UsageError) as error:
            said.append(str(error))
        except Exception:
            said.append(traceback.format_exc())
    disconnect()
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    main()
