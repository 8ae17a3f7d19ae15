"""How much longer a step takes in the runner than in the least loop that one writes by hand around DeepSpeed.

    python -m benchmarks.overhead [--preset zero2] [--pairs 40]

The runner trains the GPT that it trains by default, and writes metrics and a line of progress for every step. In the
same process, on the same configuration as the runner wrote it, the same model and the same samples, a second engine
takes a step by hand whenever the runner asks for its next batch; so each pair of steps runs under the same load. Shown
are the medians of both, and the median of the pairs' ratios; exits 1 if that is above 1.02.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import default_collate

from runner.data import Windows, as_tokens
from runner.settings import DataSettings, ModelSettings
from runner.text import read

WARM_UP = 5
LIMIT = 1.02
MODEL = {"layers": 4, "width": 192, "heads": 6}


class Text(Windows):
    """The samples: 128 bytes each, and what follows them; `held_out`: a few, for the evaluation at the end."""

    def __init__(self, *, held_out: bool = False) -> None:
        tokens = as_tokens(read(DataSettings(sequence_length=128)).train)
        super().__init__(tokens[: 8 * 128 + 1] if held_out else tokens, 128)


class ByHand:
    """The other engine and its loop."""

    def __init__(self, ds_config: dict[str, Any]) -> None:
        import deepspeed

        from runner.model.gpt import GPT

        torch.manual_seed(0)
        model = GPT(ModelSettings.model_validate(MODEL))
        self.engine: Any = deepspeed.initialize(model=model, config=ds_config)[0]
        self.data = Text()

    def step(self, number: int) -> None:
        self.engine.train()
        size = self.engine.train_micro_batch_size_per_gpu()
        first = number * size % (len(self.data) - size)
        inputs, targets = default_collate([self.data[index] for index in range(first, first + size)])
        loss = self.engine(inputs.to(self.engine.device), targets.to(self.engine.device))
        self.engine.backward(loss)
        self.engine.step()


class Pairs:
    """Times of both, one for each step."""

    def __init__(self) -> None:
        self.run_dir = Path()
        self.runner: list[float] = []
        self.by_hand: list[float] = []
        self._other: ByHand | None = None
        self._since = 0.0

    def collate(self, items: list[Any]) -> Any:
        """Make the runner's next batch; the runner's last step has just ended."""
        now = time.perf_counter()
        if self._other is None:
            self._other = ByHand(json.loads((self.run_dir / "ds_config.json").read_text()))
        else:
            self.runner.append(now - self._since)
        start = time.perf_counter()
        self._other.step(len(self.by_hand))
        self.by_hand.append(time.perf_counter() - start)
        self._since = time.perf_counter()
        return default_collate(items)


PAIRS = Pairs()


def collate(items: list[Any]) -> Any:
    """What the runner's settings name."""
    from benchmarks import overhead

    return overhead.PAIRS.collate(items)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead")
    parser.add_argument("--preset", default="zero2")
    parser.add_argument("--pairs", type=int, default=40)
    arguments = parser.parse_args()

    from benchmarks import overhead
    from dsconf import presets
    from runner import settings
    from runner.engine import disconnect
    from runner.train import train

    data = {"_target_": "benchmarks.overhead.Text"}
    with tempfile.TemporaryDirectory() as scratch:
        overhead.PAIRS.run_dir = Path(scratch) / "run"
        train(
            settings.read(
                {
                    "model": MODEL,
                    "data": {
                        "train": data,
                        "held_out": {**data, "held_out": True},
                        "collate": "benchmarks.overhead.collate",
                    },
                    "training": {"steps": WARM_UP + arguments.pairs + 1, "log_every": 1},
                    "optimizer": {"type": "AdamW", "params": {"lr": 0.005}},
                    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3, "warmup_max_lr": 0.005}},
                    "checkpoint": {"every": 0},
                    "ds_config": presets.read(arguments.preset),
                    "run_dir": str(overhead.PAIRS.run_dir),
                }
            )
        )
    disconnect()
    taken = slice(WARM_UP, WARM_UP + arguments.pairs)
    runner, by_hand = overhead.PAIRS.runner[taken], overhead.PAIRS.by_hand[taken]
    ratio = statistics.median(one / other for one, other in zip(runner, by_hand, strict=True))
    print(f"runner   {statistics.median(runner) * 1e3:8.2f} ms a step")
    print(f"by hand  {statistics.median(by_hand) * 1e3:8.2f} ms a step")
    print(f"ratio    {ratio:8.3f}  median of {len(runner)} pairs, {arguments.preset}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
