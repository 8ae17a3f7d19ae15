# pyright: reportUnknownMemberType=false
"""From data to batches: which sample comes when depends on the seed and the position, and on nothing else."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from runner.errors import BrokenOff

#: What a model is called with: a sequence of positional or a mapping of named arguments, most of them tensors.
Batch = Any

_HERE = Path(__file__).resolve().parent


class Order(Protocol):
    """An endless sequence of samples to train on, addressed by position."""

    def epoch(self, position: int) -> int:
        """Which one `position` belongs to, from 0."""
        ...

    def batch(self, position: int, count: int) -> Batch:
        """The samples at `position` to `position + count - 1`."""
        ...

    def forget(self) -> None:
        """Give up the memory that the order of the current epoch takes."""
        ...


class Pool(Protocol):
    """Samples to evaluate on."""

    def __len__(self) -> int: ...

    def batch(self, start: int, count: int) -> Batch:
        """The samples from `start` to `start + count - 1`."""
        ...


def as_tokens(text: bytes) -> Tensor:
    """One token per byte, uint8 [len(text)]."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


class DatasetOrder:
    """The items of a map-style dataset, shuffled anew in each epoch."""

    def __init__(self, dataset: Any, seed: int, collate: Callable[[list[Any]], Batch]) -> None:
        """`collate`: makes a batch of a list of items."""
        self._dataset = dataset
        self._seed = seed
        self._collate = collate
        self.forget()

    def forget(self) -> None:
        self._epoch = -1
        self._items: list[int] = []

    def epoch(self, position: int) -> int:
        return position // len(self._dataset)

    def batch(self, position: int, count: int) -> Batch:
        items = [self._item(position + index) for index in range(count)]
        return _batch(self._dataset, items, self._collate, "data.train")

    def _item(self, position: int) -> int:
        epoch, index = divmod(position, len(self._dataset))
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(mix(self._seed, epoch))
            self._items = cast("list[int]", torch.randperm(len(self._dataset), generator=generator).tolist())
            self._epoch = epoch
        return self._items[index]


class DatasetPool:
    """The items of a map-style dataset, in its own order."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Batch]) -> None:
        self._dataset = dataset
        self._collate = collate

    def __len__(self) -> int:
        return len(self._dataset)

    def batch(self, start: int, count: int) -> Batch:
        return _batch(self._dataset, range(start, start + count), self._collate, "data.held_out")


def _batch(dataset: Any, items: Iterable[int], collate: Callable[[list[Any]], Batch], setting: str) -> Batch:
    """Raises BrokenOff, naming the sample, where the dataset or `collate` fails: that is of no other rank's doing."""
    samples: list[Any] = []
    for item in items:
        try:
            samples.append(dataset[item])
        except Exception as error:
            raise BrokenOff(
                f"{setting}: sample {item} of {len(dataset):,} cannot be had: {_told(error)}\n"
                f"  help: look at the data behind it, and at __getitem__; __len__ must count the samples that are there"
            ) from error
    try:
        return collate(samples)
    except Exception as error:
        raise BrokenOff(
            f"{setting}: samples {', '.join(map(str, items))} make no batch: {_told(error)}\n"
            f"  help: samples must be alike in kind and shape, or data.collate names what makes a batch of them"
        ) from error


def _told(error: BaseException) -> str:
    """An error of somebody else's code, with the line of theirs that it comes from, libraries aside."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename and str(_HERE) not in frame.filename]
    return f"{words} ({own[-1].filename}:{own[-1].lineno})" if own else words


class Windows:
    """All whole sequences of a text, in order and without overlap; also as a dataset of inputs and targets."""

    def __init__(self, tokens: Tensor, length: int) -> None:
        """`tokens`: uint8 [n], n > `length`."""
        self._tokens = tokens
        self._length = length

    def __len__(self) -> int:
        return (self._tokens.numel() - 1) // self._length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        start = index * self._length
        sequence = self._tokens[start : start + self._length + 1].long()
        return sequence[:-1], sequence[1:]

    def batch(self, start: int, count: int) -> Batch:
        first = start * self._length
        return consecutive(self._tokens[first : first + count * self._length + 1], self._length)


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
        self.forget()

    def forget(self) -> None:
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
            generator = torch.Generator().manual_seed(mix(self._seed, epoch))
            phase = torch.randint(self._length, (1,), generator=generator)
            self._starts = phase + self._length * torch.randperm(self._windows, generator=generator)
            self._epoch = epoch
        return int(self._starts[index])


def mix(*numbers: int) -> int:
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
