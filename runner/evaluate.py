"""How well the next byte is predicted in text that was never trained on, in nats per byte."""

from __future__ import annotations

import torch
from torch import Tensor

from runner.data import consecutive, rank_position
from runner.engine import Engine
from runner.environment import Place


def held_out_loss(engine: Engine, tokens: Tensor, length: int, place: Place) -> float:
    """The mean loss over all whole sequences of the text, which the ranks share; the same number on every rank.

    `tokens`: uint8 [n], n > `length`. A byte is predicted from those before it in its sequence.
    """
    inputs, targets = consecutive(tokens, length)
    size = engine.micro_batch_size
    total, seen = torch.zeros(()), 0
    for step in range(-(-len(inputs) // (size * place.world_size))):
        start = rank_position(0, step, place.rank, place.world_size, size)
        count = min(size, max(0, len(inputs) - start))
        # A rank without a share left computes along all the same: at stage 3 a forward pass takes all ranks.
        share = slice(start, start + count) if count else slice(0, 1)
        loss = engine.loss((inputs[share], targets[share]))
        if count:
            total += loss.cpu() * count
            seen += count
    summed, counted = engine.sum_over_ranks(total, seen)
    return summed / counted


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
