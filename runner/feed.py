# DeepSpeed leaves most types out; they end here.
# pyright: reportUnknownMemberType=false
"""Which batches this rank trains on: its share of an order of ours, or of what DeepSpeed loads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import torch

from runner.data import Batch, Order, mix, rank_position
from runner.environment import Place
from runner.errors import BrokenOff


class Feed(Protocol):
    """Batches by how many samples all ranks together have taken before."""

    def epoch(self, samples: int) -> int:
        """Which one the next sample belongs to, from 0."""
        ...

    def batches(self, samples: int, count: int) -> list[Batch]:
        """The next `count` micro-batches of this rank."""
        ...


@dataclass(frozen=True, slots=True)
class Shared:
    """Every rank takes `size` samples in turn of the same order."""

    order: Order
    place: Place
    size: int

    def epoch(self, samples: int) -> int:
        return self.order.epoch(samples)

    def batches(self, samples: int, count: int) -> list[Batch]:
        rank, world_size = self.place.rank, self.place.world_size
        starts = (rank_position(samples, micro, rank, world_size, self.size) for micro in range(count))
        return [self.order.batch(start, self.size) for start in starts]


class Loaded:
    """The loader that DeepSpeed makes of `training_data`, with the epoch and the seed that it is never told of."""

    def __init__(self, loader: Any, seed: int, place: Place, size: int) -> None:
        self._loader = loader
        self._seed = seed
        self._rank = place.rank
        self._round = size * place.world_size
        self._at = -1
        self._batches: Iterator[Batch] = iter(())
        loader.data_sampler.seed = mix(seed)

    def epoch(self, samples: int) -> int:
        return samples // self._round // len(self._loader)

    def batches(self, samples: int, count: int) -> list[Batch]:
        first = samples // self._round
        return [self._batch(first + micro) for micro in range(count)]

    def _batch(self, number: int) -> Batch:
        epoch, index = divmod(number, len(self._loader))
        if number != self._at or index == 0:
            self._loader.data_sampler.set_epoch(epoch)
            # What its processes draw must depend on the epoch alone, and what this one draws must not change.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(mix(self._seed, epoch, self._rank))
                self._batches = islice(iter(self._loader), index, None)
                found = self._next()
        else:
            found = self._next()
        self._at = number + 1
        return found

    def _next(self) -> Batch:
        try:
            return next(self._batches)
        except Exception as error:
            # What happened in a process of the loader comes with its traceback as text.
            *_, words = str(error).strip().splitlines() or ["the loader had no more batches"]
            raise BrokenOff(
                f"data.train: a batch cannot be had: {words}\n"
                f"  help: look at the dataset's __getitem__ and data.collate; data.loader=runner names the sample"
            ) from error
