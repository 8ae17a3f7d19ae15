"""From text to batches: which sequence comes when depends on the seed and the position, and on nothing else."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def as_tokens(text: bytes) -> Tensor:
    """One token per byte, uint8 [len(text)]."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


class TrainingOrder:
    """An endless sequence of training sequences, addressed by position.

    In each epoch the text, taken as a ring, is cut into windows at a new random phase, and the windows are
    shuffled. Position p is the same window in every process and for every number of processes.
    """

    def __init__(self, tokens: Tensor, length: int, seed: int) -> None:
        """`tokens`: uint8 [n], n > `length`, the bytes per sequence."""
        self._tokens = tokens
        self._length = length
        self._seed = seed
        self._windows = tokens.numel() // length
        self._epoch = -1
        self._starts = torch.empty(0, dtype=torch.int64)

    def epoch(self, position: int) -> int:
        """Which one `position` belongs to, from 0."""
        return position // self._windows

    def batch(self, position: int, count: int) -> tuple[Tensor, Tensor]:
        """The sequences at `position` to `position + count - 1`: inputs and targets, int64 [count, length] each."""
        starts = torch.tensor([self._start(position + index) for index in range(count)])
        places = starts[:, None] + torch.arange(self._length + 1)
        sequences = self._tokens[places % self._tokens.numel()].long()
        return sequences[:, :-1], sequences[:, 1:]

    def _start(self, position: int) -> int:
        epoch, index = divmod(position, self._windows)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(_mix(self._seed, epoch))
            phase = torch.randint(self._length, (1,), generator=generator)
            self._starts = phase + self._length * torch.randperm(self._windows, generator=generator)
            self._epoch = epoch
        return int(self._starts[index])


def _mix(*numbers: int) -> int:
    """One seed from several numbers; of a seed, torch's generator heeds the lower 32 bits only."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=4).digest(), "big")


def rank_position(done: int, step: int, rank: int, world_size: int, count: int) -> int:
    """Where `rank`'s share of micro-step `step` starts, when every rank takes `count` sequences.

    `done`: sequences that were taken, by all ranks together, before micro-step 0.
    """
    return done + (step * world_size + rank) * count


def consecutive(tokens: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """All whole sequences of the text, in order and without overlap: inputs and targets, int64 [k, length] each."""
    count = (tokens.numel() - 1) // length
    inputs = tokens[: count * length].view(count, length)
    targets = tokens[1 : count * length + 1].view(count, length)
    return inputs.long(), targets.long()
