"""Learning-rate schedules as torch has them: each makes a scheduler of an optimizer, whose own rate is the peak.

In all of them the rate first rises in a straight line: `warmup_num_steps` steps below the peak, the first of them above
0. Steps count from 0; `total_num_steps` of them are made. `min_ratio`: the rate at the end, as a share of the peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def constant(optimizer: Optimizer, *, warmup_num_steps: int = 0) -> LambdaLR:
    """The peak throughout."""
    return _scheduler(optimizer, warmup_num_steps, lambda step: 1.0)


def linear(
    optimizer: Optimizer, *, total_num_steps: int, warmup_num_steps: int = 0, min_ratio: float = 0.0
) -> LambdaLR:
    """Down from the peak in a straight line."""
    return _scheduler(
        optimizer,
        warmup_num_steps,
        lambda step: _between(1 - _progress(step, warmup_num_steps, total_num_steps), min_ratio),
    )


def cosine(
    optimizer: Optimizer, *, total_num_steps: int, warmup_num_steps: int = 0, min_ratio: float = 0.0
) -> LambdaLR:
    """Down from the peak along half a cosine."""
    return _scheduler(
        optimizer,
        warmup_num_steps,
        lambda step: _between(
            (1 + math.cos(math.pi * _progress(step, warmup_num_steps, total_num_steps))) / 2, min_ratio
        ),
    )


def wsd(
    optimizer: Optimizer,
    *,
    total_num_steps: int,
    decay_num_steps: int,
    warmup_num_steps: int = 0,
    min_ratio: float = 0.0,
) -> LambdaLR:
    """Warm up, stay at the peak, and over the last `decay_num_steps` steps go down in a straight line."""
    return _scheduler(
        optimizer,
        warmup_num_steps,
        lambda step: _between(1 - _progress(step, total_num_steps - decay_num_steps, total_num_steps), min_ratio),
    )


def _scheduler(optimizer: Optimizer, warmup: int, after: Callable[[int], float]) -> LambdaLR:
    return LambdaLR(optimizer, lambda step: (step + 1) / (warmup + 1) if step < warmup else after(step))


def _progress(step: int, start: int, end: int) -> float:
    """0 at `start` and before, 1 at `end` and after."""
    return min(1.0, max(0, step - start) / max(1, end - start))


def _between(share: float, low: float) -> float:
    return low + (1 - low) * share
