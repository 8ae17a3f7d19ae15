"""Whether a run that goes on from a checkpoint equals the uninterrupted one, bit for bit.

    python -m benchmarks.resume [--ranks 2] [--steps 6] [--loader deepspeed] [--only zero3,bf16 --only ...]

Every configuration is trained once without a stop and once with a checkpoint after every step; then a new run goes on
from each of those checkpoints. Compared are the losses of all steps and every tensor of the last checkpoint: weights,
their fp32 copies and the optimizer's moments. Two micro-batches make a step, so that a step lies inside an accumulation
window, and an epoch ends in the middle. Exits 1 if anything differs. What is printed, and looks like
`zero3,bf16,offload_optimizer  after step 4  equal`, is a line for each of those runs.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PRECISIONS = ("bf16", "fp32")
OFFLOADS: dict[int, tuple[tuple[str, ...], ...]] = {
    0: ((),),
    1: ((), ("offload_optimizer",)),
    2: ((), ("offload_optimizer",)),
    3: ((), ("offload_optimizer",), ("offload_optimizer", "offload_param")),
}
#: Of 64 bytes each, 40 sequences: an epoch is 5/4 of a step of 2 ranks, 2 micro-batches and 8 sequences.
TEXT = bytes(range(32, 122)) * 30


def configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """A name and a ds_config for each."""
    for stage, choices in OFFLOADS.items():
        for precision in PRECISIONS:
            for offloads in choices:
                zero = {"stage": stage, **{offload: {"device": "cpu"} for offload in offloads}}
                name = ",".join([f"zero{stage}", precision, *offloads])
                yield (
                    name,
                    {
                        "train_micro_batch_size_per_gpu": 8,
                        "gradient_accumulation_steps": 2,
                        "gradient_clipping": 1.0,
                        "bf16": {"enabled": precision == "bf16"},
                        "zero_optimization": zero,
                    },
                )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resume")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--loader", choices=("runner", "deepspeed"), default="runner", help="who takes the batches")
    parser.add_argument("--only", action="append", help="a configuration, as in zero3,bf16,offload_optimizer")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        return compare(arguments.steps, arguments.loader, arguments.only)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    launcher = ["torch.distributed.run", f"--nproc_per_node={arguments.ranks}", f"--master_port={port}", "-m"]
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", *launcher, "benchmarks.resume", *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, "SCRATCH": scratch}).returncode


def compare(steps: int, loader: str, only: list[str] | None) -> int:
    """In every rank: all configurations; 1 if any resumed run differs."""
    scratch, leads, differs = Path(os.environ["SCRATCH"]), os.environ["RANK"] == "0", 0
    text = scratch / "text"
    if leads:
        text.write_bytes(TEXT)
    for name, ds_config in configurations():
        if only and name not in only:
            continue
        train(scratch / name / "whole", ds_config, steps, text, loader, every=0)
        train(scratch / name / "saved", ds_config, steps, text, loader, every=1)
        if leads:
            differs += _tell(name, 0, scratch / name / "whole", scratch / name / "saved", steps)
        for step in range(1, steps):
            checkpoint = scratch / name / "saved" / "checkpoints" / f"global_step{step}"
            resumed = scratch / name / f"after_{step}"
            train(resumed, ds_config, steps, text, loader, every=0, resume=str(checkpoint))
            if leads:
                differs += _tell(name, step, scratch / name / "whole", resumed, steps)
    from runner.engine import disconnect

    disconnect()
    return int(differs > 0)


def _tell(name: str, step: int, whole: Path, resumed: Path, steps: int) -> int:
    """Print a line of the table; 1 if anything differs."""
    different = _differences(whole, resumed, steps)
    words = f"after step {step}" if step else "only saved"
    print(f"{name:42} {words:12}  {'; '.join(['DIFFERS', *different[:3]]) if different else 'equal'}", flush=True)
    return int(bool(different))


def train(
    run_dir: Path, ds_config: dict[str, Any], steps: int, text: Path, loader: str, *, every: int, resume: str = "never"
) -> None:
    """One run of the runner."""
    from runner import settings
    from runner.train import train

    train(
        settings.read(
            {
                "model": {"layers": 2, "width": 32, "heads": 2, "lookback": 2},
                "data": {"path": str(text), "sequence_length": 64, "loader": loader},
                "training": {"steps": steps, "log_every": 1},
                "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
                "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3, "warmup_max_lr": 0.01}},
                "checkpoint": {"every": every, "keep_last": 0},
                "ds_config": ds_config,
                "run_dir": str(run_dir),
                "resume": resume,
            }
        )
    )


def _differences(whole: Path, resumed: Path, steps: int) -> list[str]:
    expected, found = _losses(whole), _losses(resumed)
    different = [f"loss of step {step}" for step, loss in found.items() if expected[step] != loss]
    last = Path("checkpoints") / f"global_step{steps}"
    names = sorted(path.name for path in (whole / last).glob("*_states.pt"))
    for name in names:
        different += _unequal(_load(whole / last / name), _load(resumed / last / name), name)
    return different if names else ["no files of states"]


def _losses(run_dir: Path) -> dict[int, tuple[float, float]]:
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: (line["loss"], line["lr"]) for line in lines if "loss" in line}


def _load(path: Path) -> dict[str, Any]:
    import torch

    # Written a moment ago, by this very program.
    state = torch.load(path, weights_only=False)
    return {name: value for name, value in state.items() if name not in ("ds_config", "runner")}


def _unequal(one: Any, other: Any, where: str) -> Iterator[str]:
    """Where the tensors, numbers and words of two states differ."""
    import torch

    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name, value in one.items():
            yield from _unequal(value, other[name], f"{where}/{name}")
    elif isinstance(one, (list, tuple)) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _unequal(left, right, f"{where}/{index}")
    elif isinstance(one, torch.Tensor):
        if not torch.equal(one, other):
            yield where
    elif isinstance(one, (dict, list, tuple, int, float, str)) and one != other:
        yield where


if __name__ == "__main__":
    sys.exit(main())
