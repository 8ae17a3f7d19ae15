"""When training has gone wrong so far that to go on would only spoil the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from runner import lifeline, logs
from runner.errors import BrokenOff


@dataclass(slots=True)
class Guard:
    """`max_loss_ratio`: of the loss to the first one; 0: any. `max_skipped`: fp16 steps in a row. `fp16`: whether a
    loss or gradient that is not finite only makes DeepSpeed skip the step. `skipped`: steps skipped so far.
    """

    max_loss_ratio: float
    max_skipped: int
    fp16: bool
    first_loss: float | None = None
    skipped: int = 0
    _in_a_row: int = 0

    def loss(self, step: int, value: float) -> None:
        """Judge the mean loss of all ranks, before the weights change. Raises BrokenOff."""
        if not math.isfinite(value) and not self.fp16:
            raise BrokenOff(
                f"step {step}: the loss is {value}; the weights are still those of step {step - 1}\n{_HELP}"
            )
        if self.first_loss is None and math.isfinite(value):
            self.first_loss = value
        limit = self.max_loss_ratio * (self.first_loss or 0)
        if 0 < limit < value:
            raise BrokenOff(
                f"step {step}: the loss explodes: {value:.4g}, {self.max_loss_ratio:g} times what it was at first "
                f"({self.first_loss:.4g}); the weights are still those of step {step - 1}\n{_HELP}, or raise "
                f"training.max_loss_ratio"
            )

    def update(self, step: int, gradient_norm: float | None, skipped_steps: int) -> None:
        """Judge an update after it was made, or skipped. Raises BrokenOff."""
        self._in_a_row = self._in_a_row + 1 if skipped_steps > self.skipped else 0
        self.skipped = skipped_steps
        if self._in_a_row >= self.max_skipped:
            raise BrokenOff(
                f"step {step}: the gradients overflowed in {self._in_a_row} steps in a row, which were skipped\n"
                f"  help: train in bf16, or lower fp16.initial_scale_power, or lower the learning rate"
            )
        if gradient_norm is not None and not math.isfinite(gradient_norm) and not self.fp16:
            raise BrokenOff(f"step {step}: the gradient's norm is {gradient_norm}, and the weights are spoilt\n{_HELP}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, which torch reports in one way on accelerators and in another on CPUs."""
    words = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in words or "can't allocate memory" in words)
    )


def is_timeout(error: BaseException) -> bool:
    """Whether a rank has waited for others for as long as it may."""
    words = str(error).lower()
    return isinstance(error, RuntimeError) and ("timed out" in words or "timeout" in words)


def stalled(when: str, minutes: float, directory: Path | None = None) -> BrokenOff:
    """For whom this rank has waited in vain, as far as it knows. `directory`: of the logs."""
    ranks = lifeline.behind()
    who = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else "another rank"
    where = f"; where it stood when it was ended is in {logs.path(directory, ranks[0])}" if ranks and directory else ""
    return BrokenOff(
        f"{when}: waited {minutes:g} minutes for {who} in vain{where}\n"
        f"  help: look at what it does there (data that does not come, a disk or host that hangs), or raise "
        f"distributed.timeout_minutes"
    )


OUT_OF_MEMORY_HELP = (
    "  help: lower ds_config.train_micro_batch_size_per_gpu and raise ds_config.gradient_accumulation_steps as much, "
    "shorten the samples, or take a preset that shards or offloads more (zero3, zero3_offload)"
)

_HELP = (
    "  help: lower optimizer.params.lr, warm up longer, clip with ds_config.gradient_clipping=1.0, or look for "
    "broken data"
)
