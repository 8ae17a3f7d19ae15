"""Trains many runs in one process, which imports torch and DeepSpeed once; under torchrun, in as many as there are ranks.

`settings.json` in the current directory is a list of settings. A run that ends early does not keep the others from being
trained; `said.json` is a list of what each one said then, null for those that came to their end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from runner.environment import free_port

SETTINGS, SAID = "settings.json", "said.json"
#: What every run is unless its settings say otherwise: a few steps of a tiny GPT.
TINY: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "lookback": 2},
    "data": {"sequence_length": 16},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
}


def train_all(cwd: Path, runs: list[dict[str, Any]], ranks: int = 1) -> list[str | None]:
    """What each run said if it ended early. Paths in the settings are relative to `cwd`."""
    root = Path(__file__).resolve().parent.parent
    (cwd / SETTINGS).write_text(json.dumps([{**TINY, **run} for run in runs]))
    launcher = ["torch.distributed.run", f"--nproc_per_node={ranks}", f"--master_port={free_port()}", "-m"]
    done = subprocess.run(
        [sys.executable, "-m", *(launcher if ranks > 1 else []), "tests.many_runs"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{cwd}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((cwd / SAID).read_text())


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
    for values in json.loads(Path(SETTINGS).read_text()):
        try:
            train(settings.read(values))
            said.append(None)
        except (BrokenOff, CannotStart, Interrupted, UsageError) as error:
            said.append(str(error))
        except Exception:
            said.append(traceback.format_exc())
    disconnect()
    if os.environ["RANK"] == "0":
        Path(SAID).write_text(json.dumps(said))


if __name__ == "__main__":
    main()
