"""How well a model does on what it was never trained on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runner.data import Pool, rank_position
from runner.engine import Engine
from runner.environment import Place


@dataclass(frozen=True, slots=True)
class Judgement:
    """`loss`: the mean. `accuracy`: the share of samples whose class was predicted, where they have one."""

    loss: float
    accuracy: float | None

    def __str__(self) -> str:
        return f"held-out loss {self.loss:.3f}" + ("" if self.accuracy is None else f", accuracy {self.accuracy:.1%}")


def judge(engine: Engine, held_out: Pool, place: Place) -> Judgement:
    """Over all samples, which the ranks share; the same on every rank."""
    size = engine.micro_batch_size
    total, right, seen, classes = torch.zeros(()), torch.zeros(()), 0, False
    for step in range(-(-len(held_out) // (size * place.world_size))):
        start = rank_position(0, step, place.rank, place.world_size, size)
        count = min(size, max(0, len(held_out) - start))
        # A rank without a share left computes along all the same: at stage 3 a forward pass takes all ranks.
        loss, accuracy = engine.judge(held_out.batch(start, count) if count else held_out.batch(0, 1))
        classes = accuracy is not None
        if count:
            total += loss.cpu() * count
            right += accuracy.cpu() * count if accuracy is not None else 0
            seen += count
    summed, correct, counted = engine.sum_over_ranks(total, right, seen)
    return Judgement(summed / counted, correct / counted if classes else None)


def bigram_loss(train: Tensor, held_out: Tensor) -> float:
    """What a table of byte pairs reaches on `held_out`: counted in `train`, with one added to every count.

    Both uint8 [n], n > 1. The yardstick: a model that does worse has not learned to look further than one byte.
    """
    pairs = _pairs(train)
    counts = torch.bincount(pairs, minlength=256 * 256).view(256, 256) + 1
    probabilities = (counts / counts.sum(dim=1, keepdim=True)).flatten()
    return float(-probabilities[_pairs(held_out)].double().log().mean())


def _pairs(tokens: Tensor) -> Tensor:
    return tokens[:-1].long() * 256 + tokens[1:].long()
